"""Autoregression that is fitted anew to the recent past at every forecast."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Points that are remembered: enough for any number of lags, few enough to follow a change.
_MEMORY_POINTS = 256
# The penalty counts as this many points without any memory of the past.
_PENALTY_POINTS = 1.0
# A forecast may leave the range of what was seen by this share of it, no more.
_EXTRAPOLATION = 0.25
_TINY = 1e-12


class RidgeAutoregression:
    """Regresses each point on the `lags` before it, all relative to their mean, with an L2 penalty.

    While there are few points it takes fewer lags, so that there are always twice as many equations as
    unknowns. The penalty pulls towards the mean.
    """

    def __init__(self, lags: int) -> None:
        self._lags = lags
        self._points: deque[float] = deque(maxlen=_MEMORY_POINTS)

    def observe(self, value: float) -> None:
        """Learn the next point."""
        self._points.append(value)

    def predict(self, steps: int) -> float:
        """Forecast the point `steps` ahead, feeding the nearer forecasts back in."""
        points = np.asarray(self._points)
        lags = min(self._lags, (len(points) - 1) // 3)
        if lags < 1:
            return float(points[-1])
        mean = points.mean()
        lowest, highest = _bounds(points)
        weights = _fit(points - mean, lags)
        recent = points[-lags:] - mean
        for _ in range(steps):
            forecast = min(max(float(mean + recent @ weights), lowest), highest)
            recent = np.append(recent[1:], forecast - mean)
        return forecast


def _bounds(points: NDArray[np.float64]) -> tuple[float, float]:
    lowest, highest = float(points.min()), float(points.max())
    margin = _EXTRAPOLATION * (highest - lowest)
    return lowest - margin, highest + margin


def _fit(centred: NDArray[np.float64], lags: int) -> NDArray[np.float64]:
    """Solve for the weight of each lag, the oldest first."""
    past = sliding_window_view(centred, lags)[:-1]
    products = past.T @ past
    variance = np.trace(products) / past.size
    products[np.diag_indices(lags)] += _PENALTY_POINTS * variance + _TINY
    return np.asarray(np.linalg.solve(products, past.T @ centred[lags:]), dtype=np.float64)
