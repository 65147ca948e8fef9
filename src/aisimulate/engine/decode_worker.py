"""A worker with a single rank that decodes what other workers computed.

Between two actions of the fleet on it nobody sees what it does, so it may fall behind the clock and catch up
when it is looked at (spec 09 section 2: workers are independent between their own arrivals).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.finishing import complete_due
from aisimulate.engine.worker import RankWorker

if TYPE_CHECKING:
    from aisimulate.engine.decode_rank import DecodeRank
    from aisimulate.engine.sequence import Sequence


class DecodeWorker(RankWorker):
    """A worker of a rank that gets computed prompts."""

    __slots__ = ("is_over",)

    _rank: DecodeRank

    def __init__(self, rank: DecodeRank) -> None:
        super().__init__(rank)
        self.is_over = False  # whether the passes in flight have been ended ahead of the clock

    @property
    def is_alone(self) -> bool:
        """Whether no destination waits here, to be tried at the end of some pass."""
        return not self._rank.pending

    def start(self, now_ns: int) -> bool:
        """Begin a pass, or a run of passes, at `now_ns`; return whether there was work for one."""
        rank = self._rank
        if not (rank.decoders.count or rank.waiting or rank.partial):
            return False
        self.busy = True
        self.plans += 1
        self._start_ns = now_ns
        return self._start_planned(rank.plan(now_ns))

    def advance(self, now_ns: int, until_ns: int) -> int:
        """Run all passes that start before `until_ns`, the first of them at `now_ns`; return when they end.

        Nothing comes up meanwhile. It may end earlier with requests left that wait for something.
        """
        rank = self._rank
        decoders, waiting = rank.decoders, rank.waiting
        while now_ns < until_ns:
            passes = decoders.passes
            if not (rank.partial or rank.unusual):
                if len(waiting) == 1:
                    now_ns = self._join_one(now_ns, until_ns)
                elif waiting:
                    now_ns = self._join(now_ns, until_ns)
                elif decoders.count:
                    now_ns = self._decode_on(now_ns, until_ns)
                else:
                    break
            if decoders.passes == passes:
                if not self.start(now_ns):
                    break
                self.cut(until_ns)
                self.finish()
                now_ns = self.end_ns
        return now_ns

    def _all_join(self, batch: int) -> bool:
        """Whether all of the queue has its prompt, and goes on decoding with the others, `batch` in all."""
        rank = self._rank
        if batch > rank.params.max_num_seqs or batch > rank.pass_tokens:
            return False
        decoders, pool = rank.decoders, rank.pool
        longest = decoders.next_due - decoders.passes
        for sequence in rank.waiting:
            left = sequence.end_tokens - sequence.tokens
            if not sequence.computed or left <= 0 or sequence.planned:
                return False
            if left < longest:
                longest = left
        return batch * (longest // rank.block_size + 1) <= pool.room

    def _join(self, now_ns: int, until_ns: int) -> int:
        """Let all of the queue in and decode on, for one run of passes; return its end.

        The first of these passes is what `RankScheduler` plans as a pass of its own: it gives those who join
        their first token, for which they have a block already, and nobody waits for it as for a next one.
        """
        rank, timer, log = self._rank, self._timer, self.gap_log
        decoders, waiting, size = rank.decoders, rank.waiting, rank.block_size
        weight, done = decoders.count, decoders.passes
        batch = weight + len(waiting)
        if not self._all_join(batch):
            return now_ns
        self.plans += 1
        entry, held = ((now_ns, 0),), 0
        for sequence in waiting:
            sequence.admissions = entry
            rank.entered = sequence.order = rank.entered + 1
            decoders.add(sequence)
            sequence.joined = done + 1
            if not (sequence.tokens - 1) % size:
                held += 1
        context = decoders.context_tokens
        passes, run_ns = timer.passes_until(batch, context, decoders.next_due - done, until_ns - now_ns)
        first_end_ns = now_ns + timer.decode_ns(batch, context)
        if weight:
            log.passes += (first_end_ns - now_ns, weight, done)
        if rank.fresh:
            rank.settle_second_tokens(first_end_ns)
        second_end_ns = None
        if passes > 1:
            log.runs += (batch, context + batch, passes - 1, batch, done + 1)
            second_end_ns = first_end_ns + timer.decode_ns(batch, context + batch)
        else:
            rank.fresh = [sequence for sequence in waiting if sequence.end_tokens > sequence.tokens + 1]
        for sequence in waiting:
            sequence.first_token_ns = first_end_ns
            sequence.second_token_ns = second_end_ns
        waiting.clear()
        if blocks := decoders.demand(passes) - held:
            rank.pool.take(blocks)
        rank.eventful = False
        if decoders.advance(passes):
            complete_due(rank, now_ns + run_ns)
        return now_ns + run_ns

    def _join_one(self, now_ns: int, until_ns: int) -> int:
        """Do the same for a single sequence: most come alone."""
        rank, timer, log = self._rank, self._timer, self.gap_log
        decoders, pool, sequence = rank.decoders, rank.pool, rank.waiting[0]
        weight, done, left = decoders.count, decoders.passes, sequence.end_tokens - sequence.tokens
        batch, longest = weight + 1, decoders.next_due - done
        if left < longest:
            longest = left
        if (
            batch > rank.params.max_num_seqs
            or batch > rank.pass_tokens
            or left <= 0
            or not sequence.computed
            or sequence.planned
            or batch * (longest // rank.block_size + 1) > pool.room
        ):
            return now_ns
        self.plans += 1
        rank.waiting.clear()
        sequence.admissions = ((now_ns, 0),)
        rank.entered = sequence.order = rank.entered + 1
        decoders.add(sequence)
        sequence.joined = done + 1
        context = decoders.context_tokens
        passes, run_ns = timer.passes_until(batch, context, longest, until_ns - now_ns)
        decode_ns = timer.decode_ns
        pass_ns = decode_ns(batch, context)
        first_end_ns = sequence.first_token_ns = now_ns + pass_ns
        if weight:
            log.passes += (pass_ns, weight, done)
        if rank.fresh:
            rank.settle_second_tokens(first_end_ns)
        if passes > 1:
            log.runs += (batch, context + batch, passes - 1, batch, done + 1)
            sequence.second_token_ns = first_end_ns + decode_ns(batch, context + batch)
        elif left > 1:
            rank.fresh = [sequence]
        if blocks := decoders.demand(passes) - (not (sequence.tokens - 1) % rank.block_size):
            pool.take(blocks)
        rank.eventful = False
        done = decoders.passes = done + passes
        decoders.context_tokens = context + passes * batch
        if done >= decoders.next_due:
            complete_due(rank, now_ns + run_ns)
        return now_ns + run_ns

    def catch_up(self, since_ns: int, now_ns: int, boundary_ns: int) -> bool:
        """Run from `since_ns` to the first pass boundary from `boundary_ns` on; return whether that is later.

        Then the worker is busy until its `end_ns`, but nothing is left to be done at that end.
        """
        self.end_ns = self.advance(since_ns, boundary_ns)
        self.busy = self.is_over = self.end_ns > now_ns
        self.exact = True
        return self.busy

    def cut(self, at_ns: int) -> None:
        """End the run in flight at its first pass boundary at or after `at_ns`; a pass is never shortened."""
        if not self.is_over:
            super().cut(at_ns)

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        if self.is_over:
            self.busy = self.is_over = False
            return []
        terminal = super().finish()
        if terminal:
            self._rank.note_release()
        return terminal
