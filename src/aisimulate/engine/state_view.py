"""A `StateScheduler` for those who watch it: it looks inside and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.speculative_view import SpeculativeRankView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.engine.pass_view import RankPass
    from aisimulate.engine.state_scheduler import StateScheduler


class StateRankView(SpeculativeRankView):
    """A rank whose requests have a state; without drafts, first tokens come from prefills."""

    __slots__ = ()

    _rank: StateScheduler

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`."""
        work = super().read(now_ns)
        if not self._rank.params.nextn:
            work.verified = 0
        outgrown = self._rank.outgrown
        work.rejected = [sequence for sequence in work.rejected if sequence not in outgrown]
        return work

    def _private_blocks(self) -> Iterator[int]:
        """Count what each running request holds outside of the tree; a published state is held, too."""
        yield from super()._private_blocks()
        yield len(self._rank.states) * self._rank.copies.blocks
