"""Passes that compute the prompt at the head of an SGLang queue and have nothing to decide.

Where nothing can arrive meanwhile, a prompt that has room for all of its tokens goes from its lookup to its
first token without a plan for each chunk. So does the head of a longer queue, up to its last chunk, because a
whole chunk leaves nothing for the others. Rules: spec 01 section 3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.sglang_admission import lookup

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.sglang_scheduler import SglangScheduler


def compute_head(rank: SglangScheduler, now_ns: int, quiet_ns: int) -> tuple[int, int]:
    """Run the passes of this kind that start before `quiet_ns`, the first at `now_ns` if it is one.

    Return their number, 0 if the planner has to look at the queue, and their end.
    """
    waiting, most = rank.waiting, rank.chunk_tokens
    sequence, is_alone = waiting[0], len(waiting) == 1
    tokens = sequence.tokens
    if rank.slots <= rank.decoders.count or not (is_alone or tokens > most and not rank.longest_first):
        return 0, now_ns
    start = _begin(rank, sequence, 1 if is_alone else most + 1, now_ns) if most else -1
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


def _begin(rank: SglangScheduler, sequence: Sequence, least: int, now_ns: int) -> int:
    """Admit a prompt, or go on with it; return its first token to compute.

    Return -1 if there are fewer than `least` tokens to compute, or not room for all of them and the output
    whatever the share that is reserved.
    """
    pool, start, match = rank.pool, sequence.computed, None
    if not start:
        match = lookup(rank, sequence)
        start = match[0] * pool.page_size
    # Pages that may be evicted as long as nobody locks them are counted as needed, and outputs in full.
    left = (pool.free + pool.inactive - 1) * pool.page_size - sequence.end_tokens
    reserved = rank.reservations.tokens(rank.decoders.passes)
    if sequence.tokens - start < least or left <= (reserved + 1) * rank.ratio.highest:
        return -1
    if match:
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
        rank.join([sequence], end_ns)
    else:
        rank.end([sequence], end_ns)
