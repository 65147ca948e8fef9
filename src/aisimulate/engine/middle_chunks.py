"""Passes that compute one more chunk of a long prompt and decide nothing: neither its first nor its last.

Such a chunk uses up the token budget, so nobody is admitted, and nobody completes. Where nothing can arrive
meanwhile, a row of them needs no planning: each takes its blocks and adds its duration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def compute_middle_chunks(
    rank: RankScheduler, sequence: Sequence, log: GapLog, now_ns: int, quiet_ns: int
) -> int:
    """Run the passes from `now_ns` on that are of this kind and end before `quiet_ns`; return their end.

    `sequence` is the unfinished prefill of the rank, `quiet_ns` the first instant at which anything may
    arrive. The gaps of the decoders go to `log`.
    """
    decoders, pool, timer = rank.decoders, rank.pool, rank.timer
    batch, size, fused = decoders.count, rank.block_size, rank.fused
    budget = rank.pass_tokens - batch
    if budget <= 0 or rank.unusual or rank.overtaken or sequence.planned or not _head_waits(rank):
        return now_ns
    start = sequence.computed
    opened = -(-start // size)
    # A chunk that ends the prompt, or lies behind it after a preemption, is left to the planner.
    while (end := start + budget) < sequence.input_tokens and decoders.passes + 1 < decoders.next_due:
        needed = -(-end // size)
        blocks = decoders.opening() + needed - opened
        if fused:
            pass_ns = timer.fused_ns(((start, end),), batch, decoders.context_tokens)
        else:
            pass_ns = timer.prefill_ns(1, end, start)
            if batch:
                pass_ns += timer.decode_ns(batch, decoders.context_tokens)
        if blocks > pool.free + pool.inactive or now_ns + pass_ns >= quiet_ns:
            break
        now_ns += pass_ns
        pool.take(blocks)
        if batch:
            log.passes += (pass_ns, batch, decoders.passes)
        decoders.advance(1)
        if rank.fresh:
            rank.settle_second_tokens(now_ns)
        sequence.computed = start = end
        opened = needed
    return now_ns


def _head_waits(rank: RankScheduler) -> bool:
    """Whether the head of the queue has to wait while the budget is used up."""
    if not rank.waiting:
        return True
    head = rank.waiting[0]
    return head.reason is None and rank.needs_budget(head)
