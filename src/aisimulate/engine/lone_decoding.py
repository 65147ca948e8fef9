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
    if terminal or not _decodes_only(rank):
        return now_ns, 0
    decoders, waiting, pool = rank.decoders, rank.waiting, rank.pool
    residues, size, runs = decoders.residues, rank.block_size, 0
    if rank.eventful and rank.unusual:
        rank._clear_unusual()
    while waiting and now_ns < until_ns and 0 < decoders.count <= rank.pass_tokens:
        opening, waits = residues[(decoders.passes - 1) % size], True
        if opening > pool.room:
            # One that shares nothing needs all that it gave back, and the others have opened blocks since.
            waits = open_or_give_way(rank, now_ns) >= 0 or _open_in_turn(rank, now_ns)
        else:
            rank.eventful = rank.unusual = rank.preempted = False
            if _head_comes(rank, opening):
                if len(waiting) == 1:
                    break  # the planner has more ways with it
                now_ns = _let_in(rank, log, now_ns, terminal)
                runs += 1
                if terminal or not _decodes_only(rank):
                    break
                continue
        runs += 1
        if not decoders.count:
            decoders.passes += 1  # all gave way: a pass of no length
            continue
        now_ns = _run(rank, log, now_ns, decoders.next_due - decoders.passes if waits else 1)
        if decoders.passes >= decoders.next_due:
            terminal += complete_due(rank, now_ns)
            break
    return now_ns, runs


def _decodes_only(rank: RankScheduler) -> bool:
    """Whether there is nothing but decoders and a queue, and preemptions take the last of the order."""
    return not (rank.partial or rank.stalled or rank.planned or rank.watchful) and rank.runs_on


def _open_in_turn(rank: RankScheduler, now_ns: int) -> bool:
    """Let decoders that share something give way; return whether the head has to wait for a member's end."""
    open_blocks(rank, now_ns)
    waits = head_waits(rank)
    rank.pool.give_back(rank.decoders.opening())  # who runs takes them again
    return waits


def _head_comes(rank: RankScheduler, opening: int) -> bool:
    """Whether the head of the queue may be let in, or refused, when decoders have opened their blocks."""
    head, pool = rank.waiting[0], rank.pool
    if rank.decoders.count >= rank.params.max_num_seqs:
        return False
    if head.reason is not None:
        return True
    if head.keys is None:
        return -(-head.tokens // rank.block_size) + opening <= pool.room
    pool.take(opening)  # it finds what these blocks leave
    comes = not head_waits(rank)
    pool.give_back(opening)
    return comes


def _run(rank: RankScheduler, log: GapLog, now_ns: int, passes: int) -> int:
    """Run up to `passes` passes that only decode, as long as there are blocks; return their end."""
    decoders, pool, timer = rank.decoders, rank.pool, rank.timer
    batch, context, done = decoders.count, decoders.context_tokens, decoders.passes
    passes, blocks = decoders.longest_and_demand(passes, pool.room)
    pool.room -= blocks  # `RunPool.take` and `DecodeSet.advance`, without the calls
    decoders.passes = done + passes
    decoders.context_tokens = context + passes * batch
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
    return now_ns + timer.run_ns(batch, context, passes)


def _let_in(rank: RankScheduler, log: GapLog, now_ns: int, terminal: list[Sequence]) -> int:
    """Run one pass in which the head of the queue may enter, whose blocks there are; return its end.

    It is planned as `RankScheduler.plan` plans it. Who ends goes to `terminal`.
    """
    decoders, opening = rank.decoders, rank.decoders.opening()
    rank.pool.take(opening)
    rank.run_batch = 0
    rank.budget = rank.pass_tokens - decoders.count
    rank.admit(rank, now_ns)
    if not rank.eventful:
        rank.pool.give_back(opening)
        return _run(rank, log, now_ns, decoders.next_due - decoders.passes)
    rank._price()
    log.passes += (rank.pass_ns, rank.gap_weight, decoders.passes)
    now_ns += rank.pass_ns
    terminal += rank.commit(1, now_ns, now_ns)
    return now_ns
