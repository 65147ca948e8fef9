"""The prompt blocks of the requests that a router has placed and that have not ended, on every target.

One tree of runs for all targets: a run of blocks that several requests share is one node, which counts its
requests per target. So a prompt is compared with all targets in one walk, and nothing is done per block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.core.traffic import BlockIds


class ActiveRun:
    """Blocks [start, start + len) of the content chain `ids`; `holders`: target -> requests that have it."""

    __slots__ = ("children", "holders", "ids", "len", "parent", "start")

    def __init__(self, start: int, length: int, ids: BlockIds, parent: ActiveRun | None) -> None:
        self.start = start
        self.len = length
        self.ids = ids
        self.parent = parent
        self.children: dict[int, ActiveRun] = {}
        self.holders: dict[int, int] = {}


class ActiveBlocks:
    """Distinct active blocks per target (`distinct`), and the prefixes of prompts among them."""

    __slots__ = ("_root", "_stride", "distinct")

    def __init__(self) -> None:
        self.distinct: list[int] = []
        self._stride = 1
        self._root = ActiveRun(0, 0, [], None)

    def shared(self, ids: BlockIds, blocks: int, stride: int) -> list[int]:
        """Count, for every target, the leading blocks of a chain (of the first `blocks`) active there."""
        self._stride = stride
        shared = [0] * len(self.distinct)
        node, position = self._root, 0
        while position < blocks:
            child = node.children.get(ids[position // stride])
            if child is None:
                break
            used = self._agreement(child, ids, position, blocks)
            position += used
            for target in child.holders:
                shared[target] = position
            if used < child.len:
                break
            node = child
        return shared

    def add(self, target: int, ids: BlockIds, blocks: int) -> ActiveRun:
        """Let a request on `target` have the first `blocks` blocks of a chain; hand the run back to `drop`."""
        stride = self._stride
        node, position = self._root, 0
        while position < blocks:
            key = ids[position // stride]
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = ActiveRun(position, blocks - position, ids, node)
            else:
                used = self._agreement(child, ids, position, blocks)
                if used < child.len:
                    child = self._split(child, used)
            count = child.holders.get(target, 0)
            child.holders[target] = count + 1
            if not count:
                self.distinct[target] += child.len
            node = child
            position += child.len
        return node

    def drop(self, target: int, run: ActiveRun) -> None:
        """Let a request that `add` noted go; `run` is where its blocks end."""
        node = run
        while (parent := node.parent) is not None:
            holders = node.holders
            if holders[target] > 1:
                holders[target] -= 1
            else:
                del holders[target]
                self.distinct[target] -= node.len
                if not holders:
                    del parent.children[node.ids[node.start // self._stride]]
            node = parent

    def _agreement(self, child: ActiveRun, ids: BlockIds, position: int, blocks: int) -> int:
        """Count the blocks of `child` that agree with a chain from `position` on; its first id does."""
        stride, end = self._stride, min(position + child.len, blocks)
        first, last = position // stride, -(-end // stride)
        if ids is not child.ids and ids[first:last] != child.ids[first:last]:
            index = first + 1
            while ids[index] == child.ids[index]:
                index += 1
            return index * stride - position
        return end - position

    def _split(self, node: ActiveRun, used: int) -> ActiveRun:
        """Cut the first `used` blocks off `node` as its new parent; the deep part stays the same object."""
        parent = node.parent
        assert parent is not None
        stride = self._stride
        top = ActiveRun(node.start, used, node.ids, parent)
        top.holders = dict(node.holders)
        parent.children[node.ids[node.start // stride]] = top
        node.start += used
        node.len -= used
        node.parent = top
        top.children[node.ids[node.start // stride]] = node
        return top
