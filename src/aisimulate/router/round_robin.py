"""Round-robin placement over an aggregated pool (spec 02 section 6)."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Sequence as ListOf

    from aisimulate.engine.sequence import Sequence


class RoundRobin:
    """Workers in turn by id, and on each worker its ranks in turn.

    A request that names its rank gets that rank on the worker whose turn it is; the rank rotation of
    that worker does not move then. Nothing ever queues here.
    """

    __slots__ = ("_next_rank", "_rotation", "dp_size")

    def __init__(self, worker_ids: ListOf[int], dp_size: int) -> None:
        self.dp_size = dp_size
        self._rotation = cycle(sorted(worker_ids))
        self._next_rank = dict.fromkeys(worker_ids, 0)

    @property
    def rotation(self) -> Iterator[int]:
        """The workers in turn, by id."""
        return self._rotation

    def place(self, sequence: Sequence) -> tuple[int, int]:
        """Choose (worker id, rank) for a request and move the rotation on."""
        worker = next(self._rotation)
        if self.dp_size == 1:
            return worker, 0
        authored = sequence.origin.dp_rank
        if authored is not None:
            return worker, authored
        rank = self._next_rank[worker]
        self._next_rank[worker] = (rank + 1) % self.dp_size
        return worker, rank
