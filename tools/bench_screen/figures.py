"""Figures about estimates: errors and ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Accuracy(NamedTuple):
    """How near estimates come: rank correlation, and relative errors."""

    spearman: float
    median: float
    p90: float
    largest: float


def accuracy(truth: Floats, estimate: Floats) -> Accuracy:
    """Compare estimates with what is true; what is 0 has a rank only."""
    errors = abs(estimate[truth > 0] / truth[truth > 0] - 1)
    return Accuracy(
        spearman(truth, estimate),
        float(np.median(errors)),
        float(np.quantile(errors, 0.9)),
        float(errors.max()),
    )


def spearman(left: Floats, right: Floats) -> float:
    """Return the rank correlation; equal values share their mean rank."""
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _ranks(values: Floats) -> Floats:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    mean: Floats = (ends - (counts - 1) / 2)[places]
    return mean
