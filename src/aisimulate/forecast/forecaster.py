"""What every family shares, so that a planner can rely on any of them (spec 03 section C2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.forecast.models import Model


class Forecaster(Protocol):
    """Learns a series of counts or lengths point by point and forecasts the next ones.

    Forecasts are finite and never negative. Where a model fails, the last value stands in, and
    `failures` counts it.
    """

    failures: int

    def observe(self, value: float) -> None:
        """Learn the next point. What is no finite number counts as 0, and so does a negative one."""
        ...

    def await_traffic(self) -> None:
        """Leave out zeros until something else comes, as at the beginning."""
        ...

    def predict(self, steps: int = 1) -> float:
        """Forecast the point `steps` >= 1 ahead; 0.0 before the first one."""
        ...


class SeriesForecaster:
    """A model behind the common rules: no leading zeros, a warm-up, log space, nothing below zero.

    Until there are `min_points` the last value is repeated. With `log1p` the model sees
    log(1 + value). With `whole` forecasts below one half are 0: what is forecast are counts, of which
    less than a half is none.
    """

    def __init__(self, model: Model, min_points: int, *, log1p: bool, whole: bool = False) -> None:
        self.failures = 0
        self._model = model
        self._min_points = min_points
        self._into: Callable[[float], float] = math.log1p if log1p else float
        self._out: Callable[[float], float] = math.expm1 if log1p else float
        self._least = 0.5 if whole else 0.0
        self._points = 0
        self._awaits_traffic = True
        self._last = 0.0

    def observe(self, value: float) -> None:
        """Learn the next point."""
        value = max(value, 0.0) if math.isfinite(value) else 0.0
        if self._awaits_traffic and value == 0:
            return
        self._awaits_traffic = False
        self._points += 1
        self._last = value
        self._model.observe(self._into(value))

    def await_traffic(self) -> None:
        """Leave out zeros until something else comes, as at the beginning."""
        self._awaits_traffic = True

    def predict(self, steps: int = 1) -> float:
        """Forecast the point `steps` ahead. Raises ValueError for less than one step."""
        if steps < 1:
            raise ValueError(f"a forecast looks at least 1 step ahead, got {steps}")
        if self._points < max(self._min_points, 1):
            return self._last
        forecast = self._attempt(steps)
        if not math.isfinite(forecast):
            self.failures += 1
            return self._last
        return forecast if forecast >= self._least and forecast > 0 else 0.0

    def _attempt(self, steps: int) -> float:
        try:
            return self._out(self._model.predict(steps))
        except Exception:  # a library's model may raise anything; a planner must get a number
            return math.nan
