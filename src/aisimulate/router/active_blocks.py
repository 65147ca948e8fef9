"""The prompt blocks of the requests that a router has placed and that have not ended, on every target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.router.run_tree import Run, RunTree

if TYPE_CHECKING:
    from aisimulate.core.traffic import BlockIds


class ActiveBlocks:
    """Distinct active blocks per target (`distinct`), and the prefixes of prompts among them.

    The holders of a run are the targets with requests that have it, and how many those are.
    """

    __slots__ = ("_found", "_tree", "distinct")

    def __init__(self) -> None:
        self.distinct: list[int] = []
        self._found: list[tuple[Run, int]] = []  # what was found of the last chain
        self._tree = RunTree()

    def shared(self, ids: BlockIds, blocks: int, stride: int) -> list[int]:
        """Count, for every target, the leading blocks of a chain (of the first `blocks`) active there."""
        self._tree.stride = stride
        shared = [0] * len(self.distinct)
        self._found = self._tree.follow(ids, blocks)
        for run, position in self._found:
            for target in run.holders:
                shared[target] = position
        return shared

    def add(self, target: int, ids: BlockIds, blocks: int) -> Run:
        """Let a request on `target` have the blocks (1 or more) that `shared` was just asked for.

        Returns the run where they end, which `drop` asks for.
        """
        runs = self._tree.path(ids, blocks, self._found)
        for run in runs:
            count = run.holders.get(target, 0)
            run.holders[target] = count + 1
            if not count:
                self.distinct[target] += run.len
        return runs[-1]

    def drop(self, target: int, run: Run) -> None:
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
                    self._tree.forget(node)
            node = parent
