"""The KV pool of a rank that shares its host memory: blocks that are copied out keep their place until then.

When such a copy ends depends on what others copy, so that nobody could be told from when on its space may be
written. So a store holds the blocks it reads as a request would. It holds no block before them, so that a
block may outlive those it follows: the pool goes by single blocks, and not by runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aisimulate.engine.offload_pool import OffloadPool
from aisimulate.engine.run_pool import Node

if TYPE_CHECKING:
    from aisimulate.engine.offload_lanes import Copy
    from aisimulate.engine.run_pool import Match
    from aisimulate.engine.sequence import Sequence


class Block:
    """Cached block number `position` of the chain `ids`, held by `ref` requests and stores."""

    __slots__ = ("ids", "position", "ref")

    def __init__(self, ids: list[int], position: int) -> None:
        self.ids = ids
        self.position = position
        self.ref = 1


class Prefix(Node):
    """The first `len` blocks of a prompt, as a request holds them or a lookup finds them."""

    __slots__ = ("blocks",)

    def __init__(self, ids: list[int], blocks: list[Block]) -> None:
        super().__init__(0, len(blocks), ids, None, 1)
        self.blocks = blocks


class HeldPool(OffloadPool):
    """An `OffloadPool` by single blocks: of several copies of a block, lookups find the oldest.

    `_old`: in the order of their release, blocks that nobody holds, and requests that ended or gave way with
    a private run. Evictions happen at once.
    """

    __slots__ = ("_copies", "_old", "_stores")

    def __init__(self, capacity_blocks: int, block_size: int) -> None:
        super().__init__(capacity_blocks, block_size)
        self._copies: dict[int, list[Block]] = {}
        self._old: dict[Block | Sequence, None] = {}
        self._stores: dict[Copy, list[Block]] = {}

    # Lookup and pinning -----------------------------------------------------------------------------

    def match(self, keys: list[int], limit: int) -> Match:
        """Find the longest cached prefix of a chain, at most `limit` blocks. Changes nothing."""
        copies, blocks, held = self._copies, [], 0
        for position in range(limit):
            found = copies.get(keys[position])
            if found is None:
                break
            blocks.append(found[0])
            held += found[0].ref > 0
        return (len(blocks), held, Prefix(keys, blocks), len(blocks)) if blocks else self.miss

    def shorten(self, match: Match, blocks: int) -> Match:
        """Give up blocks at the end of a match so that `blocks` are left."""
        if not blocks:
            return self.miss
        left = _blocks_of(match[2])[:blocks]
        return blocks, sum(block.ref > 0 for block in left), Prefix(match[2].ids, left), blocks

    def unheld(self, match: Match) -> int:
        """Count the blocks of a match that nobody holds: a pin takes them out of what can be allocated."""
        return match[0] - match[1]

    def pin(self, sequence: Sequence, match: Match) -> None:
        """Let `sequence` hold the matched blocks; none were taken since the lookup."""
        sequence.node = match[2]
        for block in _blocks_of(match[2]):
            if not block.ref:
                del self._old[block]
                self._cached -= 1
                self.room -= 1
            block.ref += 1

    def revive(self, entry: Node | Sequence) -> None:
        """Take the private run of a request out of the eviction order: it holds it again."""
        assert not isinstance(entry, Node)
        del self._old[entry]
        self._cached -= entry.len
        self.room -= entry.len

    # Allocation ---------------------------------------------------------------------------------------

    def take_ready(self, blocks: int) -> int:
        """Allocate blocks, all of which may be written at once (0)."""
        self.room -= blocks
        while self._cached > self.room:
            entry = next(iter(self._old))
            if isinstance(entry, Block):
                self._evict(entry)
                continue
            gone = min(entry.len, self._cached - self.room)
            entry.len -= gone
            self._cached -= gone
            if not entry.len:
                del self._old[entry]
        return 0

    def _evict(self, block: Block) -> None:
        del self._old[block]
        self._cached -= 1
        copies = self._copies[block.ids[block.position]]
        copies.remove(block)
        if not copies:
            del self._copies[block.ids[block.position]]

    def _is_cached(self, ids: list[int], position: int) -> bool:
        return ids[position] in self._copies

    def give_back(self, blocks: int) -> None:
        """Let blocks be free again."""
        self.room += blocks

    def settle(self) -> None:
        """Do nothing: all evictions have happened."""

    def extend(self, sequence: Sequence, start: int, end: int) -> None:
        """Cache the blocks [start, end) that `sequence` just computed, behind those it holds."""
        keys, node = sequence.keys, sequence.node
        assert keys is not None
        if node is None:
            node = sequence.node = Prefix(keys, [])
        added = [Block(keys, position) for position in range(start, end)]
        for block in added:
            self._copies.setdefault(keys[block.position], []).append(block)
        _blocks_of(node).extend(added)
        node.len += len(added)

    # Release --------------------------------------------------------------------------------------------

    def release(self, sequence: Sequence, computed_tokens: int, cached: bool) -> None:
        """Give back everything a sequence holds, deepest block first."""
        del cached  # always, with memory behind the pool
        size, node = self.block_size, sequence.node
        if node is not None:
            computed_tokens = max(computed_tokens, node.len * size)
        full = computed_tokens // size
        if computed_tokens > full * size:
            self.give_back(1)
        tail = full - sequence.tail_start
        if tail > 0 and sequence.planned:
            self.extend(sequence, sequence.tail_start, full)
        elif tail > 0:
            sequence.len = tail
            self._retire(sequence)
        if sequence.node is not None:
            for block in reversed(_blocks_of(sequence.node)):
                self._let_go(block)
            sequence.node = None

    def _retire(self, entry: Node | Sequence) -> None:
        assert not isinstance(entry, Node)
        self._old[entry] = None
        self._cached += entry.len
        self.room += entry.len

    def _let_go(self, block: Block) -> None:
        block.ref -= 1
        if not block.ref:
            self._old[block] = None
            self._cached += 1
            self.room += 1

    def receive(self, sequence: Sequence, match: Match, fresh: int) -> bool:
        """Let a sequence hold a match and fresh blocks: none that is being read can be taken."""
        if match[0]:
            self.pin(sequence, match)
        self.take(fresh)
        return True

    # Stores -----------------------------------------------------------------------------------------------

    def read_by(self, copy: Copy, sequence: Sequence, positions: list[int]) -> None:
        """Let a store hold blocks of a sequence, at these positions."""
        assert sequence.node is not None
        blocks = _blocks_of(sequence.node)
        self._stores[copy] = [blocks[position] for position in positions]
        for position in positions:
            blocks[position].ref += 1

    def forget(self, copy: Copy) -> None:
        """A store has ended: it lets go of its blocks, the deepest first."""
        for block in reversed(self._stores.pop(copy)):
            self._let_go(block)

    @property
    def held_blocks(self) -> int:
        """Cached blocks that somebody holds, counted one by one."""
        return sum(block.ref > 0 for copies in self._copies.values() for block in copies)

    @property
    def cached_blocks(self) -> int:
        """Blocks that nobody holds, counted one by one."""
        return sum(1 if isinstance(entry, Block) else entry.len for entry in self._old)

    @property
    def read_blocks(self) -> int:
        """Blocks that stores hold."""
        return sum(map(len, self._stores.values()))


def _blocks_of(node: Node) -> list[Block]:
    return cast("Prefix", node).blocks
