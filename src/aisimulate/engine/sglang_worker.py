"""Serving workers with the SGLang scheduler: of one rank, and of several that start every pass together.

They note the gaps between tokens in their own way: a decoder waits while prompts are computed, so the first
gap of a run differs (`SglangScheduler.lags`). And after a pass that prefills, all ranks of the worker may
have to decode some passes first (spec 01 section 2.5).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from aisimulate.engine.gap_log import Absences, GapLog, joined
from aisimulate.engine.group import PassGroup
from aisimulate.engine.run_worker import RunWorker
from aisimulate.engine.sglang_head import compute_head
from aisimulate.engine.sglang_scheduler import SglangScheduler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.engine.sequence import Sequence


class SglangWorker(RunWorker[SglangScheduler]):
    """A worker of one rank."""

    __slots__ = ("_may_skip_plans", "_other_passes", "_pause")

    def __init__(self, rank: SglangScheduler) -> None:
        super().__init__(rank)
        self._pause = _Pause([rank], rank.params.prefill_decode_interval)
        self._may_skip_plans = rank.params.prefill_decode_interval == 0
        self._other_passes = 0  # that do not decode

    @property
    def passes(self) -> int:
        """Passes simulated so far."""
        return self._rank.decoders.passes + self._other_passes

    def advance(self, now_ns: int, until_ns: int) -> int:
        """Run all passes that start before `until_ns`, the first at `now_ns`; return when the last ends."""
        rank, decoders, may_skip_plans = self._rank, self._rank.decoders, self._may_skip_plans
        while now_ns < until_ns:
            if rank.waiting:
                if may_skip_plans and not rank.doomed:
                    passes, now_ns = compute_head(rank, now_ns, until_ns)
                    if passes:
                        self.plans += passes
                        self._other_passes += passes
                        continue
            elif not decoders.count:
                break
            elif not (rank.cooldown or rank.late or rank.planned):
                done = decoders.passes
                now_ns = self._decode_on(now_ns, until_ns)
                if decoders.passes > done:
                    continue
            now_ns = self._run_plan(now_ns, until_ns)
        if rank.cooldown and now_ns < until_ns:
            self._pause.forget()
        return now_ns

    def _run_plan(self, now_ns: int, until_ns: int) -> int:
        """Plan a pass or a run at `now_ns` and end it, a run at its first boundary at or after `until_ns`."""
        rank = self._rank
        self.plans += 1
        if rank.cooldown:
            self._pause.resume(now_ns)
        passes, pass_ns = rank.plan(now_ns), rank.pass_ns
        if batch := rank.run_batch:
            passes, pass_ns = self._timer.passes_until(batch, rank.run_context, passes, until_ns - now_ns)
        self._end(now_ns, passes, now_ns + pass_ns)
        return now_ns + pass_ns

    def _decode_on(self, now_ns: int, until_ns: int) -> int:
        """Run passes that only decode, until `until_ns` or until pages may run out; return their end.

        One plan per completion: the same runs as those of `SglangScheduler.plan`, without its questions.
        """
        rank, timer, log = self._rank, self._timer, self.gap_log.runs
        decoders, pool, page_size = rank.decoders, rank.pool, rank.pool.page_size
        begun, rank.retracted = decoders.passes, False
        while now_ns < until_ns and (batch := decoders.count):
            done = decoders.passes
            passes = decoders.next_due - done
            if batch * (passes // page_size + 1) > pool.free + pool.inactive:
                break
            self.plans += 1
            context = decoders.context_tokens
            passes, run_ns = timer.passes_until(batch, context, passes, until_ns - now_ns)
            if not rank.lagging:
                log += (batch, context, passes, batch, done)
            elif passes > 1:
                rank.catch_up(batch, now_ns + timer.decode_ns(batch, context))
                log += (batch, context + batch, passes - 1, batch, done + 1)
            else:
                rank.catch_up(batch, now_ns + run_ns)
            rank.last_decode_ns = now_ns = now_ns + run_ns
            if (pages := decoders.demand(passes)) <= pool.free:
                pool.free -= pages
            else:
                pool.take(pages)
            # `DecodeSet.advance`, without the call.
            done = decoders.passes = done + passes
            decoders.context_tokens = context + passes * batch
            if pool.appointments:
                pool.grow(done)
            else:
                pool.passes = done
            if done >= decoders.next_due:
                rank.finish_due(now_ns)
        rank.ratio.advance(decoders.passes - begun)
        return now_ns

    def start(self, now_ns: int) -> bool:
        """Begin a pass, or a run of passes, at `now_ns`; return whether there was work for one."""
        rank = self._rank
        if not rank.has_work:
            if rank.cooldown:
                self._pause.forget()
            return False
        self.plans += 1
        self._start_ns = now_ns
        if rank.cooldown:
            self._pause.resume(now_ns)
        passes = self._passes = rank.plan(now_ns)
        if batch := rank.run_batch:
            self.exact = False
            self.end_ns = now_ns + self._timer.run_floor_ns(batch, rank.run_context, passes)
        else:
            self.exact = True
            self.end_ns = now_ns + rank.pass_ns
        self.busy = batch > 0 or rank.eventful or rank.cooldown > 0
        return self.busy

    def cut(self, at_ns: int) -> None:
        """End the run in flight at its first pass boundary at or after `at_ns`; a pass is never shortened."""
        if self._passes == 1 and self.exact and at_ns > self._start_ns:
            return  # it was cut there already
        super().cut(at_ns)

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        self.busy = False
        return self._end(self._start_ns, self._passes, self.end_ns)

    def _end(self, start_ns: int, passes: int, end_ns: int) -> list[Sequence]:
        rank = self._rank
        first_end_ns = end_ns
        if batch := rank.run_batch:
            context, done = rank.run_context, rank.decoders.passes
            if not rank.lagging:
                self.gap_log.runs += (batch, context, passes, batch, done)
            elif passes > 1:
                first_end_ns = start_ns + self._timer.decode_ns(batch, context)
                self.gap_log.runs += (batch, context + batch, passes - 1, batch, done + 1)
        else:
            self._other_passes += passes
        prefills = rank.prefills
        terminal = rank.commit(passes, first_end_ns, end_ns)
        if prefills or rank.cooldown:
            self._pause.count(prefills, passes, () if prefills or batch else (rank,))
        return terminal

    def close(self) -> GapLog:
        """Return the finished gap log, without the gaps of sequences that did not complete."""
        close_log(self._rank, self.gap_log)
        return self.gap_log


class SglangGroup(PassGroup[SglangScheduler]):
    """A worker of several ranks."""

    __slots__ = ("_logs", "_pass_count", "_pause")

    def __init__(self, ranks: list[SglangScheduler]) -> None:
        super().__init__(ranks)
        self._pause = _Pause(ranks, ranks[0].params.prefill_decode_interval)
        self._logs = [GapLog(rank.timer) for rank in ranks]  # ranks do not decode in the same passes
        self._pass_count = 0

    @property
    def passes(self) -> int:
        """Passes simulated so far."""
        return self._pass_count

    def start(self, now_ns: int) -> bool:
        """Begin a group pass, or a run of them, at `now_ns`; return whether there was work for one."""
        self._pause.resume(now_ns)
        if super().start(now_ns):
            return True
        if not self._active:
            self._pause.forget()
            return False
        self.busy = self.ranks[0].cooldown > 0  # a pass of a pause counts whatever it does
        return self.busy

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        passes, end_ns, active = self._passes, self.end_ns, self._active
        first_end_ns = self._start_ns + self._durations[0]
        self._pass_count += passes
        # Gaps of those that decode all passes, and of those that have one of their own in the first.
        whole = array("q", self._durations[:passes])
        later = whole[1:]
        prefills = decodes = False
        terminal: list[Sequence] = []
        for rank, log in zip(self.ranks, self._logs, strict=True):
            if rank not in active:
                continue
            prefills = prefills or rank.prefills
            if batch := rank.run_batch:
                decodes = True
                if not rank.lagging:
                    log.series.append((whole, batch, rank.decoders.passes))
                elif later:
                    log.series.append((later, batch, rank.decoders.passes + 1))
            terminal += rank.commit(passes, first_end_ns, end_ns)
        self._pause.count(prefills, passes, () if prefills or decodes else active)
        self.busy = False
        return terminal

    def close(self) -> GapLog:
        """Return the finished gap log, without the gaps of sequences that did not complete."""
        close_logs(self.gap_log, self.ranks, self._logs)
        return self.gap_log


class _Pause:
    """Passes without prefill after one with: the `cooldown` of all ranks of a worker, kept the same."""

    __slots__ = ("_interval", "ranks")

    def __init__(self, ranks: list[SglangScheduler], interval: int) -> None:
        self.ranks = ranks
        self._interval = interval

    def count(self, prefills: bool, passes: int, idle: Iterable[SglangScheduler] = ()) -> None:
        """Count passes that ended; `prefills`: a rank did so, `idle`: the ranks if none decoded."""
        if self.ranks[0].cooldown:
            for rank in idle:
                rank.ratio.restart(rank.ratio.first)
        self._set(self._interval if prefills else max(0, self.ranks[0].cooldown - passes))

    def forget(self) -> None:
        """End the pause of a worker that could start a pass but has nothing to do."""
        self._set(0)

    def resume(self, now_ns: int) -> None:
        """Look at the pause before a pass at `now_ns`: if nobody decodes, what is left of it takes no time.

        If there is somebody to reject, or to end without decoding, the first of the passes left is for that.
        """
        ranks = self.ranks
        if not ranks[0].cooldown:
            return
        for rank in ranks:
            rank.promote(now_ns)
        if any(rank.decoders.count for rank in ranks):
            return
        ready = [rank for rank in ranks if rank.has_work]
        for rank in ready:
            rank.ratio.restart(rank.ratio.first)
        if not any(rank.doomed or rank.finishes for rank in ready):
            self._set(0)

    def _set(self, cooldown: int) -> None:
        for rank in self.ranks:
            rank.cooldown = cooldown


def close_log(rank: SglangScheduler, log: GapLog) -> None:
    """Complete the gap log of a rank, and leave out what belongs to sequences that did not complete."""
    log.passes += rank.lags
    if rank.zero_gaps:
        log.passes += (0, rank.zero_gaps, 0)  # in pass 0 nobody can be absent
    log.pack()
    spans = rank.lost_spans()
    if spans:
        log.leave_out(Absences(spans))
    log.singles = rank.singles


def close_logs(total: GapLog, ranks: Iterable[SglangScheduler], logs: list[GapLog]) -> None:
    """Complete the logs of several ranks, and put them together."""
    for rank, log in zip(ranks, logs, strict=True):
        close_log(rank, log)
        total.packed_passes = joined(total.packed_passes, log.packed_passes)
        total.series += log.series
        total.singles += log.singles
