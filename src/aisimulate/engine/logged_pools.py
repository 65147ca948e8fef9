"""KV pools that note what they store and remove, for those who follow the cache of a rank from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.held_pool import HeldPool
from aisimulate.engine.offload_pool import OffloadPool
from aisimulate.engine.radix_pool import RadixPool
from aisimulate.engine.run_pool import Node, RunPool

if TYPE_CHECKING:
    from aisimulate.engine.cache_changes import CacheChanges
    from aisimulate.engine.held_pool import Block
    from aisimulate.engine.radix_node import RadixNode
    from aisimulate.engine.sequence import Sequence


class LoggedRuns(RunPool):
    """A `RunPool` that notes in `changes` which shared blocks lookups begin or cease to find."""

    __slots__ = ()

    changes: CacheChanges

    def take(self, blocks: int) -> None:
        """Allocate blocks, and note which ones are evicted."""
        if blocks > self.free and not self.changes.ignored:
            self._note_evictions(blocks - self.free)
        super().take(blocks)
        self.settle()

    def _note_evictions(self, blocks: int) -> None:
        """Look at the runs that the next `blocks` evictions eat, the last one maybe in part."""
        skipped: dict[Node | Sequence, int] = {}
        gone: dict[tuple[Node, int], int] = {}
        for entry in self._order:
            if entry.stale > 0 and entry.stale > skipped.get(entry, 0):
                skipped[entry] = skipped.get(entry, 0) + 1
                continue
            length = entry.len
            eaten = length if length < blocks else blocks
            if isinstance(entry, Node) and eaten:
                end = entry.start + length
                start = end - eaten
                if eaten == length and _has_copy(entry, self.stride, gone):
                    start += 1
                if start < end:
                    self.changes.fresh.append((False, entry.ids, start, end))
            blocks -= eaten
            if not blocks:
                return

    def quiet(self, blocks: int) -> int:
        """Count the blocks, up to `blocks`, that can be taken before one is evicted that lookups find."""
        found = self.free
        skipped: dict[Node | Sequence, int] = {}
        gone: dict[tuple[Node, int], int] = {}
        for entry in self._order if found < blocks else ():
            if entry.stale > 0 and entry.stale > skipped.get(entry, 0):
                skipped[entry] = skipped.get(entry, 0) + 1
                continue
            length = entry.len
            if isinstance(entry, Node) and length and (length > 1 or not _has_copy(entry, self.stride, gone)):
                break
            found += length
            if found >= blocks:
                break
        return min(found, blocks)

    def extend(self, sequence: Sequence, start: int, end: int) -> None:
        """Cache blocks, and note those that no lookup found before."""
        keys = sequence.keys
        assert keys is not None
        if self.changes.ignored:
            super().extend(sequence, start, end)
            return
        node, known = sequence.node or self.root, start
        if node.location is not None or keys[start // self.stride] in node.children:
            known = self.match(keys, end)[0]  # others may have the same blocks
        super().extend(sequence, start, end)
        if known < end:
            self.changes.stored(keys, max(known, start), end)


def _has_copy(node: Node, stride: int, gone: dict[tuple[Node, int], int]) -> bool:
    """Whether lookups still find the first block of a node without it: another copy is left.

    `gone` counts the copies of each place and id that have been asked about: those go too.
    """
    place = node.location or node.parent
    assert place is not None
    if not place.shadows:
        return False
    key = node.ids[node.start // stride]
    copies = 1 + len(place.shadows.get(key, ()))
    gone[place, key] = number = gone.get((place, key), 0) + 1
    return number < copies


class LoggedRunPool(LoggedRuns):
    """The pool of a rank that has only its GPU."""

    __slots__ = ("changes",)


class PatientRunPool(LoggedRuns):
    """The same for a worker that says when it plans, and whose changes are known when a pass ends.

    Blocks are evicted when somebody looks, as in a `RunPool`. Only what is evicted during a planned pass and
    was not due when it was planned (`_told` blocks were) is news for those outside, and noted.
    """

    __slots__ = ("_told", "changes")

    def __init__(self, capacity_blocks: int, block_size: int) -> None:
        super().__init__(capacity_blocks, block_size)
        self._told = 0

    def begin_plan(self) -> None:
        """Take note that a pass is planned: what changes until it ends is news."""
        self.changes.ignored = False
        over = self._cached - self.room
        self._told = self._owed + over if over > 0 else self._owed

    def take(self, blocks: int) -> None:
        """Allocate blocks; the caller checked the `room`."""
        self.room -= blocks

    def settle(self) -> None:
        """Evict what is due, and note what of it is news."""
        if not self.changes.ignored:
            if self._cached > self.room:
                self._owe()  # which may come back here, with nothing else to owe
            told, self._told = self._told, 0
            news = self._owed - told
            if news > 0:
                self._owed = told
                super().settle()
                self._note_evictions(news)
                self._owed = news
        super().settle()


class LoggedOffloadPool(LoggedRuns, OffloadPool):
    """The pool of a rank with host memory."""

    __slots__ = ("changes",)


class LoggedHeldPool(HeldPool):
    """The pool of a rank that shares its host memory."""

    __slots__ = ("changes",)

    changes: CacheChanges

    def _evict(self, block: Block) -> None:
        super()._evict(block)
        if self.changes.ignored or self._is_cached(block.ids, block.position):
            return
        end = block.position + 1
        while end < len(block.ids) and self._is_cached(block.ids, end):  # what lookups do not reach any more
            end += 1
        self.changes.removed(block.ids, block.position, end)

    def quiet(self, blocks: int) -> int:
        """Count the blocks, up to `blocks`, that can be taken before one is evicted."""
        return min(self.free, blocks)

    def extend(self, sequence: Sequence, start: int, end: int) -> None:
        """Cache blocks, and note those that no lookup found before."""
        keys = sequence.keys
        assert keys is not None
        known = self.match(keys, end)[0]
        super().extend(sequence, start, end)
        if known < end and not self.changes.ignored:
            self.changes.stored(keys, max(known, start), end)


class LoggedRadixPool(RadixPool):
    """A `RadixPool` that notes in `changes` which pages with a key it stores and removes."""

    __slots__ = ("changes",)

    changes: CacheChanges

    def take(self, pages: int) -> None:
        """Allocate pages, and note which ones are evicted."""
        left = pages - self.free
        if left <= 0 or self.changes.ignored:
            super().take(pages)
            return
        super().take(self.free)
        while left > 0:
            node = self._next_leaf()
            dropped, end = min(node.len, left), node.start + node.len
            keyed = min(end, node.tail)
            if node.ids is not None and end - dropped < keyed:
                self.changes.removed(node.ids, end - dropped, keyed)
            super().take(dropped)
            left -= dropped

    def quiet(self, pages: int) -> int:
        """Count the pages, up to `pages`, that can be taken before any is evicted."""
        return min(self.free, pages)

    def _next_leaf(self) -> RadixNode:
        """Find the leaf that is evicted next."""
        leaves = self._leaves
        while True:
            touched, _, node = leaves[self._first]
            if node.touched == touched and not node.ref and not node.children:
                return node
            self._first += 1

    def cache(self, sequence: Sequence, pages: int) -> None:
        """Put pages of `sequence` into the tree, and note those that no lookup found before."""
        if self.changes.ignored:
            super().cache(sequence, pages)
            return
        known, end = self._known(sequence, pages)
        super().cache(sequence, pages)
        self._note_stored(sequence, known, end)

    def complete(self, sequence: Sequence, tokens: int) -> None:
        """Cache all full pages of a sequence that ended, and note those that no lookup found before."""
        if self.changes.ignored:
            super().complete(sequence, tokens)
            return
        known, end = self._known(sequence, tokens // self.page_size)
        super().complete(sequence, tokens)
        self._note_stored(sequence, known, end)

    def settle(self, sequence: Sequence, tokens: int) -> tuple[int, int]:
        """Cache all full pages of a sequence that ends, and note those that no lookup found before."""
        if self.changes.ignored:
            return super().settle(sequence, tokens)
        known, end = self._known(sequence, tokens // self.page_size)
        settled = super().settle(sequence, tokens)
        self._note_stored(sequence, known, end)
        return settled

    def _known(self, sequence: Sequence, pages: int) -> tuple[int, int]:
        """Count the first `pages` pages of a sequence that lookups find, and those that have a key."""
        end = min(pages, sequence.shared) if self.caching else 0
        return self.match(sequence, end)[0], end

    def _note_stored(self, sequence: Sequence, known: int, end: int) -> None:
        if known < end:
            assert sequence.keys is not None
            self.changes.stored(sequence.keys, known, end)
