"""A pass in which one prompt is computed and nobody else can be let in, planned and ended apart.

It is what most prefills come to, as in `lone_prefill`, but a router looks at the rank in between: what the
pass takes and caches is done when it begins, what becomes of requests when it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.finishing import complete_due

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def plan_alone(rank: RankScheduler, now_ns: int) -> bool:
    """Plan a pass at `now_ns` if it is of this kind, as `rank.plan` would; else leave everything to that.

    The rank is plain, and somebody follows what it caches. Nothing is `unusual` about it.
    """
    decoders, size = rank.decoders, rank.block_size
    batch = decoders.count
    budget = rank.pass_tokens - batch
    opening = decoders.residues[(decoders.passes - 1) % size]  # `DecodeSet.opening`, without the call
    sequence = rank.partial
    if sequence is None:
        sequence = _let_in(rank, rank.waiting[0], budget, opening, now_ns)
    elif not _goes_on(rank, sequence, budget, opening):
        return False
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
        _cache(rank, sequence, end // size)
    if is_last:
        rank.partial = None
        rank.joining.append(sequence)
    else:
        rank.partial = sequence
    rank.eventful = True
    rank.run_batch = 0
    pass_ns = rank.timer.prefill_ns(1, end, start)
    rank.pass_ns = pass_ns + rank.timer.beside_ns(batch, decoders.context_tokens) if batch else pass_ns
    return True


def _let_in(
    rank: RankScheduler, sequence: Sequence, budget: int, opening: int, now_ns: int
) -> Sequence | None:
    """Take the `opening` blocks of the decoders, let the head run and return it; else do nothing."""
    pool, size, tokens, waiting = rank.pool, rank.block_size, sequence.tokens, rank.waiting
    if (
        sequence.admissions
        or sequence.reason is not None
        or sequence.planned
        or tokens == sequence.end_tokens
        or budget <= 0
        or opening > pool.room
        or rank.decoders.count >= rank.params.max_num_seqs
        or (len(waiting) > 1 and (tokens <= budget or not _waits(waiting[1])))
    ):
        return None
    if opening:
        pool.take(opening)
    keys = sequence.keys
    match = pool.miss if keys is None else pool.match(keys, sequence.tail_start)
    start = match[0] * size
    is_cut = tokens - start > budget
    if (
        start >= tokens
        or -(-tokens // size) - match[1] > pool.room
        or (is_cut and not rank.params.enable_chunked_prefill)
        or (len(waiting) > 1 and not is_cut)
    ):
        pool.give_back(opening)  # the planner takes them again; nothing has happened since
        return None
    if start:
        pool.pin(sequence, match)
    waiting.popleft()
    sequence.admissions = ((now_ns, start),)
    rank.entered = sequence.order = rank.entered + 1
    sequence.computed = start
    return sequence


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
        or (rank.waiting and (is_last or not _waits(rank.waiting[0])))
    ):
        return False
    if opening:
        pool.take(opening)
    return True


def _waits(sequence: Sequence) -> bool:
    """Whether somebody in the queue has to wait once the token budget is gone."""
    return sequence.reason is None and sequence.end_tokens > sequence.tokens


def _cache(rank: RankScheduler, sequence: Sequence, computed: int) -> None:
    """Let lookups see the full blocks of a prompt that are computed (`RankScheduler.cache_computed`)."""
    node = sequence.node
    first = 0 if node is None else node.start + node.len
    last = min(computed, sequence.tail_start)
    if last > first:
        rank.pool.extend(sequence, first, last)


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
        sequence.first_token_ns = end_ns
        sequence.tokens += 1
        if sequence.tokens == sequence.end_tokens:
            rank.complete([sequence], 1, end_ns, terminal)
        else:
            rank.fresh.append(sequence)
            decoders.add(sequence)
    return terminal
