"""One serving worker with a single rank that schedules like vLLM."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from aisimulate.engine.chunk_rows import commit_row, head_waits, plan_row
from aisimulate.engine.finishing import complete_due
from aisimulate.engine.lone_prefill import prefill_alone
from aisimulate.engine.run_worker import FEW_PASSES, RunWorker
from aisimulate.engine.scheduler import RankScheduler

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence


_NEVER = 1 << 62


class RankWorker(RunWorker[RankScheduler]):
    """A worker of one rank."""

    __slots__ = ("_chunks", "_ended", "ends_early", "plans_chunks")

    def __init__(self, rank: RankScheduler) -> None:
        super().__init__(rank)
        self._chunks: list[int] = []  # durations of the passes in flight if these are middle chunks
        self.plans_chunks = True  # as one row of passes
        # Whether passes that compute one prompt may be ended when they begin, as nobody looks before their
        # end; and who became terminal in those in flight, None when there are none.
        self.ends_early = False
        self._ended: list[Sequence] | None = None

    def advance(self, now_ns: int, until_ns: int) -> int:
        """Run all passes that start before `until_ns`, the first of them at `now_ns`; return when they end.

        Nothing arrives meanwhile, so each ends before the next is planned and none is ever in flight.
        """
        rank, log = self._rank, self.gap_log
        decoders, waiting = rank.decoders, rank.waiting
        while now_ns < until_ns:
            passes = decoders.passes
            if rank.unusual or rank.overtaken:
                if not rank.has_work:
                    break
            elif waiting or rank.partial is not None:
                now_ns = prefill_alone(rank, log, now_ns, until_ns, None)
                self.plans += decoders.passes - passes
            elif decoders.count:
                now_ns = self._decode_on(now_ns, until_ns)
            else:
                break
            if decoders.passes == passes:
                now_ns, _ = self.run_plan(now_ns, until_ns)
        return now_ns

    def _decode_on(self, now_ns: int, until_ns: int) -> int:
        """Run passes that only decode, until `until_ns` or until blocks may run out; return their end.

        One plan per completion: the same runs as those of `RankScheduler.plan`, without its questions.
        """
        rank, timer, log = self._rank, self._timer, self.gap_log.runs
        decoders, pool, block_size = rank.decoders, rank.pool, rank.block_size
        if decoders.count > rank.pass_tokens:
            return now_ns
        while now_ns < until_ns and (batch := decoders.count):
            done, context = decoders.passes, decoders.context_tokens
            passes = decoders.next_due - done
            if batch * (passes // block_size + 1) > pool.room:
                break
            self.plans += 1
            passes, run_ns = timer.passes_until(batch, context, passes, until_ns - now_ns)
            log += (batch, context, passes, batch, done)
            if rank.fresh:
                rank.settle_second_tokens(now_ns + timer.decode_ns(batch, context))
            now_ns += run_ns
            if blocks := decoders.demand(passes):
                pool.take(blocks)
            # `DecodeSet.advance`, without the call.
            done = decoders.passes = done + passes
            decoders.context_tokens = context + passes * batch
            if done >= decoders.next_due:
                complete_due(rank, now_ns)
        return now_ns

    def run_plan(self, now_ns: int, until_ns: int) -> tuple[int, list[Sequence]]:
        """Plan a pass or a run at `now_ns` and end it; return the end, and who became terminal.

        Nobody arrives before `until_ns`. A run ends at its first boundary from then on, unless somebody waits
        already: the head has to wait as long as it lasts, and so have all behind.
        """
        rank, timer, log = self._rank, self._timer, self.gap_log
        self.plans += 1
        passes = rank.plan(now_ns)
        if batch := rank.run_batch:
            context = rank.run_context
            until_ns = _NEVER if rank.waiting else until_ns
            passes, run_ns = timer.passes_until(batch, context, passes, until_ns - now_ns)
            self._log_run(batch, context, passes)
            first_end_ns = now_ns + timer.decode_ns(batch, context) if rank.fresh else 0
            now_ns += run_ns
        else:
            pass_ns, weight = rank.pass_ns, rank.gap_weight
            if weight:
                log.passes += (pass_ns, weight, rank.decoders.passes)
            first_end_ns = now_ns = now_ns + pass_ns
        return now_ns, rank.commit(passes, first_end_ns, now_ns)

    def _log_run(self, batch: int, context: int, passes: int) -> None:
        """Log a run; its first pass by itself where whoever watches would see one with a preemption."""
        log, done = self.gap_log, self._rank.decoders.passes
        if self._rank.preempted:
            log.passes += (self._timer.decode_ns(batch, context), batch, done)
            context, passes, done = context + batch, passes - 1, done + 1
        if passes:
            log.runs += (batch, context, passes, batch, done)

    def start(self, now_ns: int) -> bool:
        """Begin a pass, or a run of passes, at `now_ns`; return whether there was work for one."""
        rank = self._rank
        if not (rank.decoders.count or rank.waiting or rank.partial):
            return False
        self.busy = True
        self.plans += 1
        self._start_ns = now_ns
        partial = rank.partial
        if not rank.waiting and partial is None:
            if self._start_run():
                return True
        elif self.ends_early:
            if (partial is not None or len(rank.waiting) == 1) and self._prefill(now_ns):
                return True
        elif partial is not None and self.plans_chunks and self._start_chunks(partial):
            return True
        return self._start_planned(rank.plan(now_ns))

    def _start_run(self) -> bool:
        """Begin a run where nothing but decoding can happen: `RankScheduler.plan` without its questions."""
        rank = self._rank
        decoders, pool = rank.decoders, rank.pool
        batch, passes = decoders.count, decoders.next_due - decoders.passes
        if rank.unusual or batch * (passes // rank.block_size + 1) > pool.room or batch > rank.pass_tokens:
            return False
        rank.eventful = False
        rank.run_batch = rank.gap_weight = batch
        context = rank.run_context = decoders.context_tokens
        rank._opening = 0
        self._price(batch, context, passes)
        return True

    def _prefill(self, now_ns: int) -> bool:
        """Begin and end passes that compute one prompt, if that is what comes next.

        The run after them is begun too, unless somebody has ended or waits: it is called off (`cut`) if
        somebody arrives before.
        """
        rank = self._rank
        if rank.unusual or rank.overtaken:
            return False
        passes = rank.decoders.passes
        ended: list[Sequence] = []
        end_ns = prefill_alone(rank, self.gap_log, now_ns, now_ns + 1, ended)
        if rank.decoders.passes == passes:
            return False
        if end_ns > now_ns and not ended and not rank.waiting and rank.partial is None:
            self._start_ns = end_ns
            if self._start_run() and self.end_ns > end_ns:  # else what follows from it is a later round
                self.plans += 1
                return True
        self._end_early(end_ns, ended)
        return True

    def _end_early(self, end_ns: int, ended: list[Sequence]) -> None:
        """Note the end of passes that have been ended already, and who ended with them."""
        self._rank.run_batch = 0
        self.end_ns, self._ended = end_ns, ended
        self.exact = True

    def _start_chunks(self, partial: Sequence) -> bool:
        """Begin a row of middle chunks, if at least one is next."""
        rank = self._rank
        if partial.input_tokens - partial.computed <= rank.pass_tokens:
            return False
        self._chunks = plan_row(rank, partial)
        if not self._chunks:
            return False
        rank.run_batch = 0
        self._passes = len(self._chunks)
        self.exact = True
        self.end_ns = self._start_ns + sum(self._chunks)
        return True

    def _start_planned(self, passes: int) -> bool:
        """Begin what the rank just planned; return whether that is anything."""
        rank = self._rank
        if batch := rank.run_batch:
            self._price(batch, rank.run_context, passes)
        else:
            self._passes = passes
            self.exact = True
            self.end_ns = self._start_ns + rank.pass_ns
            self.busy = rank.eventful  # else all of its queue has to wait
        return self.busy

    def _price(self, batch: int, context: int, passes: int) -> None:
        """Tell when the planned run ends: at once if that is cheap, else not before."""
        self._passes = passes
        if passes <= FEW_PASSES:
            self.exact = True
            self.end_ns = self._start_ns + self._timer.run_ns(batch, context, passes)
        else:
            self.exact = False
            self.end_ns = self._start_ns + self._timer.run_floor_ns(batch, context, passes)

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        rank = self._rank
        batch = rank.run_batch
        if not batch or rank.unusual:
            if (ended := self._ended) is not None:
                self.busy, self._ended = False, None
                return ended
            return self._end_chunks() if self._chunks else self._end_planned()
        # `RankScheduler.commit` of a run, without its questions.
        self.busy = False
        decoders, passes = rank.decoders, self._passes
        done, context = decoders.passes, rank.run_context
        self.gap_log.runs += (batch, context, passes, batch, done)
        if blocks := decoders.demand(passes) - rank._opening:
            rank.pool.take(blocks)
        if rank.fresh:
            first_ns = self._timer.decode_ns(batch, context)
            rank.settle_second_tokens(self._start_ns + first_ns)
        done = decoders.passes = done + passes
        decoders.context_tokens = context + passes * batch
        if done >= decoders.next_due:
            return complete_due(rank, self.end_ns)
        return []

    def _end_chunks(self) -> list[Sequence]:
        partial, chunks = self._rank.partial, self._chunks
        assert partial is not None
        self.busy = False
        self._chunks = []
        commit_row(self._rank, partial, chunks, self.gap_log, self._start_ns)
        return []

    def cut(self, at_ns: int) -> None:
        """End the run in flight at its first pass boundary at or after `at_ns`; a pass is never shortened."""
        if not self._chunks:
            if at_ns <= self._start_ns and self._rank.run_batch:
                self.plans -= 1  # of a run that has not begun; the passes before it have
                self._end_early(self._start_ns, [])
            else:
                super().cut(at_ns)
        elif not head_waits(self._rank):
            self._cut_chunks(at_ns)

    def _cut_chunks(self, at_ns: int) -> None:
        end_ns = self._start_ns
        for passes, pass_ns in enumerate(self._chunks, 1):
            end_ns += pass_ns
            if end_ns >= at_ns:
                del self._chunks[passes:]
                break
        self._passes = len(self._chunks)
        self.end_ns = end_ns

    def last_boundary_ns(self, limit_ns: int) -> int:
        """Return the last pass boundary at or before `limit_ns` of the passes in flight."""
        if not self._chunks:
            return super().last_boundary_ns(limit_ns)
        ends_ns = accumulate(self._chunks, initial=self._start_ns)
        return max(end_ns for end_ns in ends_ns if end_ns <= limit_ns)

    def _end_planned(self) -> list[Sequence]:
        """End what the rank planned, whatever it is."""
        rank, end_ns = self._rank, self.end_ns
        self.busy = False
        if batch := rank.run_batch:
            passes, context = self._passes, rank.run_context
            self._log_run(batch, context, passes)
            if rank.fresh and passes > 1:
                first_ns = self._timer.decode_ns(batch, context)
                return rank.commit(passes, self._start_ns + first_ns, end_ns)
            return rank.commit(passes, end_ns, end_ns)
        if weight := rank.gap_weight:
            self.gap_log.passes += (rank.pass_ns, weight, rank.decoders.passes)
        return rank.commit(1, end_ns, end_ns)
