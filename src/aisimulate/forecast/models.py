"""Models of a series that cost a handful of operations per point (spec 03 section C3)."""

from __future__ import annotations

from collections import deque
from typing import Protocol

_INITIAL_VARIANCE = 1000.0


class Model(Protocol):
    """Learns a series point by point; may forecast anything, even nonsense, and may raise.

    `predict` is only called after the first point. What makes it safe is in `forecaster.py`.
    """

    def observe(self, value: float) -> None:
        """Learn the next point."""
        ...

    def predict(self, steps: int) -> float:
        """Forecast the point `steps` >= 1 ahead."""
        ...


class LastValue:
    """Forecasts the latest point."""

    def __init__(self) -> None:
        self._last = 0.0

    def observe(self, value: float) -> None:
        """Learn the next point."""
        self._last = value

    def predict(self, steps: int) -> float:
        """Forecast the point `steps` ahead."""
        return self._last


class RunningMean:
    """Forecasts the mean of all points."""

    def __init__(self) -> None:
        self._points, self._mean = 0, 0.0

    def observe(self, value: float) -> None:
        """Learn the next point."""
        self._points += 1
        self._mean += (value - self._mean) / self._points

    def predict(self, steps: int) -> float:
        """Forecast the point `steps` ahead."""
        return self._mean


class WindowMean:
    """Forecasts the mean of the last `points` >= 1 points."""

    def __init__(self, points: int) -> None:
        self._recent: deque[float] = deque(maxlen=points)

    def observe(self, value: float) -> None:
        """Learn the next point."""
        self._recent.append(value)

    def predict(self, steps: int) -> float:
        """Forecast the point `steps` ahead."""
        return sum(self._recent) / len(self._recent)


class ExponentialSmoothing:
    """Forecasts a level that moves by the share `alpha` (0..1] of each error."""

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._level: float | None = None

    def observe(self, value: float) -> None:
        """Learn the next point; the first one is the level."""
        if self._level is None:
            self._level = value
        else:
            self._level += self._alpha * (value - self._level)

    def predict(self, steps: int) -> float:
        """Forecast the point `steps` ahead."""
        return self._level or 0.0


class LocalLinearTrend:
    """Kalman filter of a level and a trend, in closed form.

    Process noise is diag(`q_level`, `q_trend`), measurement noise `r` (variances of the series' own
    unit). The first point sets the level without a covariance update.
    """

    def __init__(self, q_level: float, q_trend: float, r: float) -> None:
        self._q_level, self._q_trend, self._r = q_level, q_trend, r
        self._level: float | None = None
        self._trend = 0.0
        # Covariance [[a, b], [b, c]] of (level, trend).
        self._a, self._b, self._c = _INITIAL_VARIANCE, 0.0, _INITIAL_VARIANCE

    def observe(self, value: float) -> None:
        """Learn the next point: advance the state one step, then correct it."""
        if self._level is None:
            self._level = value
            return
        level = self._level + self._trend
        a = self._a + 2 * self._b + self._c + self._q_level
        b = self._b + self._c
        c = self._c + self._q_trend
        gain, trend_gain = a / (a + self._r), b / (a + self._r)
        error = value - level
        self._level, self._trend = level + gain * error, self._trend + trend_gain * error
        self._a, self._b, self._c = (1 - gain) * a, (1 - gain) * b, c - trend_gain * b

    def predict(self, steps: int) -> float:
        """Forecast the point `steps` ahead: that many steps of the trend beyond the level."""
        return 0.0 if self._level is None else self._level + steps * self._trend
