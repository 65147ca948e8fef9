"""What decode ranks of all backends have in common: destinations that wait for the blocks of their prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Collection

    from aisimulate.engine.handoff import Handoff
    from aisimulate.engine.sequence import Sequence


class Destinations(ABC):
    """The queue of destinations without blocks, tried from its head (spec 01 section 6).

    `coming` are those with blocks whose prompt is still to come, `held` is their number; `arrived` are
    sequences with their prompt that wait for a slot, unless they do so in the scheduler's queue. `_releases`
    changes whenever blocks or a slot become free.
    """

    # No slots of its own: the ranks that it is combined with have none either.

    waiting: Any  # what kind of queue, differs
    pending: deque[Handoff]
    coming: dict[Handoff, None]
    arrived: Collection[Sequence] = ()
    held: int
    is_freed: bool = False  # whether blocks have become free while nothing runs, so that the head is tried
    _releases: int

    @property
    def is_due(self) -> bool:
        """Whether the head of `pending` is to be tried at the end of the next pass."""
        return bool(self.pending) and self.pending[0].attempted != self._releases

    @property
    def has_candidates(self) -> bool:
        """Whether anybody may be let into a pass."""
        return bool(self.waiting)

    @property
    def has_seat(self) -> bool:
        """Whether the rank takes another destination at all, whatever its blocks."""
        return True

    def come_to(self, now_ns: int) -> None:
        """Let what goes on beside the passes have gone on until now: nothing does."""
        del now_ns

    def attempt(self) -> Handoff | None:
        """Reserve blocks for the head of `pending`, if anything changed since it was tried last."""
        if not self.is_due:
            return None
        handoff = self.pending[0]
        handoff.attempted = self._releases
        if not self.has_seat or not self.reserve(handoff):
            return None
        self.held += 1
        self.coming[handoff] = None
        return self.pending.popleft()

    def came(self, handoff: Handoff) -> None:
        """Expect a prompt no more: it is here, or will not come."""
        self.held -= 1
        del self.coming[handoff]

    def receive(self) -> Handoff | None:
        """`attempt`, and `activate` at once, where a prompt takes no time to arrive."""
        handoff = self.attempt()
        if handoff is not None:
            self.activate(handoff)
        return handoff

    @abstractmethod
    def activate(self, handoff: Handoff) -> None:
        """Let in a prompt that has arrived."""

    @abstractmethod
    def reserve(self, handoff: Handoff) -> bool:
        """Take the blocks of a prompt, or do nothing."""


class ArrivalQueue(Destinations):
    """Decode ranks that let a sequence into the scheduler's queue once it has its prompt.

    In that queue `computed` tells those from preempted ones (0), which compute everything again.
    """

    # No slots either.

    waiting: deque[Sequence]
    unblocked: bool
    accepted: int

    def take_on(self, handoff: Handoff) -> bool:
        """Queue a destination, whose sequence is the last of the queue; refuse one that can never run."""
        sequence = self.waiting.pop()  # it enters the queue when it is activated
        handoff.order = self.accepted
        self.accepted += 1
        if sequence.reason is not None:
            return False
        self.pending.append(handoff)
        return True

    def queue_arrived(self, handoff: Handoff) -> None:
        """Expect a prompt no more, and queue its sequence."""
        self.came(handoff)
        self.queue(handoff)

    def queue(self, handoff: Handoff) -> None:
        """Queue a sequence that has its prompt, by the order in which destinations were accepted."""
        for index, queued in enumerate(self.waiting):
            if queued.handoff.order > handoff.order:
                self.waiting.insert(index, handoff.request)
                return
        self.waiting.append(handoff.request)

    def unblock(self) -> bool:
        """Let a sequence that has its prompt pass a head that waits for its blocks, if there is one."""
        self.unblocked = self.first_arrived() is not None
        return self.unblocked

    def first_arrived(self) -> Sequence | None:
        """Find the sequence that has its prompt and was accepted first."""
        arrived = [sequence for sequence in self.waiting if sequence.computed]
        return min(arrived, key=_acceptance, default=None)


def _acceptance(sequence: Sequence) -> int:
    return sequence.handoff.order
