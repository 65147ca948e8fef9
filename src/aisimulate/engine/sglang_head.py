"""Passes that compute prompts at the head of an SGLang queue and have nothing to decide.

Where nothing can arrive meanwhile, a prompt that has room for all of its tokens goes from its lookup to its
first token without a plan for each chunk. So does the head of a longer queue, up to its last chunk, because a
whole chunk leaves nothing for the others. And where there is room for the whole of a short queue, only the
budgets of the pass decide who is in it. Rules: spec 01 section 3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.sglang_admission import lookup

_LONGEST_QUEUE = 8

if TYPE_CHECKING:
    from aisimulate.engine.radix_pool import Match
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.sglang_scheduler import SglangScheduler


def compute_head(rank: SglangScheduler, now_ns: int, quiet_ns: int) -> tuple[int, int]:
    """Run the passes of this kind that start before `quiet_ns`, the first at `now_ns` if it is one.

    Return their number, 0 if the planner has to look at the queue, and their end.
    """
    waiting, most = rank.waiting, rank.chunk_tokens
    sequence, is_alone = waiting[0], len(waiting) == 1
    tokens = sequence.tokens
    if not most or rank.slots <= rank.decoders.count or (rank.longest_first and not is_alone):
        return 0, now_ns
    start = sequence.computed
    if not is_alone and tokens - start <= most:
        return _compute_several(rank, now_ns)
    start = _begin(rank, sequence, 1 if is_alone else most + 1, now_ns)
    if start < 0:
        return 0, now_ns
    leaf, prefill_ns = sequence.leaf, rank.timer.prefill_ns
    end, passes = start, 0
    while now_ns < quiet_ns:
        chunk_end = end + most
        if chunk_end >= tokens:
            if not is_alone:
                break
            chunk_end = tokens
        now_ns += prefill_ns(1, chunk_end, end)
        passes += 1
        end = chunk_end
        # An eviction for the next chunk may change where the pages of this one go in the tree.
        if end == tokens or (leaf.ref == 1 and leaf.children):
            break
    _end(rank, sequence, start, end, now_ns)
    return passes, now_ns


def _compute_several(rank: SglangScheduler, now_ns: int) -> tuple[int, int]:
    """Run a pass with as many prompts of the queue as its budgets allow, if there is room for all of them."""
    waiting, params, pool = rank.waiting, rank.params, rank.pool
    page_size = pool.page_size
    if len(waiting) > _LONGEST_QUEUE or not _has_room(rank, sum([s.end_tokens + page_size for s in waiting])):
        return 0, now_ns
    input_left, chunk_left = params.max_prefill_tokens, params.chunked_prefill_size
    slots, starts, ends = rank.slots - rank.decoders.count, 0, 0
    selected: list[Sequence] = []
    while waiting and len(selected) < slots and chunk_left > 0:
        sequence = waiting[0]
        match = None if sequence.computed else lookup(rank, sequence)
        start = match[0] * page_size if match else sequence.computed
        end = sequence.tokens
        if end - start > (most := chunk_left // page_size * page_size):
            end = start + most
        cost = -(-(end - start) // page_size) * page_size
        if cost > input_left or start == end < sequence.tokens:
            break
        if match:
            _admit(rank, sequence, match, now_ns)
        pool.take(cost // page_size)
        sequence.computed = end
        selected.append(waiting.popleft())
        starts += start
        ends += end
        input_left -= cost
        chunk_left -= cost
    now_ns += rank.timer.prefill_ns(len(selected), ends // len(selected), starts // len(selected))
    rank.end_prefill(selected, now_ns)
    return 1, now_ns


def _has_room(rank: SglangScheduler, tokens: int) -> bool:
    """Whether there is room for so many tokens, outputs included, whatever the share that is reserved.

    Pages that may be evicted as long as nobody locks them have to be counted as needed, and outputs in full.
    """
    pool = rank.pool
    left = (pool.free + pool.inactive) * pool.page_size - tokens
    return left > (rank.reservations.tokens(rank.decoders.passes) + 1) * rank.ratio.highest


def _admit(rank: SglangScheduler, sequence: Sequence, match: Match, now_ns: int) -> None:
    """Let a prompt lock its cached part."""
    if match[0]:
        rank.pool.pin(sequence, match)
    sequence.inserted = match[0]
    sequence.admissions += ((now_ns, match[0] * rank.pool.page_size),)


def _begin(rank: SglangScheduler, sequence: Sequence, least: int, now_ns: int) -> int:
    """Admit a prompt, or go on with it; return its first token to compute.

    Return -1 if there are fewer than `least` tokens to compute, or not room for all of them and the output
    whatever the share that is reserved.
    """
    page_size, start = rank.pool.page_size, sequence.computed
    if start:
        goes_on = sequence.tokens - start >= least and _has_room(rank, sequence.end_tokens + page_size)
        return start if goes_on else -1
    pool, tokens, end_tokens = rank.pool, sequence.tokens, sequence.end_tokens
    # `lookup`, without the call.
    match = pool.match(sequence, (tokens - (end_tokens > sequence.input_tokens)) // page_size)
    start = match[0] * page_size
    if tokens - start < least or not _has_room(rank, end_tokens + page_size):
        return -1
    if start:
        pool.pin(sequence, match)
    sequence.inserted = match[0]
    sequence.admissions += ((now_ns, start),)
    return start


def _end(rank: SglangScheduler, sequence: Sequence, start: int, end: int, end_ns: int) -> None:
    """End passes that computed the tokens from `start` to `end`, at `end_ns`."""
    pool = rank.pool
    page_size = pool.page_size
    pages = -(-end // page_size) - start // page_size
    if pages <= pool.free:
        pool.free -= pages
    else:
        pool.take(pages)
    sequence.computed = end
    rank.lagging = True
    if end < sequence.tokens:
        pool.cache(sequence, end // page_size)
        return
    rank.waiting.popleft()
    if sequence.end_tokens > end + 1:
        rank.join_one(sequence, end_ns)
    else:
        rank.end([sequence], end_ns)
