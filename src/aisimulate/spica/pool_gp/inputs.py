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
    """Rows of `numbers` of about [0, 1], and of `labels`: what has the same label shares own offsets.

    A label says what numbers cannot: which engine a pool runs, say, whose speed is nobody else's. It has an
    offset for each column of `weights`, which say how much of that a row has.
    """

    numbers: Floats
    labels: Ints
    weights: Floats

    @classmethod
    def plain(cls, numbers: Floats, labels: Ints) -> Inputs:
        """Give every label one offset."""
        return cls(numbers, labels, np.ones((len(labels), 1)))

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: NDArray[np.intp] | slice) -> Inputs:
        return Inputs(self.numbers[rows], self.labels[rows], self.weights[rows])

    @property
    def columns(self) -> tuple[int, int]:
        """How many numbers and how many offsets a row has."""
        return self.numbers.shape[1], self.labels.shape[1] * self.weights.shape[1]

    def joined(self, other: Inputs) -> Inputs:
        """Put the rows of `other` below."""
        return Inputs(
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.weights, other.weights]),
        )


def add_offsets(covariance: Floats, rows: Inputs, columns: Inputs, variances: Floats) -> None:
    """Add the offsets to a covariance (rows, columns), in place. `variances` are by label, then by weight."""
    by_label = variances.reshape(rows.labels.shape[1], rows.weights.shape[1])
    for mine, theirs, each in zip(rows.labels.T, columns.labels.T, by_label, strict=True):
        offsets = (rows.weights * each) @ columns.weights.T
        offsets *= mine[:, None] == theirs
        covariance += offsets


def offset_variance(rows: Inputs, variances: Floats) -> Floats:
    """Return the variance of the sum of a row's offsets."""
    by_label = variances.reshape(rows.labels.shape[1], rows.weights.shape[1])
    return np.asarray(rows.weights**2 @ by_label.sum(0))
