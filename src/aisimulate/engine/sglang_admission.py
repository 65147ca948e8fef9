"""Which waiting prompts an SGLang rank computes next (spec 01 section 3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisimulate.engine.admission import PROMPT_OVER_BUDGET, SEQUENCE_OVER_CAPACITY

if TYPE_CHECKING:
    from aisimulate.engine.radix_pool import Match
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.sglang_scheduler import SglangScheduler


class Refusal(NamedTuple):
    """Why the head of the queue has to wait.

    `tokens` more than 0: until more than that many are not reserved. `by_pages`: for room that its own prefix
    takes away. `sees_cache`: the answer depends on a cached prefix. `reason`: why it is rejected if nothing
    runs.
    """

    reason: str
    tokens: int = 0
    by_pages: bool = False
    sees_cache: bool = False


def admit_waiting(rank: SglangScheduler, now_ns: int) -> Refusal | None:
    """Select from the head of the queue until the head has to wait; tell why it has to, unless for a slot."""
    waiting, params, pool = rank.waiting, rank.params, rank.pool
    slots = rank.slots - rank.decoders.count
    if slots <= 0:
        return None
    rank.input_left, rank.chunk_left = params.max_prefill_tokens, params.chunked_prefill_size
    reserved = rank.reservations.tokens(rank.decoders.passes)
    rank.left = (pool.free + pool.inactive) * pool.page_size
    rank.room = rank.left - reserved * rank.ratio.value
    rank.room_margin = 1e-6 + 1e-9 * reserved
    while waiting and slots:
        refusal = _admit(rank, waiting[0], now_ns)
        if refusal is not None:
            return refusal
        waiting.popleft()
        slots -= 1
        if rank.chunk_left <= 0:
            break
    return None


def _admit(rank: SglangScheduler, sequence: Sequence, now_ns: int) -> Refusal | None:
    """Select a prompt, or as much of it as fits into a chunk, if there is room for it."""
    page_size, computed = rank.pool.page_size, sequence.computed
    match = rank.pool.miss if computed else lookup(rank, sequence)
    start = computed or match[0] * page_size
    chunk = extent = sequence.tokens - start
    # A prompt is only taken whole if its last page fits as well.
    if chunk > (most := rank.chunk_left // page_size * page_size):
        chunk = most
    cost = -(-chunk // page_size) * page_size
    if (chunk == 0 and extent) or cost > rank.input_left:
        return Refusal(PROMPT_OVER_BUDGET, sees_cache=rank.longest_first or match[0] > 0)
    needed = cost
    if chunk == extent:
        needed += min(sequence.end_tokens - sequence.tokens, rank.params.clip_max_new_tokens)
    excess = rank.room - needed
    if excess < rank.room_margin and (excess < -rank.room_margin or needed >= _exact_room(rank)):
        return Refusal(SEQUENCE_OVER_CAPACITY, needed, sees_cache=rank.longest_first or match[0] > 0)
    if not _allocate(rank, sequence, match, start + chunk):
        return Refusal(SEQUENCE_OVER_CAPACITY, by_pages=True)
    if not computed:
        sequence.admissions += ((now_ns, start),)
    rank.select(sequence, start, start + chunk)
    rank.room -= needed
    rank.left -= needed
    rank.input_left -= cost
    rank.chunk_left -= cost
    return None


def _exact_room(rank: SglangScheduler) -> float:
    """Tokens that are not reserved, for a close call.

    The engine adds up floating-point numbers in a fixed order; only what the sum is taken from is whole.
    """
    decoders = rank.decoders
    return rank.left - rank.reservations.exact(decoders.members, decoders.passes, rank.ratio.value)


def lookup(rank: SglangScheduler, sequence: Sequence) -> Match:
    """Find the cached part of a prompt that is not begun; its last token is computed if output follows."""
    pool = rank.pool
    tokens = sequence.tokens - (sequence.end_tokens > sequence.input_tokens)
    return pool.match(sequence, tokens // pool.page_size)


def _allocate(rank: SglangScheduler, sequence: Sequence, match: Match, end: int) -> bool:
    """Take pages up to token `end`, behind those that the sequence holds or has matched."""
    pool, computed = rank.pool, sequence.computed
    if computed:
        held = -(-computed // pool.page_size)
    else:
        held = match[0]
        pool.pin(sequence, match)
    pages = -(-end // pool.page_size) - held
    if pages > pool.free + pool.inactive:
        if not computed:
            pool.unpin(sequence)
        return False
    if pages <= pool.free:
        pool.free -= pages
    else:
        pool.take(pages)
    if not computed:
        sequence.inserted = held
    return True
