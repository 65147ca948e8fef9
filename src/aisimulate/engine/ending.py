"""Who ends with a pass in flight of a vLLM rank, and what that will give back: for those who watch it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.run_pool import Node
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def ending_in_pass(rank: RankScheduler, passes: int) -> list[tuple[Sequence, int]]:
    """List who ends with pass number `passes` of those in flight, each with its tokens that have KV."""
    last = rank.decoders.passes + (passes if rank.run_batch else 1)
    ending = [
        (sequence, sequence.end_tokens - 1)
        for sequence in rank.decoders.members
        if sequence.end_tokens - sequence.base == last and sequence not in rank.held_back
    ]
    if rank.run_batch:
        return ending
    ending += [
        (sequence, sequence.tokens) for sequence in rank.joining if sequence.end_tokens == sequence.tokens + 1
    ]
    return ending + [(sequence, sequence.tokens) for sequence in rank.done]


def blocks_given_back(rank: RankScheduler, ending: list[tuple[Sequence, int]]) -> tuple[int, int]:
    """Count the blocks that become free, and those that stay in the cache, when these end together."""
    size, caching = rank.block_size, rank.params.enable_prefix_caching
    free = cached = 0
    holders: Counter[Node] = Counter()
    for sequence, computed in ending:
        full = computed // size
        free += computed > full * size
        tail = max(0, full - sequence.tail_start)
        cached += tail if caching else 0
        free += 0 if caching else tail
        node = sequence.node
        while node is not None and node.parent is not None:
            holders[node] += 1
            node = node.parent
    cached += sum(node.len for node, count in holders.items() if node.ref == count)
    return free, cached
