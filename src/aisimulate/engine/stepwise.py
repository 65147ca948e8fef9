"""Scheduling of the running sequences one by one, for the passes that have no closed form.

Three cases need it: more decoders than the token budget, preemption from the head of the running order
(fifo), where a victim may already be scheduled and the list shifts under the loop (spec 01 section 3.1
steps 2, 4 and 5), and decoders behind an unfinished prefill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.decode_set import running_order
from aisimulate.engine.preemption import preempt_decoder, preempt_partial, preempt_scheduled

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
        self.running.sort(key=running_order)
        self.scheduled: dict[Sequence, None] = {}
        self.computing: Sequence | None = None  # the prefill, once its chunk is in the pass

    def run(self) -> None:
        index = 0
        while index < len(self.running) and self.rank.budget > 0:
            sequence = self.running[index]
            if self.rank.deferring and sequence is self.rank.partial and not self._has_prompt(sequence):
                index += 1
                continue
            # A preemption in front shifts the list but not the index: the next sequence is passed over.
            index += self._continue(sequence) if sequence is self.rank.partial else self._decode(sequence)
        rank = self.rank
        self._publish()
        rank.held_back = [sequence for sequence in rank.decoders.members if sequence not in self.scheduled]

    def _has_prompt(self, sequence: Sequence) -> bool:
        return sequence.computed >= sequence.input_tokens

    def _publish(self) -> None:
        rank = self.rank
        rank.publish([sequence for sequence in self.scheduled if sequence in rank.planned], 1)

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

    def _continue(self, sequence: Sequence) -> bool:
        """Compute the next chunk of the unfinished prefill; False when it preempted itself."""
        rank = self.rank
        self._publish()
        start = sequence.computed
        end = start + min(sequence.tokens - start, self.rank.budget)
        blocks = rank.chunk_blocks(start, end)
        if not self._make_room(sequence, blocks):
            return False
        rank.pool.take(blocks)
        rank.schedule_chunk(sequence, start, end)
        self.computing = sequence
        return True

    def _make_room(self, sequence: Sequence, blocks: int) -> bool:
        """Preempt until `blocks` can be allocated; False when `sequence` itself had to go."""
        pool = self.rank.pool
        while pool.room < blocks:
            victim = self.running.pop(0 if self.rank.fifo else -1)
            if victim is self.computing:
                preempt_scheduled(self.rank, victim)
            elif victim is self.rank.partial:
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
