"""Completed requests of a long replay, reduced to the numbers that its report needs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.engine.sequence import COMPLETED
from aisimulate.replay.columns import Columns

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.replay.columns import Ints


class Settled:
    """Takes completed requests out of a growing list: a row of numbers is much smaller than a request."""

    __slots__ = ("_columns", "_ordinals", "count")

    def __init__(self) -> None:
        self.count = 0
        self._columns: list[Columns] = []
        self._ordinals: list[Ints] = []

    def absorb(self, sequences: list[Sequence]) -> None:
        """Move the counted ones out of `sequences`, which keeps its order."""
        done = [s for s in sequences if s.status == COMPLETED and s.admissions]
        if not done:
            return
        self._columns.append(Columns.of(done))
        self._ordinals.append(np.fromiter((s.ordinal for s in done), np.int64, len(done)))
        self.count += len(done)
        if len(done) == len(sequences):
            sequences.clear()
        else:
            sequences[:] = [s for s in sequences if not (s.status == COMPLETED and s.admissions)]

    def columns(self) -> Columns:
        """Join what was absorbed, in dispatch order."""
        if len(self._columns) > 1:
            order = np.argsort(np.concatenate(self._ordinals))
            self._columns = [Columns.joined(self._columns, order)]
            self._ordinals = [np.arange(self.count)]
        return self._columns[0]
