"""Admission from the waiting queue of a rank: strictly first come, first served (spec 01 section 3.1)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from aisimulate.engine.preemption import preempt_for_head

if TYPE_CHECKING:
    from collections import deque

    from aisimulate.engine.run_pool import Match
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence

# Why a request was rejected.
PROMPT_OVER_MODEL_LEN = "prompt_exceeds_max_model_len"
PROMPT_OVER_CAPACITY = "prompt_exceeds_kv_capacity"
PROMPT_OVER_BUDGET = "prompt_exceeds_token_budget"
SEQUENCE_OVER_CAPACITY = "sequence_exceeds_kv_capacity"

_FULL = 1 << 62  # more than may ever run


def admit_waiting(rank: RankScheduler, now_ns: int) -> None:
    """Admit from the head of the queue until the head has to wait; reject what can never run."""
    waiting = rank.waiting
    running = rank.decoders.count + len(rank.joining) + len(rank.done) + (rank.partial is not None)
    most = rank.params.max_num_seqs
    if rank.try_admit is try_admit and not (rank.fused or rank.planned):
        running = _admit_plain(rank, running, now_ns)
    while waiting and running < most and not rank.preempted:
        sequence = waiting[0]
        budget = rank.budget
        if sequence.reason is None:
            if budget == 0 and rank.needs_budget(sequence):
                return
            if rank.partial is not None and rank.partial.keys is not None:
                rank.cache_computed(rank.partial)
            if rank.try_admit(rank, sequence, now_ns):
                running += 1
                if budget == rank.budget == 0:
                    return
                continue
            if running or rank.held:
                return
            sequence.reason = stuck_reason(rank, sequence)
        rank.rejected.append(waiting.popleft())
        rank.eventful = rank.unusual = True


def _admit_plain(rank: RankScheduler, running: int, now_ns: int) -> int:
    """Admit heads as plain as most, as `try_admit` would; return how many run then (`_FULL`: enough)."""
    waiting = rank.waiting
    if waiting[0].admissions:
        running = _admit_again(rank, running, now_ns)
        if not waiting or waiting[0].admissions:
            return running
    if waiting[0].keys is None:
        return _admit_blank(rank, running, now_ns)
    if rank.partial is None and not rank.deferring:
        running = _admit_sharing(rank, running, now_ns)
        if rank.tells and rank.partial is not None:
            rank.cache_computed(rank.partial)
    return running


def _admit_blank(rank: RankScheduler, running: int, now_ns: int) -> int:
    """Admit heads that are new, share nothing and fit whole, as `try_admit` would; return how many run then.

    The first that is of another kind is left to the caller.
    """
    waiting, joining, size = rank.waiting, rank.joining, rank.block_size
    budget, seats = rank.budget, rank.params.max_num_seqs - running
    room, order, first = rank.pool.room, rank.entered, len(joining)
    admissions = ((now_ns, 0),)  # one for all: there are many of them
    tokens = blocks = -1
    for sequence in islice(waiting, seats if seats > 0 else 0):
        if sequence.tokens != tokens:  # else as of the one before
            tokens = sequence.tokens
            blocks = -(-tokens // size)
        if tokens > budget or blocks > room or sequence.keys is not None or sequence.reason is not None:
            break
        if sequence.admissions or tokens == sequence.end_tokens:
            break
        budget -= tokens
        room -= blocks
        order += 1
        sequence.order = order
        sequence.computed = tokens
        sequence.chunk_start = 0
        sequence.admissions = admissions
        joining.append(sequence)
    if admitted := len(joining) - first:
        drop_first(waiting, admitted)
        rank.note_blank(admitted, rank.budget - budget)
        rank.pool.take(rank.pool.room - room)
    return running + admitted


def drop_first(waiting: deque[Sequence], count: int) -> None:
    """Take so many out of the queue, at its head."""
    if count == len(waiting):
        waiting.clear()
    else:
        for _ in range(count):
            waiting.popleft()


def _admit_sharing(rank: RankScheduler, running: int, now_ns: int) -> int:
    """Admit heads that are new and may find their prompt cached, as `try_admit` would; return how many run.

    The first that is of another kind is left to the caller, and so is one that has to wait. There is no
    unfinished prefill.
    """
    waiting, pool, size, most = rank.waiting, rank.pool, rank.block_size, rank.params.max_num_seqs
    budget, is_cut = rank.budget, False
    chunks = starts = ends = 0
    while waiting and running < most and budget and not is_cut:
        sequence = waiting[0]
        keys, tokens = sequence.keys, sequence.tokens
        if keys is None or sequence.admissions or sequence.reason is not None or sequence.planned:
            break
        match = pool.match(keys, tokens // size)
        if match[0] * size >= tokens:
            # The last token must be computed to sample the next one.
            match = pool.shorten(match, (tokens - 1) // size)
        hit = match[0]
        start, end = hit * size, tokens
        if is_cut := end - start > budget:
            end = start + budget
        if (
            -(-tokens // size) - match[1] > pool.room
            or tokens >= sequence.end_tokens
            or (is_cut and not rank.params.enable_chunked_prefill)
        ):
            break
        waiting.popleft()
        if hit:
            pool.pin(sequence, match)
        pool.take(-(-end // size) - hit)
        running += 1
        rank.entered = sequence.order = rank.entered + 1
        sequence.admissions = ((now_ns, start),)
        sequence.chunk_start = start
        sequence.computed = end
        budget -= end - start
        chunks += 1
        starts += start
        ends += end
        if is_cut:
            rank.partial = sequence
        else:
            if sequence.tail_start > hit:
                pool.extend(sequence, hit, sequence.tail_start)
            rank.joining.append(sequence)
    if chunks:
        rank.note_chunks(chunks, starts, ends, budget)
    return running


def _admit_again(rank: RankScheduler, running: int, now_ns: int) -> int:
    """Admit heads that gave way as decoders, share nothing and fit whole, as `try_admit` would.

    Return how many run then, `_FULL` if the head has to wait for blocks. The first that is of another kind is
    left to the caller, and so is one that has to wait for something else.
    """
    waiting, joining, pool, size = rank.waiting, rank.joining, rank.pool, rank.block_size
    budget, first, most = rank.budget, len(joining), rank.params.max_num_seqs
    chunks = starts = ends = context = 0
    order = rank.entered
    while waiting and running < most:
        sequence = waiting[0]
        tokens, prompt = sequence.tokens, sequence.input_tokens
        blocks = -(-tokens // size)
        if tokens <= prompt or sequence.keys is not None or not sequence.admissions:
            break
        if blocks > pool.room:
            running = _FULL if running else 0
            break
        if tail := sequence.len:
            pool.settle()  # the last one's blocks may be those that this one left behind
            tail = sequence.len
        start = tail * size
        if tokens - start > budget:
            break
        if tail:
            pool.revive(sequence)
        pool.take(blocks - tail)
        waiting.popleft()
        running += 1
        order += 1
        budget -= tokens - start
        sequence.admissions += ((now_ns, start),)
        sequence.tail_start = 0
        sequence.order = order
        sequence.computed = tokens
        sequence.chunk_start = start
        context += tokens
        if start < prompt:
            chunks += 1
            starts += start
            ends += prompt
        joining.append(sequence)
    if context:
        rank.note_again(len(joining) - first, context)
        rank.note_chunks(chunks, starts, ends, budget)
    return running


def stuck_reason(rank: RankScheduler, sequence: Sequence) -> str:
    """Name what keeps the head out although nothing runs: it would wait for ever."""
    if -(-sequence.tokens // rank.params.block_size) > rank.params.num_gpu_blocks:
        return SEQUENCE_OVER_CAPACITY
    return PROMPT_OVER_BUDGET


def try_admit(rank: RankScheduler, sequence: Sequence, now_ns: int) -> bool:
    """Admit the head if its known length fits and the budget gives it a token; else do nothing."""
    pool = rank.pool
    if sequence.len:
        pool.settle()
    match, tail = (pool.miss, sequence.len) if sequence.keys is None else _lookup(rank, sequence)
    if -(-sequence.tokens // rank.block_size) - match[1] > pool.room:
        return False
    return enter(rank, sequence, match, tail, now_ns)


def enter(rank: RankScheduler, sequence: Sequence, match: Match, tail: int, now_ns: int) -> bool:
    """Let the head, which fits, run if the budget gives it a token; else do nothing.

    `match` is its cached prefix among the shared blocks, `tail` what is left of its own private run.
    """
    pool, size, budget = rank.pool, rank.block_size, rank.budget
    hit = match[0]
    cached = hit + tail
    start, end = cached * size, sequence.tokens
    if rank.deferring and end - start > 1:
        return False
    if end - start > budget:
        end = start + budget
        if end == start or _refuses_chunks(rank, sequence, start):
            return False
    fresh = -(-end // size) - cached
    if rank.planned:
        _make_room(rank, match, fresh + tail, now_ns)
    if hit:
        pool.pin(sequence, match)
    if tail:
        pool.revive(sequence)
    pool.take(fresh)
    if sequence.admissions:
        sequence.tail_start = max(rank.shared_blocks(sequence), hit)
    if rank.preempted:
        rank.waiting.remove(sequence)
    else:
        rank.waiting.popleft()
    sequence.admissions += ((now_ns, start),)
    rank.entered = sequence.order = rank.entered + 1
    rank.schedule_chunk(sequence, start, end)
    return True


def _refuses_chunks(rank: RankScheduler, sequence: Sequence, start: int) -> bool:
    """Whether a prompt longer than the budget has to wait because it may not be cut."""
    return not rank.params.enable_chunked_prefill and sequence.input_tokens - start > rank.budget


def _lookup(rank: RankScheduler, sequence: Sequence) -> tuple[Match, int]:
    """Find the cached prefix of the head: shared blocks, then blocks left of its own private run."""
    keys, pool, tokens = sequence.keys, rank.pool, sequence.tokens
    assert keys is not None
    size = rank.block_size
    shared = sequence.tail_start
    if sequence.planned:
        # A generated block has an identity once it was computed.
        shared = max(sequence.input_tokens, sequence.most_computed) // size
    match = pool.match(keys, shared)
    tail = sequence.len if match[0] == shared else 0
    if match[0] * size >= tokens < sequence.end_tokens and not tail:
        # The last token must be computed to sample the next one.
        match = pool.shorten(match, (tokens - 1) // size)
    return match, tail


def _make_room(rank: RankScheduler, match: Match, blocks: int, now_ns: int) -> None:
    """Preempt running sequences when the fit test promised blocks that the pins themselves use up.

    That happens with several copies of a block, when a held block hangs behind one that nobody holds.
    """
    pool = rank.pool
    while blocks > pool.room - pool.unheld(match):
        preempt_for_head(rank, now_ns)
