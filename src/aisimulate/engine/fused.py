"""The scheduler of a rank whose mixed passes are one forward (spec 01 section (a) 1 and 2).

A pass that computes a chunk of any request is priced by `PassTimer.fused_ns`: over each chunk, recomputed
generated tokens included, and over one token of every other request that gets one. A chunk that ends a
prompt, or what is recomputed of it, samples the next token itself. Passes that only decode, and what is
scheduled in any pass, are as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.scheduler import RankScheduler

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams
    from aisimulate.engine.sequence import Sequence


class FusedScheduler(RankScheduler):
    """A `RankScheduler` that remembers whose chunks are in the pass being planned.

    It has no slots of its own, so that it can be put before another kind of rank.
    """

    __slots__ = ()

    fused = True

    def __init__(self, params: RankParams, timer: PassTimer) -> None:
        super().__init__(params, timer)
        self._chunks: list[Sequence] = []

    def schedule_chunk(self, sequence: Sequence, start: int, end: int) -> None:
        """Book a chunk whose blocks are taken."""
        self._chunks.append(sequence)
        super().schedule_chunk(sequence, start, end)

    def unschedule(self, sequence: Sequence) -> None:
        """Take back the chunk of a sequence from the pass being planned."""
        self._chunks.remove(sequence)
        super().unschedule(sequence)

    def _price(self) -> None:
        decoders = self.decoders
        batch = self.gap_weight = decoders.count
        context = decoders.context_tokens
        if self.unusual and (self.stalled or self.held_back):
            batch, context = self._without_held_back(batch, context)
        spans = []
        for sequence in self._chunks:
            if sequence.computed > sequence.chunk_start:
                spans.append((sequence.chunk_start, sequence.computed))
            elif sequence.tokens < sequence.end_tokens:
                # All of it was cached: nothing but its next token is computed.
                batch += 1
                context += sequence.tokens
        self._chunks.clear()
        # The groups of the two forwards, which this pass does not have.
        self._chunk_count = self._chunk_ends = self._chunk_starts = 0
        self._joining_batch = self._joining_context = 0
        if spans:
            self.pass_ns = self.timer.fused_ns(spans, batch, context)
        else:
            self.pass_ns = self.timer.decode_ns(batch, context) if batch else 0
