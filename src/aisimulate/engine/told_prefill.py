"""A pass in which one prompt is computed and nobody else can be let in, planned and ended apart.

It is what most prefills come to, as in `lone_prefill`, but a router looks at the rank in between: what the
pass takes and caches is done when it begins, what becomes of requests when it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.finishing import complete_due
from aisimulate.engine.lone_prefill import join, let_in, lets_in

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def plan_alone(rank: RankScheduler, now_ns: int) -> bool:
    """Plan a pass at `now_ns` if it is of this kind, as `rank.plan` would; else leave everything to that.

    The rank is plain, and somebody follows what it caches. Nothing is `unusual` about it.
    """
    decoders, size, waiting = rank.decoders, rank.block_size, rank.waiting
    batch = decoders.count
    budget = rank.pass_tokens - batch
    opening = decoders.residues[(decoders.passes - 1) % size]  # `DecodeSet.opening`, without the call
    sequence = rank.partial
    if sequence is not None:
        if not _goes_on(rank, sequence, budget, opening):
            return False
    else:
        if len(waiting) > 1 and waiting[0].tokens <= budget:
            return False  # others might be let in behind it
        sequence = let_in(rank, waiting[0], opening, now_ns)
        if sequence is None:
            return False
    start, tokens = sequence.computed, sequence.tokens
    end = start + budget
    is_last = end >= tokens
    if is_last:
        end = tokens
    rank.pool.take(-(-end // size) - -(-start // size))
    sequence.chunk_start = start
    sequence.computed = end
    if sequence.keys is not None:
        rank.cache_computed(sequence)
    if is_last:
        rank.partial = None
        rank.joining.append(sequence)
    rank.eventful = True
    rank.run_batch = 0
    pass_ns = rank.timer.prefill_ns(1, end, start)
    rank.pass_ns = pass_ns + rank.timer.beside_ns(batch, decoders.context_tokens) if batch else pass_ns
    return True


def _goes_on(rank: RankScheduler, sequence: Sequence, budget: int, opening: int) -> bool:
    """Take the `opening` blocks of the decoders if the unfinished prefill goes on; else do nothing."""
    pool, start, tokens = rank.pool, sequence.computed, sequence.tokens
    is_last = tokens - start <= budget
    if (
        budget <= 0
        or tokens != sequence.input_tokens
        or sequence.planned
        or tokens == sequence.end_tokens
        or opening + rank.chunk_blocks(start, min(start + budget, tokens)) > pool.room
        or (rank.waiting and (is_last or lets_in(rank)))
    ):
        return False
    if opening:
        pool.take(opening)
    return True


def end_alone(rank: RankScheduler, log: GapLog, end_ns: int) -> list[Sequence]:
    """End a pass that `plan_alone` planned; return the sequences that became terminal, in order."""
    decoders = rank.decoders
    batch, done = decoders.count, decoders.passes
    if batch:
        log.passes += (rank.pass_ns, batch, done)
        decoders.context_tokens += batch
    done = decoders.passes = done + 1
    if rank.fresh:
        rank.settle_second_tokens(end_ns)
    terminal = complete_due(rank, end_ns) if done >= decoders.next_due else []
    if rank.joining:
        (sequence,), rank.joining = rank.joining, []
        join(rank, sequence, end_ns, terminal)
    return terminal
