"""Round-robin placement over pools whose workers come and go (spec 03 section A2).

The position in the rotation survives every change of the pool: with 3 workers after a pick of the last one,
and that one gone, worker 1 is next (3 mod 2), not worker 0.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.engine.sequence import Sequence


class _Moving:
    """Keeps the active workers in order; `worker_removed` needs nothing, as a draining one is out already."""

    __slots__ = ("_active", "_dp_size", "_next")

    def __init__(self, worker_ids: Iterable[int], dp_size: int) -> None:
        self._active = sorted(worker_ids)
        self._dp_size = dp_size
        self._next = 0

    def worker_ready(self, worker: int, now_ns: int) -> None:
        """Let a worker take part."""
        del now_ns
        insort(self._active, worker)

    def worker_draining(self, worker: int, now_ns: int) -> None:
        """Leave a worker out from now on."""
        del now_ns
        self._active.remove(worker)

    def _turn(self, places: int) -> int:
        index = self._next % places
        self._next = index + 1
        return index


class MovingRoundRobin(_Moving):
    """Workers in turn by id, and on each worker its ranks in turn, as `RoundRobin`."""

    __slots__ = ("_next_rank",)

    def __init__(self, worker_ids: Iterable[int], dp_size: int) -> None:
        super().__init__(worker_ids, dp_size)
        self._next_rank: dict[int, int] = {}

    def place(self, sequence: Sequence) -> tuple[int, int]:
        """Choose (worker id, rank) for a request and move the rotation on."""
        worker = self._active[self._turn(len(self._active))]
        authored = sequence.origin.dp_rank
        if authored is not None:
            return worker, authored
        rank = self._next_rank.get(worker, 0)
        self._next_rank[worker] = (rank + 1) % self._dp_size
        return worker, rank

    def worker_removed(self, worker: int, now_ns: int) -> None:
        """Forget the rank rotation of a worker."""
        del now_ns
        self._next_rank.pop(worker, None)


class MovingPoolRoundRobin(_Moving):
    """All ranks of all workers in turn, as `PoolRoundRobin`."""

    __slots__ = ()

    def place(self, sequence: Sequence) -> tuple[int, int]:
        """Choose (worker id, rank) for a request and move the rotation on."""
        active, authored = self._active, sequence.origin.dp_rank
        if authored is not None:
            return active[self._turn(len(active))], authored
        worker, rank = divmod(self._turn(len(active) * self._dp_size), self._dp_size)
        return active[worker], rank
