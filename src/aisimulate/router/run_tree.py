"""Content chains of all targets of a router in one tree of runs: what several have in common is one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.core.traffic import BlockIds


class Run:
    """Blocks [start, start + len) of the content chain `ids`; `holders`: what is noted of them, by target."""

    __slots__ = ("children", "holders", "ids", "len", "parent", "start")

    def __init__(self, start: int, length: int, ids: BlockIds, parent: Run | None) -> None:
        self.start = start
        self.len = length
        self.ids = ids
        self.parent = parent
        self.children: dict[int, Run] = {}
        self.holders: dict[int, int] = {}


class RunTree:
    """Runs of blocks. `stride` blocks have one id; a prompt is compared with all targets in one walk."""

    __slots__ = ("_root", "stride")

    def __init__(self) -> None:
        self.stride = 1
        self._root = Run(0, 0, [], None)

    def follow(self, ids: BlockIds, blocks: int) -> list[tuple[Run, int]]:
        """List the runs that begin like a chain, each with the block up to which it agrees."""
        stride, node, position = self.stride, self._root, 0
        found = []
        while position < blocks:
            child = node.children.get(ids[position // stride])
            if child is None:
                break
            used = self._agreement(child, ids, position, blocks)
            position += used
            found.append((child, position))
            if used < child.len:
                break
            node = child
        return found

    def path(self, ids: BlockIds, blocks: int, found: list[tuple[Run, int]]) -> list[Run]:
        """List the runs that make up the first `blocks` blocks of a chain; missing ones are made.

        `found` is what `follow` just said of the chain.
        """
        runs = [run for run, _ in found]
        node, position = self._root, 0
        if found:
            node, position = found[-1]
            used = position - node.start
            if used < node.len:
                node = runs[-1] = self._split(node, used)
        if position < blocks:
            child = Run(position, blocks - position, ids, node)
            node.children[ids[position // self.stride]] = child
            runs.append(child)
        return runs

    def forget(self, run: Run) -> None:
        """Take out a run that nobody holds, and hence nobody goes on from."""
        parent = run.parent
        assert parent is not None
        del parent.children[run.ids[run.start // self.stride]]

    def _agreement(self, child: Run, ids: BlockIds, position: int, blocks: int) -> int:
        """Count the blocks of `child` that agree with a chain from `position` on; its first id does."""
        stride, end = self.stride, min(position + child.len, blocks)
        first, last = position // stride, -(-end // stride)
        if ids is not child.ids and ids[first:last] != child.ids[first:last]:
            index = first + 1
            while ids[index] == child.ids[index]:
                index += 1
            return index * stride - position
        return end - position

    def _split(self, node: Run, used: int) -> Run:
        """Cut the first `used` blocks off `node` as its new parent; the deep part stays the same object."""
        parent = node.parent
        assert parent is not None
        stride = self.stride
        top = Run(node.start, used, node.ids, parent)
        top.holders = dict(node.holders)
        parent.children[node.ids[node.start // stride]] = top
        node.start += used
        node.len -= used
        node.parent = top
        top.children[node.ids[node.start // stride]] = node
        return top
