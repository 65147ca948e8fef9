"""Passes in which one prompt is computed, a chunk in each, and nobody else can be let in.

That is what nearly every prefill of an open-loop replay comes to. Such a pass is planned, priced and ended in
one go; whatever is not plain about it is left to the planner, which then finds everything as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.admission import try_admit

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def prefill_alone(rank: RankScheduler, log: GapLog, now_ns: int, until_ns: int) -> int:
    """Run the passes from `now_ns` on that start before `until_ns` and are of this kind; return their end.

    They end with the prompt of the unfinished prefill or, if there is none, of the head of the queue. Nothing
    arrives before `until_ns`. The gaps of the decoders go to `log`.
    """
    decoders, pool, timer, sequence = rank.decoders, rank.pool, rank.timer, rank.partial
    while now_ns < until_ns:
        batch, context = decoders.count, decoders.context_tokens
        budget, opening = rank.pass_tokens - batch, decoders.opening()
        if budget <= 0 or opening > pool.free + pool.inactive:
            return now_ns
        if opening:
            pool.take(opening)
        if sequence is None:
            sequence = rank.waiting[0]
            end = _let_in(rank, sequence, budget, now_ns)
        else:
            end = _go_on(rank, sequence, budget)
        if not end:
            # The planner takes these blocks again; nothing has happened since.
            pool.free += opening
            return now_ns
        if rank.fused:
            pass_ns = timer.fused_ns(((sequence.chunk_start, end),), batch, context)
        else:
            pass_ns = timer.prefill_ns(1, end, sequence.chunk_start)
            if batch:
                pass_ns += timer.decode_ns(batch, context)
        if batch:
            log.passes += (pass_ns, batch, decoders.passes)
        now_ns += pass_ns
        _end_pass(rank, sequence, end, now_ns)
        if end == sequence.input_tokens:
            return now_ns
    return now_ns


def _let_in(rank: RankScheduler, sequence: Sequence, budget: int, now_ns: int) -> int:
    """Admit the head if nothing is peculiar about it; return where its first chunk ends, else 0."""
    pool, size, tokens = rank.pool, rank.block_size, sequence.tokens
    if (
        sequence.admissions
        or sequence.reason is not None
        or sequence.planned
        or tokens == sequence.end_tokens
    ):
        return 0
    if tokens == sequence.end_tokens or rank.decoders.count >= rank.params.max_num_seqs:
        return 0
    if rank.try_admit is not try_admit:
        return 0
    keys = sequence.keys
    match = pool.miss if keys is None else pool.match(keys, tokens // size)
    hit = match[0]
    start = hit * size
    end = tokens if tokens - start <= budget else start + budget
    if start >= tokens or -(-tokens // size) - match[1] > pool.free + pool.inactive:
        return 0
    if (end < tokens and not rank.params.enable_chunked_prefill) or _lets_in_others(rank, 1, end < tokens):
        return 0
    if hit:
        pool.pin(sequence, match)
    pool.take(-(-end // size) - hit)
    rank.waiting.popleft()
    sequence.admissions = ((now_ns, start),)
    rank.entered = sequence.order = rank.entered + 1
    sequence.chunk_start = start
    sequence.computed = end
    if end < tokens:
        rank.partial = sequence
    return end


def _go_on(rank: RankScheduler, sequence: Sequence, budget: int) -> int:
    """Compute the next chunk of the unfinished prefill if that is all; return where it ends, else 0."""
    pool, size, start, end = rank.pool, rank.block_size, sequence.computed, sequence.tokens
    if end > sequence.input_tokens or sequence.planned or end == sequence.end_tokens:
        return 0
    is_cut = end - start > budget
    if is_cut:
        end = start + budget
    blocks = -(-end // size) - -(-start // size)
    if blocks > pool.free + pool.inactive or _lets_in_others(rank, 0, is_cut):
        return 0
    pool.take(blocks)
    sequence.chunk_start = start
    sequence.computed = end
    if not is_cut:
        rank.partial = None
    return end


def _lets_in_others(rank: RankScheduler, behind: int, is_cut: bool) -> bool:
    """Whether someone in the queue, `behind` at its head, might get in or be refused in this pass.

    A chunk that does not end its prompt uses up the budget.
    """
    if len(rank.waiting) == behind:
        return False
    head = rank.waiting[behind]
    return not is_cut or head.reason is not None or not rank.needs_budget(head)


def _end_pass(rank: RankScheduler, sequence: Sequence, end: int, now_ns: int) -> None:
    """Let the decoders and, after its last chunk, the prompt emit a token."""
    decoders = rank.decoders
    if end == sequence.input_tokens and sequence.keys is not None:
        rank.cache_computed(sequence)
    done = decoders.passes = decoders.passes + 1
    decoders.context_tokens += decoders.count
    if rank.fresh:
        rank.settle_second_tokens(now_ns)
    finished = decoders.pop_finished() if done >= decoders.next_due else []
    if end == sequence.input_tokens:
        sequence.first_token_ns = now_ns
        sequence.tokens = end + 1
        if end + 1 == sequence.end_tokens:
            finished.append(sequence)
        else:
            rank.fresh.append(sequence)
            decoders.add(sequence)
    if finished:
        rank.complete(finished, 1, now_ns, [])
