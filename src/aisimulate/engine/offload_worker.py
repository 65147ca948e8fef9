"""A worker whose rank has host memory: it may have to sleep until a copy ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.worker import RankWorker

if TYPE_CHECKING:
    from aisimulate.engine.offload_scheduler import Offloading
    from aisimulate.engine.sequence import Sequence


class OffloadWorker(RankWorker):
    """A `RankWorker` that may be awake without anything to do before `wake_ns`.

    Runs are only planned while no copy is on its way, so no copy ends during a run.
    """

    __slots__ = ()

    _rank: Offloading

    @property
    def wake_ns(self) -> int:
        """When to call `start` again although nothing arrived; far away if there is no reason to."""
        return self._rank.wake_ns

    def start(self, now_ns: int) -> bool:
        """Begin a pass, or a run of passes, at `now_ns`; return whether there was anything to do."""
        rank = self._rank
        rank.host.end_copies(now_ns)
        if not rank.has_work:
            return False
        self.plans += 1
        passes = rank.plan(now_ns)
        if rank.host.idle:
            return False
        self._begin(passes, now_ns)
        return True

    def _begin(self, passes: int, now_ns: int) -> None:
        rank = self._rank
        self.busy = True
        self._start_ns = now_ns
        self._passes = passes
        self.exact = not rank.run_batch
        if rank.run_batch:
            length_ns = self._timer.run_floor_ns(rank.run_batch, rank.run_context, passes)
        else:
            length_ns = rank.pass_ns
        self.end_ns = now_ns + length_ns

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        return self._end_planned() if self.busy else []

    def advance(self, now_ns: int, until_ns: int) -> int:
        """Run all passes that start before `until_ns`, the first at `now_ns`; return when the last ends."""
        while now_ns < until_ns:
            if self.start(now_ns):
                self.cut(until_ns)
                self.finish()
                now_ns = self.end_ns
            elif self.wake_ns < until_ns:
                now_ns = self.wake_ns
            else:
                break
        return now_ns
