"""Scheduling of the running sequences one by one, for the passes that have no closed form.

Two cases need it: more decoders than the token budget, and preemption from the head of the running order
(fifo), where a victim may already be scheduled and the list shifts under the loop (spec 01 section 3.1
steps 2, 4 and 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.preemption import preempt_decoder, preempt_partial

if TYPE_CHECKING:
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def schedule_running(rank: RankScheduler, now_ns: int) -> None:
    """Schedule decoders and the unfinished prefill in running order; `rank.budget` is what they leave.

    Decoders that get no token in this pass end up in `rank.held_back`.
    """
    _RunningLoop(rank, now_ns).run()


class _RunningLoop:
    def __init__(self, rank: RankScheduler, now_ns: int) -> None:
        self.rank = rank
        self.now_ns = now_ns
        rank.budget = rank.pass_tokens
        self.running: list[Sequence] = list(rank.decoders.members)
        if rank.partial is not None:
            self.running.append(rank.partial)
        self.scheduled: dict[Sequence, None] = {}

    def run(self) -> None:
        index = 0
        while index < len(self.running) and self.rank.budget > 0:
            sequence = self.running[index]
            if sequence is self.rank.partial:
                self._finish(reaches_partial=True)
                return
            # A preemption in front shifts the list but not the index: the next sequence is passed over.
            index += self._decode(sequence)
        self._finish(reaches_partial=False)

    def _finish(self, reaches_partial: bool) -> None:
        rank = self.rank
        rank.publish([sequence for sequence in self.scheduled if sequence in rank.planned], 1)
        if reaches_partial and rank.partial is not None:
            self._continue_partial(rank.partial)
        rank.held_back = [sequence for sequence in rank.decoders.members if sequence not in self.scheduled]

    def _decode(self, sequence: Sequence) -> bool:
        """Schedule one token of a decoder; False when it preempted itself."""
        rank = self.rank
        opens = (rank.decoders.passes + sequence.base) % rank.params.block_size == 1
        if opens:
            if not self._make_room(sequence, 1):
                return False
            rank.pool.take(1)
        self.scheduled[sequence] = None
        self.rank.budget -= 1
        return True

    def _continue_partial(self, sequence: Sequence) -> None:
        rank = self.rank
        start = sequence.computed
        end = start + min(sequence.tokens - start, self.rank.budget)
        blocks = rank.chunk_blocks(start, end)
        if self._make_room(sequence, blocks):
            rank.pool.take(blocks)
            rank.schedule_chunk(sequence, start, end)

    def _make_room(self, sequence: Sequence, blocks: int) -> bool:
        """Preempt until `blocks` can be allocated; False when `sequence` itself had to go."""
        pool = self.rank.pool
        while pool.free + pool.inactive < blocks:
            victim = self.running.pop(0 if self.rank.fifo else -1)
            if victim is self.rank.partial:
                preempt_partial(self.rank)
            else:
                was_scheduled = victim in self.scheduled
                if was_scheduled:
                    del self.scheduled[victim]
                    self.rank.budget += 1
                preempt_decoder(self.rank, victim, self.now_ns, scheduled=was_scheduled)
            if victim is sequence:
                return False
        return True
