"""Preemption with recompute: a victim gives its blocks back and waits at the head of the queue.

Its generated tokens are kept and its blocks stay cached until the space is needed (spec 01 section 3.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.decode_set import running_order

if TYPE_CHECKING:
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def open_blocks(rank: RankScheduler, now_ns: int) -> None:
    """Open the decoders' blocks in running order; while there is none, the last of the order gives way.

    Victims come off the tail, so they were not scheduled in this pass and no budget returns.
    """
    if rank.partial is None and not (rank.stalled or rank.planned or rank.decoders.reordered):
        opening = open_or_give_way(rank, now_ns)
        if opening >= 0:
            rank.pool.take(opening)
            rank.budget = rank.pass_tokens - rank.decoders.count
            return
    pool, members = rank.pool, rank.decoders.members
    openers, opened = rank.decoders.openers(), 0
    while left := len(openers) - opened:
        if room := pool.room:
            served = min(room, left)
            pool.take(served)
            opened += served
        elif rank.partial is not None:
            preempt_partial(rank)
        else:
            reordered = rank.decoders.reordered
            victim = max(members, key=running_order) if reordered else next(reversed(members))
            preempt_decoder(rank, victim, now_ns)
            if victim is openers[-1]:
                openers.pop()
    rank.budget = rank.pass_tokens - rank.decoders.count


def open_or_give_way(rank: RankScheduler, now_ns: int) -> int:
    """Let decoders give way, the last first, until there is a block for each of the others that opens one.

    Return how many open one; they are still to be taken. Those who share nothing need no place in the tree,
    so the order of what is evicted is the same as if each block had been opened in turn. The first of another
    kind is left to the caller: -1.
    """
    decoders, pool, cached = rank.decoders, rank.pool, rank.params.enable_prefix_caching
    members, residues, passes = decoders.members, decoders.residues, decoders.passes
    opener = (passes - 1) % rank.block_size
    rank.eventful = rank.unusual = rank.preempted = True
    while (opening := residues[opener]) > pool.room:
        victim = next(reversed(members))
        if victim.keys is not None or victim.node is not None:
            return -1
        rank.spans.append((victim, victim.joined, passes))
        victim.last_token_ns = now_ns
        decoders.remove(victim)
        computed = victim.tokens - 1
        if cached:
            pool.release_cached(victim, computed)
        else:
            pool.release(victim, computed, cached)
        victim.computed = 0
        if computed > victim.most_computed:
            victim.most_computed = computed
        rank.waiting.appendleft(victim)
    return opening


def head_waits(rank: RankScheduler) -> bool:
    """Whether the pass that began with preemptions goes on as a run of decode passes.

    It does if the head, the last victim, cannot get in: what it would need is not given back before a member
    finishes. Its generated blocks do not count, because nobody holds them.
    """
    head, pool, size = rank.waiting[0], rank.pool, rank.block_size
    if not rank.decoders.count or rank.planned or rank.stalled:
        return False
    needed = -(-head.tokens // size)
    if (keys := head.keys) is not None:
        if head.planned:
            return False
        needed -= pool.match(keys, head.input_tokens // size)[1]
    return needed > pool.room


def preempt_decoder(rank: RankScheduler, sequence: Sequence, now_ns: int, scheduled: bool = False) -> None:
    """Preempt a decoder; one that is scheduled in this pass has computed its last token too."""
    if sequence in rank.stalled:
        del rank.stalled[sequence]
    else:
        rank.spans.append((sequence, sequence.joined, rank.decoders.passes))
        sequence.last_token_ns = now_ns
    rank.decoders.remove(sequence)
    rank.planned.pop(sequence, None)
    _requeue(rank, sequence, sequence.tokens if scheduled else sequence.tokens - 1)


def preempt_partial(rank: RankScheduler) -> None:
    """Preempt the unfinished prefill."""
    sequence = rank.partial
    assert sequence is not None
    rank.partial = None
    _requeue(rank, sequence, sequence.computed)


def preempt_scheduled(rank: RankScheduler, sequence: Sequence) -> None:
    """Preempt a sequence whose chunk is in the pass being planned."""
    rank.unschedule(sequence)
    _requeue(rank, sequence, sequence.computed)


def preempt_for_head(rank: RankScheduler, now_ns: int) -> None:
    """Preempt the last (fifo: first) of the running order, scheduled in this pass as it may be."""
    running = [*rank.decoders.members, *rank.joining, *rank.done]
    if rank.partial is not None:
        running.append(rank.partial)
    victim = (min if rank.fifo else max)(running, key=running_order)
    if victim in rank.decoders.members:
        scheduled = victim not in rank.held_back
        if not scheduled:
            rank.held_back.remove(victim)
        rank.budget += scheduled
        preempt_decoder(rank, victim, now_ns, scheduled)
    else:
        preempt_scheduled(rank, victim)


def _requeue(rank: RankScheduler, sequence: Sequence, computed_tokens: int) -> None:
    rank.eventful = rank.unusual = rank.preempted = True
    if sequence.keys is not None and not sequence.planned:
        rank.cache_computed(sequence)
    rank.pool.release(sequence, computed_tokens, rank.params.enable_prefix_caching)
    sequence.computed = 0
    sequence.most_computed = max(sequence.most_computed, computed_tokens)
    rank.waiting.appendleft(sequence)
