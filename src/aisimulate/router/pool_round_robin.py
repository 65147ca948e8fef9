"""Round-robin placement over one pool of a disaggregated fleet (spec 02 section 6)."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence


class PoolRoundRobin:
    """All ranks of all workers in turn, in one rotation.

    A request that names its rank gets the next worker instead, on that rank. Nothing ever queues here.
    """

    __slots__ = ("_dp_size", "_next", "_workers", "rotation")

    def __init__(self, workers: int, dp_size: int) -> None:
        self.rotation = cycle(range(workers))  # where there are no ranks to choose between
        self._workers = workers
        self._dp_size = dp_size
        self._next = 0

    def place(self, sequence: Sequence) -> tuple[int, int]:
        """Choose (worker id, rank) for a request and move the rotation on."""
        authored = sequence.origin.dp_rank
        if self._dp_size == 1:
            return next(self.rotation), authored or 0
        places = self._workers if authored is not None else self._workers * self._dp_size
        index = self._next % places
        self._next = index + 1
        if authored is not None:
            return index, authored
        return divmod(index, self._dp_size)
