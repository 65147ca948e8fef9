"""What a router that hears nothing of the caches believes them to hold: what it sent there lately.

Without cache events a prompt counts as cached on the target it went to, for a fixed time after the last
request with the same blocks went there (spec 03 section A8, `use_kv_events`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from aisimulate.router.run_tree import Run, RunTree

if TYPE_CHECKING:
    from aisimulate.core.traffic import BlockIds


class RememberedBlocks:
    """Prompts and where they went, each remembered for `ttl_ns`.

    The holders of a run are the targets it went to, and when that is forgotten: never later than for the run
    before it.
    """

    __slots__ = ("_expiries", "_tree", "_ttl_ns")

    def __init__(self, ttl_ns: int) -> None:
        self._ttl_ns = ttl_ns
        self._tree = RunTree()
        self._expiries: deque[tuple[int, int, Run]] = deque()

    def prefixes(self, ids: BlockIds, blocks: int, stride: int, targets: int, now_ns: int) -> list[int]:
        """Count, for `targets` targets, the leading blocks of a chain that they are believed to have."""
        self._tree.stride = stride
        self._forget(now_ns)
        found = [0] * targets
        for run, position in self._tree.follow(ids, blocks):
            for target, expiry_ns in run.holders.items():
                if expiry_ns > now_ns:
                    found[target] = position
        return found

    def add(self, target: int, ids: BlockIds, blocks: int, now_ns: int) -> None:
        """Remember that a prompt went to `target`."""
        expiry_ns = now_ns + self._ttl_ns
        runs = self._tree.path(ids, blocks, self._tree.follow(ids, blocks))
        for run in runs:
            run.holders[target] = expiry_ns
        if runs:
            self._expiries.append((expiry_ns, target, runs[-1]))

    def _forget(self, now_ns: int) -> None:
        """Drop what is too old, from the ends of prompts on."""
        expiries = self._expiries
        while expiries and expiries[0][0] <= now_ns:
            _, target, run = expiries.popleft()
            node = run
            while (parent := node.parent) is not None and node.holders.get(target, now_ns + 1) <= now_ns:
                del node.holders[target]
                if not node.holders:
                    self._tree.forget(node)
                node = parent
