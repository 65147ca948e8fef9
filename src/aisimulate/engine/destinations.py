"""What decode ranks of all backends have in common: destinations that wait for the blocks of their prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import deque

    from aisimulate.engine.handoff import Handoff


class Destinations(ABC):
    """The queue of destinations without blocks, tried from its head (spec 01 section 6).

    `held` counts prompts that have blocks here and are still to come; `_releases` changes whenever blocks or
    a slot become free.
    """

    # No slots of its own: the ranks that it is combined with have none either.

    pending: deque[Handoff]
    held: int
    _releases: int

    @property
    def is_due(self) -> bool:
        """Whether the head of `pending` is to be tried at the end of the next pass."""
        return bool(self.pending) and self.pending[0].attempted != self._releases

    @property
    def has_seat(self) -> bool:
        """Whether the rank takes another destination at all, whatever its blocks."""
        return True

    def attempt(self) -> Handoff | None:
        """Reserve blocks for the head of `pending`, if anything changed since it was tried last."""
        if not self.is_due:
            return None
        handoff = self.pending[0]
        handoff.attempted = self._releases
        if not self.has_seat or not self.reserve(handoff):
            return None
        self.held += 1
        return self.pending.popleft()

    @abstractmethod
    def reserve(self, handoff: Handoff) -> bool:
        """Take the blocks of a prompt, or do nothing."""
