"""One-step-ahead load forecasters (spec 03 sections C2, C3): the families that need no extra library."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from aisimulate.core.errors import UnsupportedError
from aisimulate.spica.composites import check_family
from aisimulate.spica.presets import PREDICTOR_DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Families of the optional extra, which comes with the forecasting issue.
_EXTRA_FAMILIES = ("arima", "prophet")
_MIN_POINTS = {"constant": 1, "arima": 5, "prophet": 5}
_INITIAL_VARIANCE = 1000.0


class Forecaster(Protocol):
    """Learns a series point by point and forecasts the next one; values are never negative."""

    def add(self, value: float) -> None:
        """Observe the next point."""
        ...

    def predict(self) -> float:
        """Forecast the next point; 0.0 before the first one."""
        ...


def make_forecaster(fields: Mapping[str, Any]) -> Forecaster:
    """Build the forecaster of flat predictor fields (`predictor_fields`).

    Raises ValueError for an unknown family, UnsupportedError for one whose optional library is not
    available yet.
    """
    family = fields["load_predictor"]
    check_family(family)
    if family in _EXTRA_FAMILIES:
        raise UnsupportedError(
            f"load predictor {family!r} needs the optional extra 'forecast', which comes later"
        )
    return _SeriesForecaster(_model(fields), minimum_points(fields), bool(fields.get("load_predictor_log1p")))


def minimum_points(fields: Mapping[str, Any]) -> int:
    """Count the points a family wants before its model speaks; until then it repeats the last value."""
    family = fields["load_predictor"]
    if family == "kalman":
        return int(fields.get("kalman_min_points", PREDICTOR_DEFAULTS["kalman_min_points"]))
    return _MIN_POINTS[family]


class _Model(Protocol):
    def add(self, value: float) -> None: ...

    def predict(self) -> float: ...


def _model(fields: Mapping[str, Any]) -> _Model:
    if fields["load_predictor"] == "constant":
        return LastValue()
    settings = {**PREDICTOR_DEFAULTS, **fields}
    return LocalLinearTrend(settings["kalman_q_level"], settings["kalman_q_trend"], settings["kalman_r"])


class LastValue:
    """Forecasts the latest point."""

    def __init__(self) -> None:
        self._last = 0.0

    def add(self, value: float) -> None:
        """Observe the next point."""
        self._last = value

    def predict(self) -> float:
        """Forecast the next point."""
        return self._last


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

    def add(self, value: float) -> None:
        """Observe the next point: advance the state one step, then correct it."""
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

    def predict(self) -> float:
        """Forecast the next point: one step of the trend beyond the level."""
        return 0.0 if self._level is None else self._level + self._trend


class _SeriesForecaster:
    """What all families share: no leading zeros, NaN as 0, a warm-up, log space, no negative forecast."""

    def __init__(self, model: _Model, min_points: int, log1p: bool) -> None:
        self._model = model
        self._min_points = min_points
        self._into: Callable[[float], float] = math.log1p if log1p else float
        self._out: Callable[[float], float] = math.expm1 if log1p else float
        self._points = 0
        self._last = 0.0

    def add(self, value: float) -> None:
        value = 0.0 if math.isnan(value) else max(value, 0.0)
        if self._points == 0 and value == 0:
            return  # traffic has not started
        self._points += 1
        self._last = value
        self._model.add(self._into(value))

    def predict(self) -> float:
        if self._points < self._min_points:
            return self._last
        return max(0.0, self._out(self._model.predict()))
