"""The Matern-5/2 covariance with a length scale per feature (Rasmussen and Williams 2006, section 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ROOT_5 = 5.0**0.5


def squared_distances(rows: Floats, columns: Floats) -> Floats:
    """Return the squared Euclidean distances of two sets of points, shape (rows, columns)."""
    squares = np.einsum("ij,ij->i", rows, rows)[:, None] + np.einsum("ij,ij->i", columns, columns)
    return np.asarray(np.maximum(squares - 2.0 * (rows @ columns.T), 0.0))


def correlations(squares: Floats) -> Floats:
    """Turn squared scaled distances into correlations."""
    scaled = np.sqrt(squares)
    scaled *= _ROOT_5
    decay = np.exp(-scaled)
    scaled += 1.0
    scaled += (5.0 / 3.0) * squares
    scaled *= decay
    return scaled


def slopes(squares: Floats) -> Floats:
    """Return the derivative of the correlation by the logarithm of a length scale, per squared difference."""
    scaled = _ROOT_5 * np.sqrt(squares)
    return np.asarray((5.0 / 3.0) * (1.0 + scaled) * np.exp(-scaled))
