"""The TensorRT-LLM scheduler of one rank under GUARANTEED_NO_EVICT (spec 01 section 3.2).

Passes are those of the vLLM scheduler. What differs is who is let in: a request enters only if the blocks of
its whole prompt and output are left over by what the running ones still have to take, so nothing is ever
preempted. A prompt that is cached completely is not computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.admission import SEQUENCE_OVER_CAPACITY, enter
from aisimulate.engine.decode_set import running_order
from aisimulate.engine.scheduler import RankScheduler

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams
    from aisimulate.engine.sequence import Sequence


class NoEvictScheduler(RankScheduler):
    """A rank that promises every admitted request all its blocks.

    `headroom_blocks`: what is promised to nobody. A running request turns promised blocks into held ones, so
    only admissions and completions change it.
    """

    __slots__ = ("_room_tokens", "headroom_blocks")

    def __init__(self, params: RankParams, timer: PassTimer) -> None:
        super().__init__(params, timer)
        self._room_tokens = params.total_kv_tokens
        self.headroom_blocks = params.num_gpu_blocks
        self.try_admit = try_admit

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence that arrived on this rank; its output is cut to what the pool can hold."""
        room = self._room_tokens
        if sequence.input_tokens < room < sequence.end_tokens:
            sequence.end_tokens = room
        super().submit(sequence)
        if sequence.reason is None and sequence.end_tokens > room:
            sequence.reason = SEQUENCE_OVER_CAPACITY

    def needs_budget(self, sequence: Sequence) -> bool:
        """Whether a waiting sequence cannot be admitted once the token budget is gone.

        Only a prompt of whole blocks can be cached completely and enter without a token to compute.
        """
        return sequence.keys is None or sequence.tokens % self.block_size != 0

    def _needs_steps(self, opening: int) -> bool:
        """Whether a pass has to be scheduled request by request: the last ones may get no token."""
        self.overtaken = self.watchful = self.partial is not None
        return self.overtaken

    def claim(self, sequence: Sequence, held: int) -> bool:
        """Promise a sequence its blocks but the `held` ones of its cached prefix, if that many are left."""
        needed = -(-sequence.end_tokens // self.block_size) - held
        if needed > self.headroom_blocks:
            return False
        self.headroom_blocks -= needed
        return True

    def complete(
        self, sequences: list[Sequence], uncomputed: int, end_ns: int, terminal: list[Sequence]
    ) -> None:
        """End sequences, whose blocks and unused promises become headroom."""
        if self.decoders.reordered:
            sequences.sort(key=running_order)
        pool, size = self.pool, self.block_size
        held = pool.room
        super().complete(sequences, uncomputed, end_ns, terminal)
        self.headroom_blocks += pool.room - held
        if uncomputed:
            for sequence in sequences:
                if sequence.tokens % size == 1:
                    # A block for the last token alone was promised, but is not needed.
                    self.headroom_blocks += 1


def try_admit(rank: NoEvictScheduler, sequence: Sequence, now_ns: int) -> bool:
    """Admit the head if all it will ever need fits and the budget gives it a token; else do nothing."""
    pool, size = rank.pool, rank.block_size
    keys = sequence.keys
    match = pool.miss if keys is None else pool.match(keys, sequence.input_tokens // size)
    needed = -(-sequence.end_tokens // size) - match[1]
    overtakes = rank.partial is not None
    if needed > rank.headroom_blocks or not enter(rank, sequence, match, 0, now_ns):
        return False
    rank.headroom_blocks -= needed
    if overtakes and rank.joining and rank.joining[-1] is sequence:
        rank.overtaken = rank.watchful = rank.decoders.reordered = rank.unusual = True
    return True
