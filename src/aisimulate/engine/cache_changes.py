"""Changes of a rank's prefix cache that those outside have not heard of yet.

An engine tells of the blocks it stored and removed when the pass ends in which it did so, and a message may
take a while to arrive. The pool is ahead of that: what was changed since is undone on the fly, for one
prompt at a time (spec 03 section A4).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aisimulate.core.traffic import BlockIds


class Change(NamedTuple):
    """Blocks [start, end) of the content chain `ids` were stored, or removed; visible from `due_ns` on."""

    is_store: bool
    ids: BlockIds
    start: int
    end: int
    due_ns: int = 0


class CacheChanges:
    """What a pool did, in order: `fresh` in the pass in flight, the rest is on its way for `lag_ns`.

    `stride`, where asked for, is the number of blocks that one id of a chain stands for.
    """

    __slots__ = ("_lag_ns", "_late", "fresh")

    def __init__(self, lag_ns: int) -> None:
        self.fresh: list[Change] = []
        self._late: deque[Change] = deque()
        self._lag_ns = lag_ns

    def __bool__(self) -> bool:
        """Whether there is anything that somebody has not heard of."""
        return bool(self.fresh or self._late)

    def stored(self, ids: BlockIds, start: int, end: int) -> None:
        """Note that blocks were stored."""
        self.fresh.append(Change(True, ids, start, end))

    def removed(self, ids: BlockIds, start: int, end: int) -> None:
        """Note that blocks were removed, the deepest of their chain first."""
        self.fresh.append(Change(False, ids, start, end))

    def publish(self, end_ns: int) -> None:
        """Send what happened in the pass that ended at `end_ns`."""
        if self._lag_ns:
            due_ns = end_ns + self._lag_ns
            self._late.extend(change._replace(due_ns=due_ns) for change in self.fresh)
        self.fresh.clear()

    def visible(self, keys: BlockIds, stride: int, hit: int, limit: int, now_ns: int) -> int:
        """Count the leading blocks of `keys`, at most `limit`, that are cached for those outside.

        `hit` is what the pool itself has of them.
        """
        late = self._late
        while late and late[0].due_ns <= now_ns:
            late.popleft()
        for change in reversed(self.fresh):
            hit = _before(change, keys, stride, hit, limit)
        for change in reversed(late):
            hit = _before(change, keys, stride, hit, limit)
        return hit


def _before(change: Change, keys: BlockIds, stride: int, hit: int, limit: int) -> int:
    """Count the leading blocks of `keys` that were cached before a change, after which `hit` were."""
    is_store, ids, start, end, _ = change
    if start >= limit or (hit <= start if is_store else hit < start):
        return hit
    known = start // stride + 1
    if ids[:known] != keys[:known]:
        return hit
    if is_store:
        return start
    return max(hit, _agreement(ids, keys, stride, known, min(end, limit)))


def _agreement(ids: BlockIds, keys: BlockIds, stride: int, index: int, end: int) -> int:
    """Find the block up to `end` at which two chains part; their first `index` ids agree."""
    last = -(-end // stride)
    if ids[index:last] == keys[index:last]:
        return end
    while ids[index] == keys[index]:
        index += 1
    return index * stride
