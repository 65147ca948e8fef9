"""Rows of passes that compute one more chunk of a long prompt and decide nothing, on the shared clock.

Such a chunk is neither the first nor the last of its prompt: it uses up the token budget, so nobody is
admitted, and nobody completes. A row is planned at once, changes nothing before it ends, and ends early if
somebody arrives who does not have to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def plan_row(rank: RankScheduler, sequence: Sequence) -> list[int]:
    """List the durations of the next passes that are of this kind; change nothing.

    `sequence` is the unfinished prefill of the rank.
    """
    decoders, pool, timer = rank.decoders, rank.pool, rank.timer
    batch, size, fused = decoders.count, rank.block_size, rank.fused
    budget = rank.pass_tokens - batch
    if budget <= 0 or rank.unusual or rank.overtaken or sequence.planned or not head_waits(rank):
        return []
    start, context = sequence.computed, decoders.context_tokens
    last = sequence.input_tokens - budget
    most = min(-((start - last) // budget), decoders.next_due - decoders.passes - 1)
    blocks = pool.room + -(-start // size)
    fits = -(-(start + most * budget) // size) + batch * (most // size + 1) <= blocks
    durations: list[int] = []
    for passes in range(1, most + 1):
        end = start + budget
        if not fits and -(-end // size) + decoders.demand(passes) > blocks:
            break
        if fused:
            pass_ns = timer.fused_ns(((start, end),), batch, context)
        else:
            pass_ns = timer.prefill_ns(1, end, start)
            if batch:
                pass_ns += timer.beside_ns(batch, context)
        durations.append(pass_ns)
        context += batch
        start = end
    return durations


def plan_prompt_row(rank: RankScheduler, sequence: Sequence) -> list[int]:
    """Do the same where nothing ever decodes and all who wait do so for the budget: all chunks but the last.

    Empty also where some of them have no blocks.
    """
    pool, size, budget, start = rank.pool, rank.block_size, rank.pass_tokens, sequence.computed
    end = start + (sequence.input_tokens - start - 1) // budget * budget
    if -(-end // size) - -(-start // size) > pool.room:
        return []
    prefill_ns = rank.timer.prefill_ns
    return [prefill_ns(1, first + budget, first) for first in range(start, end, budget)]


def commit_row(
    rank: RankScheduler, sequence: Sequence, durations: list[int], log: GapLog, start_ns: int
) -> None:
    """End passes that `plan_row` planned, or the first of them; they began at `start_ns`."""
    decoders, size, passes = rank.decoders, rank.block_size, len(durations)
    batch, start, done = decoders.count, sequence.computed, decoders.passes
    end = sequence.computed = start + passes * (rank.pass_tokens - batch)
    rank.pool.take(-(-end // size) - -(-start // size) + (decoders.demand(passes) if batch else 0))
    if batch:
        for number, pass_ns in enumerate(durations, done):
            log.passes += (pass_ns, batch, number)
    decoders.advance(passes)
    if rank.fresh:
        rank.settle_second_tokens(start_ns + durations[0])


def head_waits(rank: RankScheduler) -> bool:
    """Whether the head of the queue has to wait while the budget is used up."""
    if not rank.waiting:
        return True
    head = rank.waiting[0]
    return head.reason is None and rank.needs_budget(head)
