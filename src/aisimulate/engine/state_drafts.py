"""The scheduler of a vLLM rank of a hybrid model that decodes speculatively.

A forward that verifies drafts computes all but the last token of its burst; the state may be that of a full
prefix before it, so the blocks to copy it are set aside with those that the longest burst opens. Only what
the state is at the end of a burst can be resumed from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.speculative import SpeculativeScheduler
from aisimulate.engine.state_scheduler import StateScheduler

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence


class StateDraftScheduler(StateScheduler):
    """A rank whose requests have a state and get a varying number of tokens from each pass."""

    __slots__ = ()

    _price = SpeculativeScheduler._price  # the decode forward verifies first tokens, too
    _set_burst_aside = SpeculativeScheduler._set_burst_aside

    def _most_resumed(self, sequence: Sequence, cached: int) -> int:
        blocks = super()._most_resumed(sequence, cached)
        # The draft head needs the hidden states of the last cached block.
        return blocks - 1 if blocks and sequence.tokens < sequence.end_tokens else blocks

    def _settle_ready(self) -> None:
        """Tell who emits at the end of the pass; whose burst would not fit if it were alone is given up."""
        most, capacity = self._acceptance.most_tokens, self.params.num_gpu_blocks
        for sequence in self.running[:]:
            if sequence.computed == sequence.tokens < sequence.end_tokens:
                blocks = self._burst_blocks(sequence, most) + sequence.held_blocks
                if blocks + self.copies.blocks > capacity:
                    self._give_up(sequence)
        super()._settle_ready()

    def _longest_bursts(self, most_tokens: int) -> int:
        return sum(self._burst_blocks(sequence, most_tokens) for sequence in self.ready)

    def _burst_blocks(self, sequence: Sequence, most_tokens: int) -> int:
        """Count the blocks of the longest burst: those it opens, and a copy of a state it writes again."""
        end = min(sequence.tokens + most_tokens, sequence.end_tokens)
        blocks = -(-end // self.block_size) - sequence.held_blocks
        if end > sequence.tokens + 1 and self.states[sequence].is_published:
            blocks += self.copies.blocks
        return blocks

    def _plan_decoding(self) -> int:
        """Plan every pass by itself."""
        return 0

    def _keep_burst(self, sequence: Sequence) -> None:
        """Compute all but the last token of a burst, in the blocks that were set aside for it."""
        state, number = self.states[sequence], self.decoders.passes - 1
        if state.is_published and sequence.tokens - 1 > state.computed:
            self._set_aside -= self.copies.blocks
            self.copies.preserve(state, number)
        SpeculativeScheduler._keep_burst(self, sequence)
        self._write(sequence, sequence.computed, number)
