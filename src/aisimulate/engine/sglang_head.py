"""Passes that compute the prompt at the head of an SGLang queue and have nothing to decide.

Where nothing can arrive meanwhile, a prompt that has room for all of its tokens goes from its lookup to its
first token without a plan for each chunk. So does the head of a longer queue, up to its last chunk, because a
whole chunk leaves nothing for the others. Rules: spec 01 section 3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.sglang_admission import lookup

if TYPE_CHECKING:
    from aisimulate.engine.radix_pool import Match
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.sglang_scheduler import SglangScheduler


def compute_head(rank: SglangScheduler, now_ns: int, quiet_ns: int) -> tuple[int, int]:
    """Run the passes of this kind that start before `quiet_ns`, the first at `now_ns` if it is one.

    Return their number, 0 if the planner has to look at the queue, and their end.
    """
    sequence, most = rank.waiting[0], rank.chunk_tokens
    if not most or rank.slots <= rank.decoders.count:
        return 0, now_ns
    tokens, start, match = sequence.tokens, sequence.computed, rank.pool.miss
    if not start:
        match = lookup(rank, sequence)
        start = match[0] * rank.pool.page_size
    is_alone = len(rank.waiting) == 1
    if tokens - start <= (0 if is_alone else most) or not _has_room(rank, sequence, start, match[0]):
        return 0, now_ns
    if not sequence.computed:
        _begin(rank, sequence, match, now_ns)
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


def _has_room(rank: SglangScheduler, sequence: Sequence, start: int, matched: int) -> bool:
    """Whether everything from token `start` on is admitted, whatever the share that is reserved."""
    pool = rank.pool
    page_size, tokens = pool.page_size, sequence.tokens
    output = sequence.end_tokens - tokens
    if output > rank.params.clip_max_new_tokens:
        output = rank.params.clip_max_new_tokens
    # The matched pages may be among those that can be evicted until they are locked.
    pages = pool.free + pool.inactive - matched - (-(-tokens // page_size) - start // page_size)
    reserved = rank.reservations.tokens(rank.decoders.passes)
    return pages * page_size - output > (reserved + 1) * rank.ratio.highest


def _begin(rank: SglangScheduler, sequence: Sequence, match: Match, now_ns: int) -> None:
    """Admit a prompt behind its cached part."""
    if match[0]:
        rank.pool.pin(sequence, match)
    sequence.inserted = match[0]
    sequence.admissions += ((now_ns, match[0] * rank.pool.page_size),)


def _end(rank: SglangScheduler, sequence: Sequence, start: int, end: int, end_ns: int) -> None:
    """End passes that computed the tokens from `start` to `end`, at `end_ns`."""
    pool = rank.pool
    page_size = pool.page_size
    pool.take(-(-end // page_size) - start // page_size)
    sequence.computed = end
    rank.lagging = True
    if end < sequence.tokens:
        pool.cache(sequence, end // page_size)
        return
    rank.waiting.popleft()
    if sequence.end_tokens > end + 1:
        rank.join([sequence], end_ns)
    else:
        rank.end([sequence], end_ns)
