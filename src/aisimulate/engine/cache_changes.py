"""Changes of a rank's prefix cache that those outside have not heard of yet.

An engine tells of the blocks it stored and removed when the pass ends in which it did so, and a message may
take a while to arrive. The pool is ahead of that: what was changed since is undone on the fly, for one
prompt at a time (spec 03 section A4).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from aisimulate.core.traffic import BlockIds


# Whether blocks were stored (or removed), their content chain, the first of them and the one behind the last.
Change: TypeAlias = "tuple[bool, BlockIds, int, int]"


class CacheChanges:
    """What a pool did, in order: `fresh` in the pass in flight; `late` ones are on their way, with the
    instants at which they are known.

    `ignored`: what is done now need not be noted, as everybody hears of it at once. `stride`, where asked
    for, is the number of blocks that one id of a chain stands for.
    """

    __slots__ = ("_lag_ns", "fresh", "ignored", "late")

    def __init__(self, lag_ns: int) -> None:
        self.fresh: list[Change] = []
        self.ignored = False
        self.late: deque[tuple[int, Change]] = deque()
        self._lag_ns = lag_ns

    def stored(self, ids: BlockIds, start: int, end: int) -> None:
        """Note that blocks were stored."""
        self.fresh.append((True, ids, start, end))

    def removed(self, ids: BlockIds, start: int, end: int) -> None:
        """Note that blocks were removed, the deepest of their chain first."""
        self.fresh.append((False, ids, start, end))

    def publish(self, end_ns: int) -> None:
        """Send what happened in the pass that ended at `end_ns`."""
        if self._lag_ns:
            due_ns = end_ns + self._lag_ns
            self.late.extend((due_ns, change) for change in self.fresh)
        self.fresh.clear()

    def visible(self, keys: BlockIds, stride: int, hit: int, limit: int, now_ns: int) -> int:
        """Count the leading blocks of `keys`, at most `limit`, that are cached for those outside.

        `hit` is what the pool itself has of them.
        """
        late = self.late
        while late and late[0][0] <= now_ns:
            late.popleft()
        for change in reversed(self.fresh):
            hit = _before(change, keys, stride, hit, limit)
        for _, change in reversed(late):
            hit = _before(change, keys, stride, hit, limit)
        return hit


def _before(change: Change, keys: BlockIds, stride: int, hit: int, limit: int) -> int:
    """Count the leading blocks of `keys` that were cached before a change, after which `hit` were."""
    is_store, ids, start, end = change
    if start >= limit or (hit <= start if is_store else hit < start):
        return hit
    known = start // stride + 1
    if ids[:known] != keys[:known]:
        return hit
    if is_store:
        return start
    return max(hit, agreement(ids, keys, stride, known, min(end, limit)))


def agreement(ids: BlockIds, keys: BlockIds, stride: int, index: int, end: int) -> int:
    """Find the block up to `end` at which two chains part; their first `index` ids agree."""
    last = -(-end // stride)
    if ids[index:last] == keys[index:last]:
        return end
    while ids[index] == keys[index]:
        index += 1
    return index * stride
