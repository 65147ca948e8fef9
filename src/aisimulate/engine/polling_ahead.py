"""A worker that plans one pass ahead, and looks for requests only before every n-th of its plans."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from aisimulate.engine.ahead_worker import AheadWorker
from aisimulate.engine.polling import PollingWorker

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence


class PollingAheadWorker(PollingWorker):
    """A `PollingWorker` that counts plans: an idle worker makes two of them at once."""

    __slots__ = ()

    def start(self, now_ns: int) -> bool:
        """Look into the inbox if it is time, begin what was planned and plan on; return whether it can."""
        inner: Any = self._inner
        if not inner.has_work:
            self._count = 0
        if self._count % self._interval == 0:
            self._receive()
        plans = 2 if inner.flight_ns is None else 1
        started: bool = inner.start(now_ns)
        if not started and self._inbox:
            self._receive()  # what is there waits for something else
            started = inner.start(now_ns)
        if started:
            self._count += plans
            if self._inbox:
                self._shorten(-self._count % self._interval)
        self._look()
        return started

    def _shorten(self, passes: int) -> None:
        """Plan again when so many of the planned passes have ended."""
        inner: Any = self._inner
        if inner._ended <= passes:
            return
        if passes:
            inner._ended = passes
            inner.settle()
        else:
            inner.cut(inner._start_ns)

    def cut(self, at_ns: int) -> None:
        """Plan again at the first look at or after `at_ns`, if somebody waits for it."""
        inner: Any = self._inner
        if not self._inbox or not inner._ended:
            return
        ended = _ended_by(inner, at_ns)
        self._shorten(ended + -(self._count + ended) % self._interval)
        self._look()

    def finish(self) -> list[Sequence]:
        """End what ends at `end_ns`; return the sequences that became terminal, in order."""
        inner: Any = self._inner
        terminal: list[Sequence] = inner.finish()
        self._count += inner._ended  # passes of a run, each of them planned
        self._look()
        return terminal


def _ended_by(worker: Any, at_ns: int) -> int:  # noqa: ANN401 - any that looks ahead
    """Count the planned passes up to the first that ends at or after `at_ns`; 0: the one in flight does."""
    elapsed_ns = at_ns - worker._start_ns
    if elapsed_ns <= 0:
        return 0
    if isinstance(worker, AheadWorker):
        rank = worker._rank
        run = rank.run_batch, rank.run_context, worker._ended
        return int(worker._timer.passes_until(*run, elapsed_ns)[0])
    while len(worker._durations) < worker._ended and worker._totals[-1] < elapsed_ns:
        worker._price_more()
    return int(min(worker._ended, bisect_left(worker._totals, elapsed_ns) + 1))
