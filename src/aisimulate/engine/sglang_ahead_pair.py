"""Ranks of SGLang prefill and decode workers that plan one pass ahead (docs/look-ahead.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.sequence import COMPLETED, REJECTED
from aisimulate.engine.sglang_ahead import AheadSglangScheduler
from aisimulate.engine.sglang_pair import SglangDecodeRank, SglangPrefillRank
from aisimulate.engine.sglang_scheduler import tokens_left

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import SglangParams
    from aisimulate.engine.sequence import Sequence


class AheadSglangPrefillRank(AheadSglangScheduler, SglangPrefillRank):
    """Computes prompts; one is handed over when the pass that ends it has ended."""

    def end(self, ending: list[Sequence], end_ns: int) -> None:
        """Let prompts that are computed, those without output first, wait for the end of the pass."""
        del end_ns
        ending.sort(key=tokens_left)
        size = self.pool.page_size
        self.leaving += [(s, -(-s.computed // size) - s.inserted, 0) for s in ending]

    def depart(self, end_ns: int) -> list[Sequence]:
        """End, at the end of the pass in flight, those who end with it; return them in order."""
        terminal, self.turned_away = self.turned_away, []
        for sequence in terminal:
            sequence.status, sequence.terminal_ns = REJECTED, end_ns
        leaving, self.leaving = self.leaving, []
        self.held += len(leaving)
        return terminal + [sequence for sequence, _, _ in leaving]

    def lost_spans(self) -> list[tuple[int, int]]:
        """List the pass intervals of decoders that did not complete: nobody decodes here."""
        return []


class AheadSglangDecodeRank(AheadSglangScheduler, SglangDecodeRank):
    """Decodes sequences whose prompt was computed elsewhere."""

    @property
    def taken(self) -> int:
        """Slots of those who end with the pass in flight."""
        return len(self.leaving)

    @property
    def does_something(self) -> bool:
        """Whether the planned pass does anything."""
        return super().does_something or bool(self._done and not self.selected)

    def depart(self, end_ns: int) -> list[Sequence]:
        """End, at the end of the pass in flight, those who end with it; return them in order."""
        ended = super().depart(end_ns)
        self._releases += sum(sequence.status == COMPLETED for sequence in ended)
        return ended


def make_ahead_sglang_stage(params: SglangParams, timer: PassTimer, stage: str) -> AheadSglangScheduler:
    """Make a rank of the stage "prefill" or "decode" that plans one pass ahead."""
    return (AheadSglangPrefillRank if stage == "prefill" else AheadSglangDecodeRank)(params, timer)
