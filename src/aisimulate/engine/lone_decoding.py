"""Runs of a worker whose head of the queue gave way, before one of its requests ends.

They follow each other while nobody can be let in, so who arrives meanwhile only waits: a run lasts until a
member finishes or the blocks are used up. Then those at the end of the running order give way, and the others
go on with their blocks. Whatever else may come next is left to the planner, which then finds everything as it
was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.finishing import complete_due
from aisimulate.engine.preemption import head_waits, open_blocks, open_or_give_way

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def decode_to_an_end(
    rank: RankScheduler, log: GapLog, now_ns: int, until_ns: int, terminal: list[Sequence]
) -> tuple[int, int]:
    """Run such runs from `now_ns` on while somebody waits, up to the end of a request: it goes to `terminal`.

    Each begins before `until_ns`, up to when nobody arrives. Return the end of the last of them, and how many
    there were. Gaps go to `log`.
    """
    decoders, waiting, runs = rank.decoders, rank.waiting, 0
    while not terminal and waiting and now_ns < until_ns and _decodes_only(rank):
        if not 0 < decoders.count <= rank.pass_tokens:
            break
        if rank.eventful:
            rank.eventful = False
            if rank.unusual:
                rank._clear_unusual()
        passes, taken = _begin(rank, now_ns)
        if passes:
            now_ns = _run(rank, log, now_ns, passes, taken)
        elif not decoders.count:
            decoders.passes += 1  # all gave way: a pass of no length
        elif len(waiting) > 1:
            now_ns = _let_in(rank, log, now_ns, taken, terminal)
        else:
            rank.pool.give_back(taken)  # the planner takes these blocks again
            break
        runs += 1
        if decoders.passes >= decoders.next_due:
            terminal += complete_due(rank, now_ns)
    return now_ns, runs


def _decodes_only(rank: RankScheduler) -> bool:
    """Whether there is nothing but decoders and a queue, and preemptions take the last of the order."""
    return not (rank.partial or rank.stalled or rank.planned or rank.watchful) and rank.runs_on


def _begin(rank: RankScheduler, now_ns: int) -> tuple[int, int]:
    """Let decoders give way until each of the others can open its block in the next pass.

    Return how many passes may follow each other as far as the blocks last, none if there is no decoder left
    or somebody may be let in; and how many blocks of the first have been taken.
    """
    decoders, pool = rank.decoders, rank.pool
    opening, taken = decoders.opening(), 0
    if opening > pool.room:
        if (opening := open_or_give_way(rank, now_ns)) < 0:
            open_blocks(rank, now_ns)
            opening = taken = decoders.opening()
        if not head_waits(rank, opening - taken):
            return min(decoders.count, 1), taken
    elif rank.waiting and decoders.count < rank.params.max_num_seqs:
        head = rank.waiting[0]
        if head.keys is not None:  # it finds what these blocks leave
            pool.take(opening)
            taken = opening
        if head.reason is not None or not head_waits(rank, opening - taken):
            return 0, taken
    return decoders.next_due - decoders.passes, taken


def _run(rank: RankScheduler, log: GapLog, now_ns: int, passes: int, taken: int) -> int:
    """Run up to `passes` passes that only decode, as long as there are blocks; return their end."""
    decoders, pool, timer = rank.decoders, rank.pool, rank.timer
    batch, context, done = decoders.count, decoders.context_tokens, decoders.passes
    blocks = pool.room + taken
    if batch * (passes // rank.block_size + 1) <= blocks:
        demand = decoders.demand(passes)
    else:
        passes, demand = decoders.longest_and_demand(passes, blocks)
    if demand > taken:
        pool.take(demand - taken)
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


def _let_in(rank: RankScheduler, log: GapLog, now_ns: int, taken: int, terminal: list[Sequence]) -> int:
    """Run one pass in which the head of the queue may enter, whose blocks there are; return its end.

    It is planned as `RankScheduler.plan` plans it. Who ends goes to `terminal`.
    """
    decoders, opening = rank.decoders, rank.decoders.opening()
    rank.pool.take(opening - taken)
    rank.run_batch = 0
    rank.budget = rank.pass_tokens - decoders.count
    rank.admit(rank, now_ns)
    if not rank.eventful:
        return _run(rank, log, now_ns, decoders.next_due - decoders.passes, opening)
    rank._price()
    log.passes += (rank.pass_ns, rank.gap_weight, decoders.passes)
    now_ns += rank.pass_ns
    terminal += rank.commit(1, now_ns, now_ns)
    return now_ns
