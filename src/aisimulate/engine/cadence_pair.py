"""The prefill cadence of decode workers: what they compute again waits for its pass (spec 01 section 2.5).

Prefill workers have none: whoever has its prompt computed leaves there, so that nobody decodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.cadence import CadenceGroup, CadenceScheduler
from aisimulate.engine.decode_rank import DecodeRank
from aisimulate.engine.destinations import Destinations

if TYPE_CHECKING:
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


class CadenceDecodeRank(DecodeRank, CadenceScheduler):
    """A decode rank of vLLM whose group keeps a cadence."""


class PairCadenceGroup(CadenceGroup):
    """A group of decode ranks, which hear of sequences by their handoffs.

    The count begins anew when nobody is there and nobody is expected.
    """

    __slots__ = ()

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        terminal = super().finish()
        if not any(rank.waiting or rank.has_runner or _expects(rank) for rank in self.ranks):
            self._step = 0
        return terminal


def _expects(rank: RankScheduler) -> bool:
    """Whether a prompt is on its way to a rank, or waits for blocks there."""
    return isinstance(rank, Destinations) and bool(rank.held or rank.pending)
