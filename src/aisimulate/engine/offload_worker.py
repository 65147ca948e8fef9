"""A worker whose rank has host memory: it may have to sleep until a copy ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.offload_lanes import NEVER_NS
from aisimulate.engine.worker import RankWorker

if TYPE_CHECKING:
    from aisimulate.engine.offload_scheduler import Offloading
    from aisimulate.engine.sequence import Sequence


class OffloadWorker(RankWorker):
    """A `RankWorker` that may be awake without anything to do before `wake_ns`.

    A run ends when a copy does, so that what follows from it is done at the same pass end as ever.
    """

    __slots__ = ()

    _rank: Offloading

    @property
    def wake_ns(self) -> int:
        """When to call `start` again although nothing arrived; far away if there is no reason to."""
        return self._rank.wake_ns

    @property
    def background_ns(self) -> int:
        """The same while more may happen in the fleet."""
        return min(self._rank.wake_ns, self._rank.background_ns)

    @property
    def is_linked(self) -> bool:
        """Whether other workers may change what is found here."""
        return self._rank.host.is_shared

    def give_up(self) -> bool:
        """Wait no longer for what others do; return whether anybody here did."""
        return self._rank.give_up()

    @property
    def interrupts(self) -> bool:
        """Whether passes in flight elsewhere must not go on as runs."""
        return False

    def start(self, now_ns: int) -> bool:
        """Begin a pass, or a run of passes, at `now_ns`; return whether there was anything to do."""
        rank = self._rank
        rank.end_copies(now_ns)
        if not rank.has_work:
            return False
        self.plans += 1
        passes = rank.plan(now_ns)
        if rank.host.idle:
            return False
        self._begin(passes, now_ns)
        if rank.run_batch and rank.host.busy:
            self.cut(rank.host.next_end_ns)
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
            else:
                wake_ns = self.background_ns if until_ns < NEVER_NS else self.wake_ns
                if wake_ns >= until_ns:
                    break
                now_ns = max(now_ns, wake_ns)
        return now_ns
