"""Passes in which one prompt is computed, a chunk in each, and nobody else can be let in.

That is what nearly every prefill of an open-loop replay comes to. Such a pass is planned, priced and ended in
one go; whatever is not plain about it is left to the planner, which then finds everything as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.admission import try_admit
from aisimulate.engine.finishing import complete_due

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def prefill_alone(
    rank: RankScheduler, log: GapLog, now_ns: int, until_ns: int, terminal: list[Sequence] | None
) -> int:
    """Run the passes from `now_ns` on that start before `until_ns` and are of this kind; return their end.

    They end with the prompt of the unfinished prefill or, if there is none, of the head of the queue. Nothing
    arrives before `until_ns`. If all that comes later waits for the last chunk (`rank.all_wait`), all before
    it are run too. Gaps go to `log`, those who end to `terminal`: they end the passes, if anybody cares.
    """
    decoders, pool, timer, waiting = rank.decoders, rank.pool, rank.timer, rank.waiting
    size, residues, done = rank.block_size, decoders.residues, decoders.passes
    opening = residues[(done - 1) % size]  # `DecodeSet.opening`, without the call
    partial, fused = rank.partial, rank.fused
    sequence = let_in(rank, waiting[0], opening, now_ns) if partial is None else partial
    if (
        sequence is None
        or sequence.planned
        or not sequence.tokens == sequence.input_tokens < sequence.end_tokens
    ):
        return now_ns
    start, prompt = sequence.computed, sequence.input_tokens
    opened = -(-start // size) + (opening if partial is None else 0)
    ended: list[Sequence] = [] if terminal is None else terminal
    while now_ns < until_ns or rank.all_wait:
        batch, context = decoders.count, decoders.context_tokens
        end = start + rank.pass_tokens - batch
        is_last = end >= prompt
        end = prompt if is_last else end
        needed = -(-end // size)
        if (
            end <= start
            or (taken := opening + needed - opened) > pool.room
            or (is_last and now_ns >= until_ns)
            or (waiting and (is_last or lets_in(rank)))
        ):
            break
        pool.take(taken)
        sequence.computed = end
        if is_last:
            cache_prompt(rank, sequence)
        pass_ns = (
            timer.fused_ns(((start, end),), batch, context) if fused else timer.prefill_ns(1, end, start)
        )
        if batch:
            pass_ns += 0 if fused else timer.beside_ns(batch, context)
            log.passes += (pass_ns, batch, done)
            decoders.context_tokens = context + batch
        now_ns += pass_ns
        done = decoders.passes = done + 1
        if rank.fresh:
            rank.settle_second_tokens(now_ns)
        if done >= decoders.next_due:
            ended += complete_due(rank, now_ns)
        if is_last:
            join(rank, sequence, now_ns, ended)
        if is_last or terminal:
            break
        start, opened, opening = end, needed, residues[(done - 1) % size]
    return now_ns


def let_in(rank: RankScheduler, sequence: Sequence, opening: int, now_ns: int) -> Sequence | None:
    """Take the `opening` blocks of the decoders, make the head the unfinished prefill and return it.

    Or do nothing and return None: it is let in if nothing about it is peculiar and its first chunk leaves
    room for nobody else.
    """
    waiting, pool, size, tokens = rank.waiting, rank.pool, rank.block_size, sequence.tokens
    batch, room = rank.decoders.count, pool.room - opening
    if (
        sequence.admissions
        or sequence.reason is not None
        or sequence.planned
        or tokens == sequence.end_tokens
    ):
        return None
    claim = rank.claim
    if (claim is None and rank.try_admit is not try_admit) or batch >= rank.params.max_num_seqs or room < 0:
        return None
    if opening:
        pool.take(opening)
    keys = sequence.keys
    match = pool.miss if keys is None else pool.match(keys, sequence.tail_start)
    hit, held, _, _ = match
    start = hit * size
    is_cut = tokens - start > rank.pass_tokens - batch
    is_alone = is_cut or len(waiting) == 1
    if (
        not is_alone
        or start >= tokens
        or -(-tokens // size) - held > room
        or (is_cut and _refuses(rank, batch))
        or (claim is not None and not claim(sequence, held))
    ):
        # The planner takes these blocks again; nothing has happened since.
        pool.give_back(opening)
        return None
    if hit:
        pool.pin(sequence, match)
    waiting.popleft()
    sequence.admissions = ((now_ns, start),)
    rank.entered = sequence.order = rank.entered + 1
    sequence.computed = start
    rank.partial = sequence
    return sequence


def _refuses(rank: RankScheduler, batch: int) -> bool:
    """Whether a prompt may not be cut, or others might be let in, or refused, behind its first chunk."""
    waiting = rank.waiting
    if batch >= rank.pass_tokens or not rank.params.enable_chunked_prefill:
        return True
    return len(waiting) > 1 and (waiting[1].reason is not None or not rank.needs_budget(waiting[1]))


def lets_in(rank: RankScheduler) -> bool:
    """Whether the head of the queue might be let in, or refused, beside a chunk that uses up the budget."""
    head = rank.waiting[0]
    return head.reason is not None or not rank.needs_budget(head)


def cache_prompt(rank: RankScheduler, sequence: Sequence) -> None:
    """Let lookups see the full blocks of a prompt that is computed (`RankScheduler.cache_computed`)."""
    rank.partial = None
    if sequence.keys is not None:
        node = sequence.node
        first = 0 if node is None else node.start + node.len
        if sequence.tail_start > first:
            rank.pool.extend(sequence, first, sequence.tail_start)


def join(rank: RankScheduler, sequence: Sequence, now_ns: int, terminal: list[Sequence]) -> None:
    """Let a prompt that is computed emit its first token."""
    sequence.first_token_ns = now_ns
    sequence.tokens += 1
    if sequence.tokens == sequence.end_tokens:
        rank.complete([sequence], 1, now_ns, terminal)
    else:
        rank.fresh.append(sequence)
        rank.decoders.add(sequence)
