"""A radix tree over KV pages, one key per page (spec 01 section 4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class Node:
    """A run of consecutive pages; `locks` counts the requests that hold it or something below it."""

    keys: list[int]
    parent: Node | None
    touched: int
    locks: int = 0
    children: dict[int, Node] = field(default_factory=dict)

    def path(self) -> Iterator[Node]:
        """The node and its ancestors, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


class RadixTree:
    """`free` pages are a count; pages of unlocked nodes can be evicted, least recently touched leaf first."""

    def __init__(self, pages: int) -> None:
        self.free = pages
        self.clock = 0
        self.root = Node([], None, 0)

    def nodes(self, below: Node | None = None) -> Iterator[Node]:
        """All nodes but the root."""
        for child in (below or self.root).children.values():
            yield child
            yield from self.nodes(child)

    @property
    def evictable(self) -> int:
        """Pages of nodes that nobody locks."""
        return sum(len(node.keys) for node in self.nodes() if node.locks == 0)

    @property
    def available(self) -> int:
        """Pages that can be allocated."""
        return self.free + self.evictable

    def matched(self, keys: list[int]) -> int:
        """Count the leading pages that are in the tree; changes nothing."""
        node, count = self.root, 0
        while count < len(keys) and (child := node.children.get(keys[count])):
            common = _common(child.keys, keys[count:])
            count += common
            if common < len(child.keys):
                break
            node = child
        return count

    def match(self, keys: list[int]) -> tuple[int, Node]:
        """Find the leading pages; touch the nodes they cover wholly, cut the one they cover in part."""
        self.clock += 1
        node, count = self.root, 0
        while count < len(keys) and (child := node.children.get(keys[count])):
            common = _common(child.keys, keys[count:])
            count += common
            if common < len(child.keys):
                return count, self._cut(child, common)
            node = child
            node.touched = self.clock
        return count, node

    def lock(self, node: Node, by: int = 1) -> None:
        """Lock (or unlock, `by` = -1) a path."""
        for each in node.path():
            each.locks += by

    def take(self, pages: int) -> bool:
        """Allocate pages, evicting where that is needed; False when even that gives too few."""
        self._evict(pages - self.free)
        if pages > self.free:
            return False
        self.free -= pages
        return True

    def insert(self, start: Node, keys: list[int]) -> Node:
        """Put pages behind `start`; return the node they end in. Copies of what is there are freed.

        The path is touched if there are any, and so are the nodes below that they cover wholly.
        """
        if not keys:
            return start
        self.clock += 1
        for node in start.path():
            node.touched = self.clock
        node = start
        while keys:
            if self._may_grow(node, start):
                node.keys = node.keys + keys
                node.touched = self.clock
                return node
            child = node.children.get(keys[0])
            if child is None:
                node.children[keys[0]] = child = Node(keys, node, self.clock)
                return child
            common = _common(child.keys, keys)
            self.free += common
            keys = keys[common:]
            if common < len(child.keys):
                node = self._cut(child, common)
            else:
                node = child
                node.touched = self.clock
        return node

    def _may_grow(self, node: Node, start: Node) -> bool:
        if node is self.root or node.children:
            return False
        return node.locks == 0 or (node is start and node.locks == 1)

    def _cut(self, node: Node, count: int) -> Node:
        """Make the first `count` pages a node of their own, which keeps the instant of the last touch."""
        parent = node.parent
        assert parent is not None
        top = Node(node.keys[:count], parent, node.touched, node.locks)
        parent.children[top.keys[0]] = top
        node.keys, node.parent = node.keys[count:], top
        top.children[node.keys[0]] = node
        return top

    def _evict(self, pages: int) -> None:
        while pages > 0:
            leaves = [node for node in self.nodes() if not node.locks and not node.children]
            if not leaves:
                return
            oldest = min(leaves, key=lambda node: node.touched)
            first = oldest.keys[0]
            gone = min(pages, len(oldest.keys))
            del oldest.keys[len(oldest.keys) - gone :]
            if not oldest.keys:
                assert oldest.parent is not None
                del oldest.parent.children[first]
            self.free += gone
            pages -= gone


def _common(here: list[int], there: list[int]) -> int:
    count = 0
    for mine, yours in zip(here, there, strict=False):
        if mine != yours:
            break
        count += 1
    return count
