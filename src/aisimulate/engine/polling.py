"""A worker whose front end hands requests over only before every n-th pass while it is busy.

Idle, it takes a request at once, and counts its passes anew (docs/front-end.md).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, TypeAlias

from aisimulate.engine.run_worker import RunWorker
from aisimulate.engine.worker import RankWorker

if TYPE_CHECKING:
    from aisimulate.engine.ahead_group import AheadRankGroup, AheadSglangGroup
    from aisimulate.engine.ahead_worker import AheadRankWorker
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.group import GroupWorker
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.sglang_ahead import AheadSglangWorker
    from aisimulate.engine.sglang_worker import SglangGroup, SglangWorker

Inner: TypeAlias = (
    "RankWorker | SglangWorker | GroupWorker | SglangGroup | "
    "AheadRankWorker | AheadSglangWorker | AheadRankGroup | AheadSglangGroup"
)


class PollingWorker:
    """Wraps a worker; requests wait in `_inbox` until it looks."""

    __slots__ = ("_count", "_inbox", "_inner", "_interval", "busy", "end_ns", "exact")

    def __init__(self, inner: Inner, interval: int) -> None:
        if isinstance(inner, RankWorker):
            inner.plans_chunks = False
        self._inner = inner
        self._interval = interval
        self._count = 0  # passes since it became busy
        self._inbox: list[Sequence] = []
        self._look()

    def _look(self) -> None:
        inner = self._inner
        self.busy, self.exact, self.end_ns = inner.busy, inner.exact, inner.end_ns

    @property
    def has_work(self) -> bool:
        """Whether a pass can start."""
        return bool(self._inbox) or self._inner.has_work

    @property
    def passes(self) -> int:
        """Passes simulated so far."""
        return self._inner.passes

    @property
    def plans(self) -> int:
        """Passes or runs planned so far."""
        return self._inner.plans

    def submit(self, sequence: Sequence) -> None:
        """Put a sequence into the inbox."""
        self._inbox.append(sequence)

    def start(self, now_ns: int) -> bool:
        """Look into the inbox if it is time, and begin a pass or a run; return whether there was work."""
        started = self._receive_and_start(now_ns)
        if started and self._inbox:
            self._shorten(self._interval - self._count % self._interval)
        self._look()
        return started

    def _receive_and_start(self, now_ns: int) -> bool:
        inner = self._inner
        if not inner.has_work:
            self._count = 0
        if self._count % self._interval == 0:
            self._receive()
        started = inner.start(now_ns)
        if not started and self._inbox:
            self._receive()  # what is there waits for something else
            started = inner.start(now_ns)
        return started

    def _receive(self) -> None:
        for sequence in self._inbox:
            self._inner.submit(sequence)
        self._inbox.clear()

    def _shorten(self, passes: int) -> None:
        """End the run in flight after so many passes."""
        inner = self._inner
        if inner._passes <= passes:
            return
        inner._passes = passes
        inner.settle()

    def settle(self) -> None:
        """Price the passes in flight exactly."""
        self._inner.settle()
        self._look()

    def cut(self, at_ns: int) -> None:
        """End the run in flight at the first look at or after `at_ns`, if somebody waits for it."""
        inner = self._inner
        if not self._inbox or inner._passes <= 1:
            return
        begun = passes_until(inner, inner._passes, at_ns)
        self._shorten(begun + -(self._count + begun) % self._interval)
        self._look()

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        inner = self._inner
        before = inner.passes
        terminal = inner.finish()
        self._count += inner.passes - before
        self._look()
        return terminal

    def advance(self, now_ns: int, until_ns: int) -> int:
        """Run all passes that start before `until_ns`, the first at `now_ns`; return when the last ends."""
        while now_ns < until_ns and self.start(now_ns):
            self._inner.cut(until_ns)
            self.finish()
            now_ns = self._inner.end_ns
        return now_ns

    def last_boundary_ns(self, limit_ns: int) -> int:
        """Return the last pass boundary at or before `limit_ns` of the passes in flight."""
        return self._inner.last_boundary_ns(limit_ns)

    def pack_log(self) -> None:
        """Let what was logged so far take less memory."""
        self._inner.pack_log()

    def close(self) -> GapLog:
        """Return the finished gap log."""
        return self._inner.close()


def passes_until(worker: Inner, most: int, at_ns: int) -> int:
    """Count the passes from `worker._start_ns` on up to the first that ends at or after `at_ns`.

    There are `most` of them, all of one run.
    """
    elapsed_ns = at_ns - worker._start_ns
    if isinstance(worker, RunWorker):
        rank = worker._rank
        return int(worker._timer.passes_until(rank.run_batch, rank.run_context, most, elapsed_ns)[0])
    while len(worker._durations) < most and worker._totals[-1] < elapsed_ns:
        worker._price_more()
    return min(most, bisect_left(worker._totals, elapsed_ns) + 1)
