"""Passes of a rank that only computes prompts, planned and priced in one go.

Nothing ever decodes there, so a pass is the last chunk of the unfinished prompt and as many prompts of the
queue as the budget lets in. Whatever is peculiar about the head of the queue is left to the admission rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.lone_prefill import cache_prompt

if TYPE_CHECKING:
    from aisimulate.engine.scheduler import RankScheduler


def plan_prompts(rank: RankScheduler, now_ns: int) -> int:
    """Plan the pass of a prefill rank that begins at `now_ns`; return its duration.

    Or do nothing and return -1: where something is unusual, or the unfinished prompt has more than its last
    chunk to go, or no blocks for it. All that may still arrive waits once the budget is gone.
    """
    if rank.unusual:
        return -1
    rank.eventful = False
    budget, sequence = rank.pass_tokens, rank.partial
    if sequence is not None:
        start, end, size, pool = sequence.computed, sequence.tokens, rank.block_size, rank.pool
        blocks = -(-end // size) - -(-start // size)
        if end - start > budget or blocks > pool.room:
            return -1
        pool.take(blocks)
        sequence.chunk_start = start
        sequence.computed = end
        budget -= end - start
        rank._chunk_count, rank._chunk_starts, rank._chunk_ends = 1, start, end
        cache_prompt(rank, sequence)
        rank.joining.append(sequence)
        rank.eventful = True
    rank.budget = budget
    if budget and rank.waiting:
        _let_in(rank, now_ns)
        if rank.budget and rank.waiting:
            rank.admit(rank, now_ns)  # the head has to wait for something else than the budget
    if not (count := rank._chunk_count):
        return 0
    starts, ends = rank._chunk_starts, rank._chunk_ends
    rank._chunk_count = rank._chunk_starts = rank._chunk_ends = 0
    prefill_ns = rank.timer.prefill_ns
    return prefill_ns(count, ends // count, starts // count)


def _let_in(rank: RankScheduler, now_ns: int) -> None:
    """Let in heads that are new and nothing but that, as `admission.try_admit` would."""
    waiting, pool, size, joining = rank.waiting, rank.pool, rank.block_size, rank.joining
    budget, seats = rank.budget, rank.params.max_num_seqs - len(joining)
    chunks = starts = ends = 0
    while waiting and budget and seats > chunks:
        sequence = waiting[0]
        tokens, keys = sequence.tokens, sequence.keys
        match = pool.miss if keys is None else pool.match(keys, sequence.tail_start)
        if match[0] * size >= tokens:
            # The last token must be computed to sample the next one.
            match = pool.shorten(match, (tokens - 1) // size)
        hit = match[0]
        start = hit * size
        end = tokens if tokens - start <= budget else start + budget
        if (
            -(-tokens // size) - match[1] > pool.room
            or (end < tokens and not rank.params.enable_chunked_prefill)
            or sequence.admissions
            or sequence.reason is not None
        ):
            break
        waiting.popleft()
        if hit:
            pool.pin(sequence, match)
        pool.take(-(-end // size) - hit)
        rank.entered = sequence.order = rank.entered + 1
        sequence.admissions = ((now_ns, start),)
        sequence.chunk_start = start
        sequence.computed = end
        budget -= end - start
        chunks += 1
        starts += start
        ends += end
        if end < tokens:
            rank.partial = sequence
            break
        if sequence.tail_start > hit:
            pool.extend(sequence, hit, sequence.tail_start)
        joining.append(sequence)
    if chunks:  # `RankScheduler.note_chunks`, without the call
        rank.eventful = True
        rank.budget = budget
        rank._chunk_count += chunks
        rank._chunk_starts += starts
        rank._chunk_ends += ends
