"""Non-dominated points; every objective is better when larger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def front_of_two(points: Floats) -> NDArray[np.intp]:
    """Return the rows of `points` (n, 2) that none dominates, by falling column 0; of equals the first."""
    order = np.lexsort((np.arange(len(points)), -points[:, 1], -points[:, 0]))
    seconds = points[order, 1]
    before = np.concatenate([[-np.inf], np.maximum.accumulate(seconds)[:-1]])
    return np.asarray(order[seconds > before])


def front_of_many(points: Floats) -> NDArray[np.intp]:
    """Return the rows of `points` (n, objectives) that none dominates, in order; of equals the first."""
    kept: list[int] = []
    for index in np.lexsort((np.arange(len(points)), -points.sum(1))):
        if not kept or not (points[kept] >= points[index]).all(1).any():
            kept.append(int(index))
    return np.array(sorted(kept), dtype=np.intp)


def front(points: Floats) -> NDArray[np.intp]:
    """Return the rows that no other dominates."""
    return front_of_two(points) if points.shape[1] == 2 else front_of_many(points)


def area(points: Floats) -> float:
    """Return the area that `points` (n, 2) dominate over the origin."""
    rows = points[front_of_two(points)]
    return float(((rows[:, 0] - np.append(rows[1:, 0], 0.0)) * rows[:, 1]).sum())


def layers(points: Floats, wanted: int) -> list[NDArray[np.intp]]:
    """Peel fronts off (best first) until `wanted` rows are in them, or all are."""
    left = np.arange(len(points))
    peeled: list[NDArray[np.intp]] = []
    while wanted > 0 and len(left):
        rows = left[front(points[left])]
        peeled.append(rows)
        wanted -= len(rows)
        left = np.setdiff1d(left, rows, assume_unique=True)
    return peeled
