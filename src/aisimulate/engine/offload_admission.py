"""Admission on a rank with host memory: a prompt is looked up on the GPU, then behind that in the host.

First come, first served, with one exception: who has to wait for a copy is set aside, lets others pass and
is then looked at before them (spec 01 section 5).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from aisimulate.engine.admission import (
    PROMPT_OVER_CAPACITY,
    PROMPT_OVER_MODEL_LEN,
    enter,
    stuck_reason,
)
from aisimulate.engine.cadence import note_overtaking

if TYPE_CHECKING:
    from aisimulate.engine.offload_scheduler import Offloading
    from aisimulate.engine.offload_state import HostSide
    from aisimulate.engine.run_pool import Match
    from aisimulate.engine.sequence import Sequence


class Verdict(Enum):
    """What became of the request that was looked at."""

    ADMITTED = 1
    ASIDE = 2
    BLOCKED = 3
    IMPOSSIBLE = 4


def admit_or_load(rank: Offloading, host: HostSide, now_ns: int) -> Sequence | None:
    """Admit, set aside to load, or reject, until one has to wait for room or for budget: return that one.

    Nothing is looked up once the budget of the pass is gone, because that would count as use of the host's
    blocks.
    """
    running = rank.decoders.count + len(rank.joining) + len(rank.done) + (rank.partial is not None)
    most = rank.params.max_num_seqs
    while running < most and rank.budget > 0 and not rank.preempted:
        sequence = host.next_aside() or (rank.waiting[0] if rank.waiting else None)
        if sequence is None:
            break
        overtakes = rank.partial is not None
        if rank.partial is not None:
            rank.cache_computed(rank.partial)
        verdict = _look_at(rank, host, sequence, now_ns)
        if verdict is Verdict.ADMITTED:
            running += 1
            if overtakes and rank.deferring:
                note_overtaking(rank, sequence)
        elif verdict is Verdict.BLOCKED:
            if running or rank.held or host.busy or not host.is_stuck(now_ns):
                return sequence
            if _let_pass(host, sequence):
                continue
            sequence.reason = stuck_reason(rank, sequence)
            verdict = Verdict.IMPOSSIBLE
        if verdict is Verdict.IMPOSSIBLE:
            _reject(rank, host, sequence)
    return None


def _let_pass(host: HostSide, head: Sequence) -> bool:
    """On a rank where nothing runs, let someone pass a head that has no room; return whether there is one."""
    if host.states[head].restored:
        return False
    for sequence, state in host.aside.items():
        if state.restored:
            host.put_first(sequence)  # it holds blocks, and gives them back only if it runs
            return True
    return False


def _reject(rank: Offloading, host: HostSide, sequence: Sequence) -> None:
    state = host.states[sequence]
    if state.restored:
        rank.pool.release(sequence, state.restored * rank.block_size, cached=True)
    host.dismiss(sequence)
    if rank.waiting and rank.waiting[0] is sequence:
        rank.waiting.popleft()
    rank.rejected.append(sequence)
    rank.eventful = rank.unusual = True


def _look_at(rank: Offloading, host: HostSide, sequence: Sequence, now_ns: int) -> Verdict:
    if sequence.reason == PROMPT_OVER_MODEL_LEN:
        return Verdict.IMPOSSIBLE
    state = host.states[sequence]
    if state.load is not None or state.store is not None:
        return _set_aside(rank, host, sequence)
    if state.restored:
        return _admit_restored(rank, host, sequence, now_ns)
    match, tail = _find(rank, sequence)
    found = match[0]
    loadable, has_to_wait = host.look_up(state, found, now_ns)
    if has_to_wait:
        return _set_aside(rank, host, sequence)
    if sequence.reason == PROMPT_OVER_CAPACITY:
        return Verdict.IMPOSSIBLE
    if not loadable:
        return _admit(rank, host, sequence, match, tail, now_ns)
    if not _has_room_to_load(rank, host, sequence, match, loadable):
        return Verdict.BLOCKED
    if found:
        rank.pool.pin(sequence, match)
    state.found_blocks = found
    host.load(sequence, loadable, now_ns, -(-sequence.tokens // rank.block_size))
    return _set_aside(rank, host, sequence)


def _find(rank: Offloading, sequence: Sequence) -> tuple[Match, int]:
    """Find what is cached on the GPU: blocks with an identity, then those of the own private run."""
    assert sequence.keys is not None
    shared = sequence.input_tokens // rank.block_size
    if sequence.planned and sequence.most_computed > sequence.input_tokens:
        shared = sequence.most_computed // rank.block_size
    match = rank.pool.match(sequence.keys, shared)
    return match, sequence.len if match[0] == shared else 0


def _set_aside(rank: Offloading, host: HostSide, sequence: Sequence) -> Verdict:
    if sequence not in host.aside:
        rank.waiting.popleft()
    host.set_aside(sequence)
    return Verdict.ASIDE


def _has_room_to_load(
    rank: Offloading, host: HostSide, sequence: Sequence, match: Match, loadable: int
) -> bool:
    """Whether the request would fit, all that is promised to unfinished prefills and to loads left out."""
    pool, size = rank.pool, rank.block_size
    promised, partial = host.tail_blocks, rank.partial
    if partial is not None and partial.computed < partial.input_tokens:
        promised += -(-partial.tokens // size) + -partial.computed // size
    available = pool.room
    if -(-sequence.tokens // size) - match[1] > available - promised:
        return False
    return loadable <= available - pool.unheld(match)


def _admit(
    rank: Offloading, host: HostSide, sequence: Sequence, match: Match, tail: int, now_ns: int
) -> Verdict:
    """Admit a request that the host has nothing for, by the rules of any other rank."""
    size, tokens, pool = rank.block_size, sequence.tokens, rank.pool
    if match[0] * size >= tokens < sequence.end_tokens and not tail:
        match = pool.shorten(match, (tokens - 1) // size)
    if -(-tokens // size) - match[1] > pool.room:
        return Verdict.BLOCKED
    host.pool.overwritten = []
    is_aside = sequence in host.aside
    if is_aside:
        rank.waiting.appendleft(sequence)
    following = rank.waiting[1] if len(rank.waiting) > 1 else None
    if not enter(rank, sequence, match, tail, now_ns):
        if is_aside:
            rank.waiting.popleft()
        return Verdict.BLOCKED
    if rank.preempted:
        rank.flush(following)
    host.admitted(sequence, (match[0] + tail) * size, size)
    return Verdict.ADMITTED


def _admit_restored(rank: Offloading, host: HostSide, sequence: Sequence, now_ns: int) -> Verdict:
    """Admit a request whose load has ended: it reuses exactly what was kept for it."""
    size, tokens, pool = rank.block_size, sequence.tokens, rank.pool
    restored = host.states[sequence].restored
    if -(-tokens // size) - restored > pool.room:
        return Verdict.BLOCKED
    cached = restored
    if cached * size >= tokens < sequence.end_tokens:
        cached = (tokens - 1) // size
    start = cached * size
    if rank.deferring and tokens - start > 1:
        return Verdict.BLOCKED
    if not rank.params.enable_chunked_prefill and sequence.input_tokens - start > rank.budget:
        return Verdict.BLOCKED
    end = min(tokens, start + rank.budget)
    pool.take(max(0, -(-end // size) - restored))
    if sequence.admissions:
        sequence.tail_start = rank.shared_blocks(sequence)
    sequence.admissions += ((now_ns, start),)
    rank.entered = sequence.order = rank.entered + 1
    host.admitted(sequence, start, size)
    rank.schedule_chunk(sequence, start, end)
    return Verdict.ADMITTED
