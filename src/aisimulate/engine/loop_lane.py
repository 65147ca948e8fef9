"""A worker under a closed loop, replayed by itself as far as nothing that others do can reach it.

A request follows from the end of another one, so what matters of a worker to all others is when the next of
its requests ends. Until then, what arrives on it only waits: it is gone through together with the passes
around it, once the worker's turn has come.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from aisimulate.engine.finishing import complete_due
from aisimulate.engine.lone_decoding import decode_to_an_end
from aisimulate.engine.lone_prefill import prefill_alone
from aisimulate.engine.scheduler import RankScheduler

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.worker import RankWorker

_NEVER = 1 << 62
_FEW_PASSES = 24  # runs up to this long are priced to their end at once


class LoopLane:
    """One worker, replayed up to the instant when it may start its next pass.

    Nobody ends there before `bound_ns`. That relies on passes that take time, and that last no less when more
    requests decode in them or prompts are computed beside (`PassTimer.rises`).
    """

    __slots__ = (
        "_arriving",
        "_ended",
        "_passes",
        "_queue",
        "_rank",
        "_ready_ns",
        "_room",
        "_run_ns",
        "_runs",
        "_worker",
        "bound_ns",
    )

    def __init__(self, worker: RankWorker) -> None:
        self._worker = worker
        rank = self._rank = worker.ranks[0]
        # To queue who arrives: `submit` has nothing else to do for prompts that are cached in blocks.
        is_plain = type(rank).submit is RankScheduler.submit and rank.params.enable_prefix_caching
        self._queue = rank.waiting.append if is_plain else rank.submit
        self._runs = worker.gap_log.runs
        self._ready_ns = 0
        self.bound_ns = _NEVER
        self._arriving: deque[Sequence] = deque()  # placed here, and not queued yet
        self._ended: list[Sequence] = []  # at `_ready_ns`
        # How many passes come before the next of the decoders ends, and how many blocks are left then; no
        # passes if that is not known. How long they last if nobody arrives before, and if that is known.
        self._passes = self._room = self._run_ns = 0

    def take_in(self, sequence: Sequence) -> bool:
        """Take a request that arrives; return whether that brings `bound_ns` forward."""
        self._arriving.append(sequence)
        self._run_ns = 0
        if passes := self._passes:
            self._room -= (sequence.input_tokens + passes) // self._rank.block_size + 2
            if sequence.output_tokens >= passes and self._room >= 0:
                return False
            self._passes = 0
        soon_ns = self._ready_ns + 1
        if soon_ns >= self.bound_ns or sequence.arrival_ns + 1 >= self.bound_ns:
            return False
        self.bound_ns = max(sequence.arrival_ns + 1, soon_ns)
        return True

    def end(self) -> list[Sequence]:
        """Take out those that end at `bound_ns`, if any do; nobody else arrives before."""
        if run_ns := self._run_ns:
            self._run_ns = 0
            self._ready_ns = self._run(self._ready_ns, self._passes, run_ns)
        ended = self._ended
        if ended:
            self._ended = []
            self.bound_ns = self._passes = 0  # until it goes on
        return ended

    def go_on(self, until_ns: int) -> int:
        """Run the passes that begin before `until_ns`, up to an end; return the new `bound_ns`.

        Nothing arrives before `until_ns` but what has arrived already.
        """
        rank, arriving = self._rank, self._arriving
        waiting, now_ns = rank.waiting, self._ready_ns
        self._passes = 0
        while True:
            while arriving and arriving[0].arrival_ns <= now_ns:
                self._queue(arriving.popleft())
            if waiting or rank.partial is not None or rank.unusual:
                if now_ns >= until_ns:
                    bound_ns = self._look_ahead(now_ns)
                    break
                now_ns = self._prefill(now_ns, arriving[0].arrival_ns if arriving else until_ns)
            elif arriving:
                now_ns = self._decode(now_ns, arriving[0].arrival_ns)
            elif bound_ns := self._plan_run(now_ns):
                break
            elif now_ns < until_ns:
                now_ns = self._plan(now_ns, until_ns)
            else:
                bound_ns = now_ns + 1
                break
            if self._ended:
                bound_ns = now_ns
                break
        self._ready_ns = now_ns
        self.bound_ns = bound_ns
        return bound_ns

    def close(self) -> None:
        """Leave the worker busy if its next pass would end beyond the end of the clock."""
        self._worker.busy = bool(self._ended or self._arriving)

    def _plan_run(self, now_ns: int) -> int:
        """Plan the passes up to the next end; return when that is, or before when it is not.

        0 if blocks may run out, or if they take no time.
        """
        rank = self._rank
        decoders, timer = rank.decoders, rank.timer
        if not (batch := decoders.count):
            return _NEVER
        passes = decoders.next_due - decoders.passes
        room = rank.pool.room - batch * (passes // rank.block_size + 1)
        if room < 0 or batch > rank.pass_tokens:
            return 0
        self._passes, self._room = passes, room
        context = decoders.context_tokens
        if passes > _FEW_PASSES and now_ns >= self.bound_ns:  # nobody waited for this end before
            run_ns = timer.run_floor_ns(batch, context, passes)
        else:
            self._run_ns = run_ns = timer.run_ns(batch, context, passes)
        return now_ns + run_ns if run_ns else 0

    def _run(self, now_ns: int, passes: int, run_ns: int) -> int:
        """Run passes that only decode, up to the next end if they get there; return their end."""
        rank, runs = self._rank, self._runs
        decoders = rank.decoders
        batch, context, done = decoders.count, decoders.context_tokens, decoders.passes
        self._worker.plans += 1
        runs += (batch, context, passes, batch, done)
        if rank.fresh:
            rank.settle_second_tokens(now_ns + rank.timer.decode_ns(batch, context))
        now_ns += run_ns
        # `RunPool.take` and `DecodeSet.advance`, without the calls.
        rank.pool.room -= decoders.demand(passes)
        done = decoders.passes = done + passes
        decoders.context_tokens = context + passes * batch
        if done >= decoders.next_due:
            self._ended = complete_due(rank, now_ns)
        return now_ns

    def _decode(self, now_ns: int, stop_ns: int) -> int:
        """Run passes that only decode, if any, to the first boundary from `stop_ns` on; return the end."""
        rank, decoders = self._rank, self._rank.decoders
        if not (batch := decoders.count):
            return stop_ns
        passes = decoders.next_due - decoders.passes
        if batch * (passes // rank.block_size + 1) > rank.pool.room or batch > rank.pass_tokens:
            return self._plan(now_ns, stop_ns)
        elapsed_ns = stop_ns - now_ns
        return self._run(now_ns, *rank.timer.passes_until(batch, decoders.context_tokens, passes, elapsed_ns))

    def _prefill(self, now_ns: int, stop_ns: int) -> int:
        """Run passes that begin before `stop_ns` where somebody waits or has an unfinished prompt."""
        rank, worker = self._rank, self._worker
        partial, waiting = rank.partial, rank.waiting
        if partial is None:
            is_alone = len(waiting) == 1
        else:  # those who wait may be let in beside its last chunk
            left = partial.input_tokens - partial.computed
            is_alone = not waiting or left > rank.pass_tokens - rank.decoders.count
        if waiting and waiting[0].admissions:
            end_ns, runs = decode_to_an_end(rank, worker.gap_log, now_ns, stop_ns, self._ended)
            worker.plans += runs
            if runs:
                return end_ns
        elif is_alone and not (rank.unusual or rank.overtaken):
            end_ns = prefill_alone(rank, worker.gap_log, now_ns, stop_ns, self._ended)
            if end_ns > now_ns:
                worker.plans += 1
                return end_ns
        return self._plan(now_ns, stop_ns)

    def _plan(self, now_ns: int, stop_ns: int) -> int:
        """Run what the scheduler plans, a run up to its first boundary from `stop_ns` on; return its end."""
        now_ns, self._ended = self._worker.run_plan(now_ns, stop_ns)
        return now_ns

    def _look_ahead(self, now_ns: int) -> int:
        """Tell before when nobody ends, as far as that is easily told."""
        rank = self._rank
        decoders, partial = rank.decoders, rank.partial
        batch = decoders.count
        if not batch or rank.waiting or rank.unusual:
            return now_ns + 1
        passes = decoders.next_due - decoders.passes
        room = rank.pool.room - batch * (passes // rank.block_size + 1)
        if partial is not None:
            room -= (partial.tokens + passes) // rank.block_size + 2
            if partial.end_tokens - partial.tokens < passes:
                return now_ns + 1
        if room < 0:
            return now_ns + 1
        self._passes, self._room = passes, room
        return now_ns + rank.timer.run_floor_ns(batch, decoders.context_tokens, passes)
