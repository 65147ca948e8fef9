"""The KV pool of a rank whose blocks are copied to host memory, some of them still when they are given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.run_pool import Node, RunPool

if TYPE_CHECKING:
    from aisimulate.engine.offload_lanes import Copy
    from aisimulate.engine.run_pool import Match
    from aisimulate.engine.sequence import Sequence


class OffloadPool(RunPool):
    """A `RunPool` that knows which cached blocks are being read by a store.

    Such a block may be evicted and its space used again, but nothing may be written there before the store
    has ended: `take` moves `fence_ns` to that instant. `overwritten` numbers those among the blocks just
    taken that still are being read, in the order of the taker's blocks.
    """

    __slots__ = ("fence_ns", "overwritten", "read_free", "sources")

    def __init__(self, capacity_blocks: int, block_size: int) -> None:
        super().__init__(capacity_blocks, block_size)
        # Per block identity: the store that reads it, and the second copy it reads if that is not the first.
        self.sources: dict[int, tuple[Copy, Node | None]] = {}
        self.fence_ns = 0
        self.overwritten: list[int] = []
        # Of the free blocks, the last freed last, who reads each; empty if nobody reads any.
        self.read_free: list[Copy | None] = []

    def take(self, blocks: int) -> None:
        """Allocate blocks for a pass, which then may not compute before `fence_ns`."""
        ready_ns = self.take_ready(blocks)
        if ready_ns > self.fence_ns:
            self.fence_ns = ready_ns

    def take_ready(self, blocks: int) -> int:
        """Allocate blocks; return the instant from which on all of them may be written (0 = any)."""
        self.overwritten = []
        evicted, ready_ns = blocks - self.free, 0
        if self.read_free:
            ready_ns = self._take_free(min(blocks, self.free), max(0, evicted))
        if self.sources and evicted > 0:
            for index, copy in self._next_evicted(evicted):
                ready_ns = max(ready_ns, copy.end_ns)
                # What is evicted last is handed out first.
                self.overwritten.append(evicted - 1 - index)
        super().take(blocks)
        self.settle()
        return ready_ns

    def receive(self, sequence: Sequence, match: Match, fresh: int) -> bool:
        """Let a sequence hold a match and fresh blocks, or nothing if any of these is still being read.

        In that case they have been evicted, and the match is as good as just used.
        """
        if match[0]:
            self.pin(sequence, match)
        from_free = min(fresh, self.free)
        evicted = fresh - from_free
        tokens: list[Copy | None] = [None] * evicted
        if self.sources and evicted:
            for index, copy in self._next_evicted(evicted):
                tokens[index] = copy
        top = self.read_free[-from_free:] if from_free else []
        if not any(tokens) and not any(top):
            self.take(fresh)
            return True
        if not self.read_free:
            self.read_free = [None] * self.free
        super().take(fresh)
        self.settle()
        super().give_back(fresh)
        self.read_free += tokens
        self.release(sequence, 0, cached=True)
        return False

    def give_back(self, blocks: int) -> None:
        """Let blocks be free again."""
        super().give_back(blocks)
        if self.read_free:
            self.read_free += [None] * blocks

    def _take_free(self, blocks: int, first: int) -> int:
        """Take free blocks, the last freed first, numbered from `first`; return when all may be written."""
        ready_ns, free = 0, self.read_free
        for number in range(first, first + blocks):
            copy = free.pop()
            if copy is not None:
                ready_ns = max(ready_ns, copy.end_ns)
                self.overwritten.append(number)
        return ready_ns

    def _next_evicted(self, count: int) -> list[tuple[int, Copy]]:
        """Find the sources among the next `count` blocks to be evicted; they are sources no longer."""
        found: list[tuple[int, Copy]] = []
        index = 0
        skips: dict[Node | Sequence, int] = {}
        for entry in self._order:
            skipped = skips.get(entry, 0)
            if skipped < entry.stale:
                skips[entry] = skipped + 1
                continue
            taken = min(entry.len, count - index)
            if isinstance(entry, Node):
                found += self._reading(entry, taken, index)
            index += taken
            if index == count:
                break
        return found

    def _reading(self, node: Node, taken: int, index: int) -> list[tuple[int, Copy]]:
        """Find the sources among the last `taken` blocks of a run, the deepest of which is number `index`."""
        found = []
        last = node.start + node.len - 1
        for depth in range(taken):
            key = node.ids[last - depth]
            source = self.sources.get(key)
            if source is not None and (source[1] is node if source[1] else node.location is None):
                del self.sources[key]
                found.append((index + depth, source[0]))
        return found

    def release_all(self, sequences: list[Sequence], uncomputed: int, cached: bool) -> None:
        """`release` for each of several that ended."""
        for sequence in sequences:
            self.release(sequence, sequence.tokens - uncomputed, cached)

    def release(self, sequence: Sequence, computed_tokens: int, cached: bool) -> None:
        """Give back everything a sequence holds; a restored block is whole though it be computed again."""
        node = sequence.node
        if node is not None:
            computed_tokens = max(computed_tokens, (node.start + node.len) * self.block_size)
        super().release(sequence, computed_tokens, cached)

    def read_by(self, copy: Copy, sequence: Sequence, positions: list[int]) -> None:
        """Note that a store reads blocks of a sequence, at these positions."""
        plain = sequence.segments is None and (sequence.node is None or sequence.node.location is None)
        for key, position in zip(copy.keys, positions, strict=True):
            self.sources[key] = copy, None if plain else _second_copy(sequence, position)

    def forget(self, copy: Copy) -> None:
        """A store has ended: its sources may be overwritten."""
        for key in copy.keys:
            source = self.sources.get(key)
            if source is not None and source[0] is copy:
                del self.sources[key]
        if copy in self.read_free:
            free = [None if reader is copy else reader for reader in self.read_free]
            self.read_free = free if any(free) else []


def _second_copy(sequence: Sequence, position: int) -> Node | None:
    """Find what a sequence holds of block `position` if it is a second copy; None if it is the first."""
    node, first = sequence.node, sequence.segment_start
    segments = list(sequence.segments or ())
    while node is not None:
        while node is not None and node.start >= first and node.parent is not None:
            if node.start <= position:
                return node if node.location is not None else None
            node = node.parent
        if not segments:
            return None
        node, first = segments.pop()
    return None
