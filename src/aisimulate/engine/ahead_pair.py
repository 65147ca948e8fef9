"""Ranks of prefill and decode workers that plan one pass ahead (docs/look-ahead.md).

What happens between passes without look-ahead (destinations that get their blocks, prompts that are handed
over or given back) happens at the end of the pass in flight, before the next plan is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.decode_rank import DecodeRank
from aisimulate.engine.look_ahead import LookAhead
from aisimulate.engine.no_evict_pair import NoEvictDecodeRank, NoEvictPrefillRank
from aisimulate.engine.prefill_rank import PrefillRank

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams


class AheadPrefillRank(LookAhead, PrefillRank):
    """Computes prompts; one is handed over when the pass that ends it has ended."""

    def lost_spans(self) -> list[tuple[int, int]]:
        """List the pass intervals of decoders that did not complete: nobody decodes here."""
        return []


class AheadNoEvictPrefillRank(AheadPrefillRank, NoEvictPrefillRank):
    """The same for TensorRT-LLM."""


class AheadDecodeRank(LookAhead, DecodeRank):
    """Decodes sequences whose prompt was computed elsewhere."""

    @property
    def has_seat(self) -> bool:
        """Whether another sequence may run here."""
        running = self.decoders.count + len(self.joining) + len(self.done) + (self.partial is not None)
        return running + len(self.departing) < self.params.max_num_seqs


class AheadNoEvictDecodeRank(AheadDecodeRank, NoEvictDecodeRank):
    """The same for TensorRT-LLM."""


_RANKS: dict[tuple[str, str], type[AheadPrefillRank] | type[AheadDecodeRank]] = {
    ("vllm", "prefill"): AheadPrefillRank,
    ("vllm", "decode"): AheadDecodeRank,
    ("trtllm", "prefill"): AheadNoEvictPrefillRank,
    ("trtllm", "decode"): AheadNoEvictDecodeRank,
}


def make_ahead_stage(params: RankParams, timer: PassTimer, stage: str) -> LookAhead:
    """Make a rank of the stage "prefill" or "decode" that plans one pass ahead."""
    return _RANKS[params.backend, stage](params, timer)
