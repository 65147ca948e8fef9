"""A worker that plans one pass ahead, and looks for requests only before every n-th of its plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.engine.polling import PollingWorker, passes_until

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence


class PollingAheadWorker(PollingWorker):
    """A `PollingWorker` that counts plans: an idle worker makes two of them at once."""

    __slots__ = ()

    def start(self, now_ns: int) -> bool:
        """Look into the inbox if it is time, begin what was planned and plan on; return whether it can."""
        inner: Any = self._inner
        plans = 2 if inner.flight_ns is None else 1
        started = self._receive_and_start(now_ns)
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
        # None of the planned passes where the one in flight ends by then.
        ended = passes_until(inner, inner._ended, at_ns) if at_ns > inner._start_ns else 0
        self._shorten(ended + -(self._count + ended) % self._interval)
        self._look()

    def finish(self) -> list[Sequence]:
        """End what ends at `end_ns`; return the sequences that became terminal, in order."""
        inner: Any = self._inner
        terminal: list[Sequence] = inner.finish()
        self._count += inner._ended  # passes of a run, each of them planned
        self._look()
        return terminal
