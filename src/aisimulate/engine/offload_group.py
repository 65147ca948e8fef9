"""A worker of several ranks with host memory each: the group may have to sleep until a copy ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aisimulate.engine.cadence import CadenceGroup
from aisimulate.engine.group import GroupWorker

if TYPE_CHECKING:
    from aisimulate.engine.offload_scheduler import Offloading
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


class OffloadGroup(GroupWorker):
    """A `GroupWorker` that may be awake without anything to do before `wake_ns`.

    While a copy is on its way on any rank, passes are planned one by one.
    """

    __slots__ = ()

    @property
    def _offloading(self) -> list[Offloading]:
        return cast("list[Offloading]", self.ranks)

    @property
    def wake_ns(self) -> int:
        """When to call `start` again although nothing arrived; far away if there is no reason to."""
        return min(rank.wake_ns for rank in self._offloading)

    @property
    def background_ns(self) -> int:
        """The same while more may happen in the fleet."""
        return self.wake_ns

    @property
    def is_linked(self) -> bool:
        """Whether other workers may change what is found here."""
        return any(rank.host.is_shared for rank in self._offloading)

    def give_up(self) -> bool:
        """Wait no longer for what others do; return whether anybody here did."""
        return any(rank.give_up() for rank in self._offloading)

    @property
    def interrupts(self) -> bool:
        """Whether passes in flight elsewhere must not go on as runs."""
        return False

    def start(self, now_ns: int) -> bool:
        """Begin a group pass, or a run of them, at `now_ns`; return whether there was anything to do."""
        for rank in self._offloading:
            rank.end_copies(now_ns)
        if not self.has_work:
            return False
        super().start(now_ns)
        self.busy = not all(rank.host.idle for rank in cast("list[Offloading]", self._active))
        if not self.busy:
            self._skip(now_ns)
        return self.busy

    def _skip(self, now_ns: int) -> None:
        """Take note of a pass in which nothing was done."""

    def _limit(self, passes: int) -> int:
        """Cut a run where a copy may end, or something else than its own members ends it."""
        if any(rank.host.is_awaited for rank in self._offloading):
            return 1
        return super()._limit(passes)

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        if not self.busy:
            return []
        terminal = super().finish()
        for rank in self._offloading:
            if rank.held:  # blocks are old in the order in which stores and handovers let go of them
                rank.end_copies(self.end_ns)
        return terminal

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


class Restless:
    """The groups of a fleet that are tried again whenever anything happens to any of its workers."""

    __slots__ = ("groups", "has_others", "members")

    def __init__(self) -> None:
        self.members: list[OffloadCadenceGroup] = []  # all of the fleet
        self.has_others = False
        self.groups: set[OffloadCadenceGroup] = set()


class OffloadCadenceGroup(OffloadGroup, CadenceGroup):
    """The same where prefills are scheduled in intervals; the count goes on while anything is copied.

    The reference tries a group that has nothing to do, but somebody in a queue, at every instant at which
    anything happens in its fleet, and twice: until nothing happens any more. Every try counts as a pass.
    One in which a load begins is followed by two more, if another worker is not within a pass.
    So nobody plans runs while there is such a group; `restless` is common to the fleet.
    """

    __slots__ = ("_begun", "_restless", "_tried_ns", "_tries")

    def __init__(self, ranks: list[RankScheduler], interval: int, restless: Restless) -> None:
        super().__init__(ranks, interval)
        self._restless = restless
        restless.members.append(self)
        self._tried_ns = -1
        self._tries = 0  # at that instant
        self._begun = 0  # loads, before this try

    @property
    def is_linked(self) -> bool:
        """Whether it has to be tried when something happens elsewhere."""
        return self._restless.has_others or super().is_linked

    @property
    def interrupts(self) -> bool:
        """Whether passes in flight elsewhere must not go on as runs."""
        return self in self._restless.groups

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence; one that arrives when all others and all copies have ended begins anew."""
        if self._drained and any(
            rank.host.lanes.last_end_ns > sequence.arrival_ns for rank in self._offloading
        ):
            self._drained = False
        super().submit(sequence)

    def start(self, now_ns: int) -> bool:
        """Begin a group pass, or a run of them, at `now_ns`; return whether there was anything to do."""
        self._restless.groups.discard(self)
        self._begun = self._loads_begun()
        is_busy = super().start(now_ns)
        if self._is_queued() and not is_busy and self._restless.has_others:
            self._restless.groups.add(self)
        return is_busy

    def _limit(self, passes: int) -> int:
        """Cut a run also where a group that waits counts the passes of others."""
        return 1 if self._restless.groups else super()._limit(passes)

    def _others_rest(self, now_ns: int) -> bool:
        """Whether another worker of the fleet is not within a pass."""
        members = self._restless.members
        return any(not (other.busy and other.end_ns > now_ns) for other in members if other is not self)

    def _loads_begun(self) -> int:
        return sum(rank.host.lanes.loads_begun for rank in self._offloading)

    def _is_queued(self) -> bool:
        """Whether somebody has to wait in a queue."""
        return any(rank.waiting for rank in self.ranks)

    def _defers(self, rank: RankScheduler) -> bool:
        """Whether a rank has prefills that wait for a pass which schedules them."""
        return super()._defers(rank) or bool(cast("Offloading", rank).host.aside)

    @property
    def wake_ns(self) -> int:
        """When to call `start` again: where somebody has to wait in a queue, at the end of any copy."""
        if self._is_queued():
            return min(rank.host.next_end_ns for rank in self._offloading)
        return super().wake_ns

    def _skip(self, now_ns: int) -> None:
        """Count it, and more if somebody still has to wait in a queue, but not again at this instant."""
        if now_ns > self._tried_ns:
            self._tried_ns, self._tries = now_ns, 0
        tries = self._tries + 1
        if self._is_queued() and self.wake_ns > now_ns:
            is_followed = self._loads_begun() > self._begun and self._others_rest(now_ns)
            tries = 3 if is_followed else 2
        if tries > self._tries:
            self._step += tries - self._tries
            self._tries = tries

    def _is_drained(self) -> bool:
        """Whether all requests have left, also those that wait for a copy."""
        return not (self.has_work or any(rank.host.aside for rank in self._offloading))
