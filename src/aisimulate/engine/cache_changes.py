"""Changes of a rank's prefix cache that those outside have not heard of yet.

An engine tells of the blocks it stored and removed when the pass ends in which it did so, and a message may
take a while to arrive. The pool is ahead of that: what was changed since is undone on the fly, for one
prompt at a time (spec 03 section A4).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.core.traffic import BlockIds


# Whether blocks were stored (or removed), their content chain, the first of them and the one behind the last.
Change: TypeAlias = "tuple[bool, BlockIds, int, int]"

# Above this many, changes that are on their way are looked up.
_MOST_LOOKED_THROUGH = 64


class CacheChanges:
    """What a pool did, in order: `fresh` in the pass in flight; `late` ones are on their way, with the
    instants at which they are known.

    `ignored`: what is done now need not be noted, as everybody hears of it at once. When many are on their
    way, the first of them are found by the id at which they begin (`_indexed` of them, in `_by_id`, with
    their numbers in order).
    """

    __slots__ = ("_by_id", "_first_number", "_indexed", "_lag_ns", "fresh", "ignored", "late")

    def __init__(self, lag_ns: int) -> None:
        self.fresh: list[Change] = []
        self.ignored = False
        self.late: deque[tuple[int, Change]] = deque()
        self._lag_ns = lag_ns
        self._by_id: dict[int, deque[tuple[int, Change]]] = {}
        self._indexed = 0
        self._first_number = 0  # of `late`

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
        self._forget_known(stride, now_ns)
        for change in reversed(self.fresh):
            hit = _before(change, keys, stride, hit, limit)
        if len(self.late) > _MOST_LOOKED_THROUGH:
            self._index(stride)
            for _, change in sorted(self._about(keys, stride, limit), key=_number, reverse=True):
                hit = _before(change, keys, stride, hit, limit)
        else:
            for _, change in reversed(self.late):
                hit = _before(change, keys, stride, hit, limit)
        return hit

    def _forget_known(self, stride: int, now_ns: int) -> None:
        """Forget what has arrived by now."""
        late = self.late
        while late and late[0][0] <= now_ns:
            _, (_, ids, start, _) = late.popleft()
            self._first_number += 1
            if self._indexed:
                self._indexed -= 1
                key = ids[start // stride]
                self._by_id[key].popleft()
                if not self._by_id[key]:
                    del self._by_id[key]

    def _index(self, stride: int) -> None:
        """Let the changes be found that were sent since the last time."""
        late, by_id, number = self.late, self._by_id, self._first_number + self._indexed
        for index in range(self._indexed - len(late), 0):
            change = late[index][1]
            by_id.setdefault(change[1][change[2] // stride], deque()).append((number, change))
            number += 1
        self._indexed = len(late)

    def _about(self, keys: BlockIds, stride: int, limit: int) -> Iterator[tuple[int, Change]]:
        """Find all changes that begin with an id of a chain: no others can be about it."""
        by_id = self._by_id
        for key in dict.fromkeys(keys[: -(-limit // stride)]):
            if (found := by_id.get(key)) is not None:
                yield from found


def _number(numbered: tuple[int, Change]) -> int:
    return numbered[0]


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
