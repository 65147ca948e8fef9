"""Configurations as a model sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Rows of `numbers` of about [0, 1], and of `labels`: what has the same label shares an own offset.

    A label says what numbers cannot: which engine a pool runs, say, whose speed is nobody else's.
    """

    numbers: Floats
    labels: Ints

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: NDArray[np.intp] | slice) -> Inputs:
        return Inputs(self.numbers[rows], self.labels[rows])

    @property
    def columns(self) -> tuple[int, int]:
        """How many numbers and how many labels a row has."""
        return self.numbers.shape[1], self.labels.shape[1]

    def joined(self, other: Inputs) -> Inputs:
        """Put the rows of `other` below."""
        return Inputs(
            np.concatenate([self.numbers, other.numbers]), np.concatenate([self.labels, other.labels])
        )


def same_labels(rows: Ints, columns: Ints, weights: Floats) -> Floats:
    """Return the covariance of the offsets, shape (rows, columns): a label's weight where it is the same."""
    shared = np.zeros((len(rows), len(columns)))
    for place, weight in enumerate(weights):
        shared += weight * (rows[:, place, None] == columns[None, :, place])
    return shared
