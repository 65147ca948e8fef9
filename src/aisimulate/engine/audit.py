"""Counts the KV blocks of a rank from what its requests and its cache hold, not from its counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisimulate.engine.run_pool import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.engine.run_pool import RunPool
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


class BlockAudit(NamedTuple):
    """Blocks that requests hold, blocks cached for nobody, and how many things were looked at."""

    held: int
    cached: int
    steps: int


def audit_blocks(rank: RankScheduler) -> BlockAudit:
    """Count the blocks of a rank between two passes."""
    held = cached = steps = 0
    for node in _nodes(rank.pool.root):
        steps += 1
        if node.ref:
            held += node.len
    for entry in _evictable(rank.pool):
        steps += 1
        cached += entry.len
    for sequence, computed in _running(rank):
        steps += 1
        node_end = 0 if sequence.node is None else sequence.node.start + sequence.node.len
        held += -(-computed // rank.block_size) - node_end
    return BlockAudit(held, cached, steps)


def _nodes(root: Node) -> Iterator[Node]:
    """Walk all nodes below the root, second copies included."""
    stack = [root]
    while stack:
        node = stack.pop()
        below = [*node.children.values()]
        for copies in (node.shadows or {}).values():
            below += copies
        yield from below
        stack += below


def _evictable(pool: RunPool) -> Iterator[Node | Sequence]:
    """List the entries of the eviction order that are not void: of each, the first `stale` ones are."""
    void: dict[Node | Sequence, int] = {}
    for entry in pool._order:
        skipped = void.get(entry, 0)
        if skipped < entry.stale:
            void[entry] = skipped + 1
        else:
            yield entry


def _running(rank: RankScheduler) -> Iterator[tuple[Sequence, int]]:
    """List running requests with the tokens whose KV exists: the last token of a decoder has none yet."""
    for sequence in rank.decoders.members:
        yield sequence, rank.decoders.passes + sequence.base - 1
    if rank.partial is not None:
        yield rank.partial, rank.partial.computed
