"""One serving worker with a single rank that schedules like vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.gap_log import Absences
from aisimulate.engine.lone_prefill import prefill_alone
from aisimulate.engine.run_worker import RunWorker
from aisimulate.engine.scheduler import RankScheduler

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.sequence import Sequence


class RankWorker(RunWorker[RankScheduler]):
    """A worker of one rank."""

    __slots__ = ()

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
                now_ns = prefill_alone(rank, log, now_ns, until_ns)
                self.plans += decoders.passes - passes
            elif decoders.count:
                now_ns = self._decode_on(now_ns, until_ns)
            else:
                break
            if decoders.passes == passes:
                now_ns = self._run_plan(now_ns, until_ns)
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
            if batch * (passes // block_size + 1) > pool.free + pool.inactive:
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
                rank.complete(decoders.pop_finished(), 1, now_ns, [])
        return now_ns

    def _run_plan(self, now_ns: int, until_ns: int) -> int:
        """Plan a pass or a run at `now_ns` and end it, a run at its first boundary at or after `until_ns`."""
        rank, timer, log = self._rank, self._timer, self.gap_log
        self.plans += 1
        passes = rank.plan(now_ns)
        if batch := rank.run_batch:
            context = rank.run_context
            passes, run_ns = timer.passes_until(batch, context, passes, until_ns - now_ns)
            self._log_run(batch, context, passes)
            first_end_ns = now_ns + timer.decode_ns(batch, context) if rank.fresh else 0
            now_ns += run_ns
        else:
            pass_ns, weight = rank.pass_ns, rank.gap_weight
            if weight:
                log.passes += (pass_ns, weight, rank.decoders.passes)
            first_end_ns = now_ns = now_ns + pass_ns
        rank.commit(passes, first_end_ns, now_ns)
        return now_ns

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
        passes = self._passes = rank.plan(now_ns)
        if batch := rank.run_batch:
            self.exact = False
            self.end_ns = now_ns + self._timer.run_floor_ns(batch, rank.run_context, passes)
        else:
            self.exact = True
            self.end_ns = now_ns + rank.pass_ns
            self.busy = rank.eventful  # else all of its queue has to wait
        return self.busy

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        rank, passes = self._rank, self._passes
        first_end_ns = self.end_ns
        self.busy = False
        if batch := rank.run_batch:
            context = rank.run_context
            self._log_run(batch, context, passes)
            if rank.fresh and passes > 1:
                first_end_ns = self._start_ns + self._timer.decode_ns(batch, context)
        elif rank.gap_weight:
            self.gap_log.passes += (rank.pass_ns, rank.gap_weight, rank.decoders.passes)
        return rank.commit(passes, first_end_ns, self.end_ns)

    def close(self) -> GapLog:
        """Return the finished gap log, without the gaps of sequences that did not complete."""
        rank = self._rank
        self.gap_log.pack()
        spans = rank.lost_spans()
        if spans:
            self.gap_log.leave_out(Absences(spans))
        self.gap_log.singles = rank.singles
        return self.gap_log
