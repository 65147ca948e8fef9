"""Runs of a worker to which nothing comes before one of its requests ends.

They follow each other while nobody can be let in: a run lasts until a member finishes or the blocks are used
up. Then those at the end of the running order give way, and the others go on with their blocks. Whatever
else may come next is left to the planner, which then finds everything as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.finishing import complete_due
from aisimulate.engine.preemption import head_waits, open_blocks

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def decode_to_an_end(
    rank: RankScheduler, log: GapLog, now_ns: int, terminal: list[Sequence]
) -> tuple[int, int]:
    """Run such runs from `now_ns` on, up to the end of a request, which goes to `terminal`.

    Return the end of the last of them, and how many there were. Gaps go to `log`.
    """
    decoders, runs = rank.decoders, 0
    if rank.partial or rank.stalled or rank.planned or rank.watchful or not rank.runs_on:
        return now_ns, runs
    while not terminal and 0 < decoders.count <= rank.pass_tokens:
        if rank.eventful:
            rank.eventful = False
            if rank.unusual:
                rank._clear_unusual()
        passes, blocks = _begin(rank, now_ns)
        if not passes:
            break
        runs += 1
        if not decoders.count:
            decoders.passes += 1  # all gave way: a pass of no length
            break
        if blocks:
            rank.pool.take(blocks)
        now_ns = _run(rank, log, now_ns, passes)
        if decoders.passes >= decoders.next_due:
            terminal += complete_due(rank, now_ns)
    return now_ns, runs


def _begin(rank: RankScheduler, now_ns: int) -> tuple[int, int]:
    """Open the blocks of the next pass; return how many follow each other, and what blocks the others need.

    No pass if it is not of this kind.
    """
    decoders, pool = rank.decoders, rank.pool
    opening = decoders.opening()
    if opening > pool.free + pool.inactive:
        open_blocks(rank, now_ns)
        opening = decoders.opening()
        if not head_waits(rank):
            return 1, 0
    else:
        if opening:
            pool.take(opening)
        if rank.waiting and decoders.count < rank.params.max_num_seqs and not _waits(rank):
            pool.free += opening  # the planner takes these blocks again
            return 0, 0
    passes, blocks = decoders.next_due - decoders.passes, pool.free + pool.inactive + opening
    if decoders.count * (passes // rank.block_size + 1) <= blocks:
        return passes, decoders.demand(passes) - opening
    passes, demand = decoders.longest_and_demand(passes, blocks)
    return passes, demand - opening


def _run(rank: RankScheduler, log: GapLog, now_ns: int, passes: int) -> int:
    """Run passes that have their blocks; return their end."""
    decoders, timer = rank.decoders, rank.timer
    batch, context, done = decoders.count, decoders.context_tokens, decoders.passes
    if rank.preempted or rank.fresh:
        first_ns = timer.decode_ns(batch, context)
        if rank.fresh:
            rank.settle_second_tokens(now_ns + first_ns)
    if rank.preempted:  # logged as `RankWorker` logs it
        log.passes += (first_ns, batch, done)
        if passes > 1:
            log.runs += (batch, context + batch, passes - 1, batch, done + 1)
    else:
        log.runs += (batch, context, passes, batch, done)
    decoders.advance(passes)
    return now_ns + timer.run_ns(batch, context, passes)


def _waits(rank: RankScheduler) -> bool:
    """Whether the head of the queue has to wait for blocks."""
    return rank.waiting[0].reason is None and head_waits(rank)
