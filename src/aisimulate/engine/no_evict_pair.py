"""Ranks of prefill and decode workers of TensorRT-LLM: whoever gets blocks gets all it will need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.decode_rank import DecodeRank
from aisimulate.engine.destinations import ArrivalQueue
from aisimulate.engine.no_evict import NoEvictScheduler
from aisimulate.engine.prefill_rank import PrefillRank

if TYPE_CHECKING:
    from aisimulate.engine.handoff import Handoff
    from aisimulate.engine.sequence import Sequence


class NoEvictPrefillRank(PrefillRank, NoEvictScheduler):
    """Computes prompts. The promise of a block for the hidden token ends with the prefill."""

    def complete(
        self, sequences: list[Sequence], uncomputed: int, end_ns: int, terminal: list[Sequence]
    ) -> None:
        """End the prefill of sequences; their blocks stay held."""
        super().complete(sequences, uncomputed, end_ns, terminal)
        size = self.block_size
        for sequence in sequences:
            self.headroom_blocks += -(-sequence.end_tokens // size) - -(-sequence.input_tokens // size)

    def release(self, sequence: Sequence) -> None:
        """Give back the blocks of a sequence whose prefill ended."""
        pool = self.pool
        available = pool.room
        super().release(sequence)
        self.headroom_blocks += pool.room - available


class NoEvictDecodeRank(DecodeRank, NoEvictScheduler):
    """Reserves fresh blocks for the whole prompt, and promises those of the output."""

    receive = ArrivalQueue.receive  # which calls what is different here

    def reserve(self, handoff: Handoff) -> bool:
        """Take blocks for a prompt if those of its output are to be had as well, or do nothing."""
        size, sequence = self.block_size, handoff.request
        needed = -(-sequence.end_tokens // size)
        if needed > self.headroom_blocks:
            return False
        self.headroom_blocks -= needed
        fresh = -(-sequence.input_tokens // size)
        self.pool.take(fresh)
        handoff.missing_tokens = fresh * size
        return True
