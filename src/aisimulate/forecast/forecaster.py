"""What every family shares, so that a planner can rely on any of them (spec 03 section C2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.forecast.models import Model

_LEAST_REQUESTS = 0.5


class Forecaster(Protocol):
    """Learns a series of counts or lengths point by point and forecasts the next ones.

    Forecasts are finite and never negative. Where a model fails, the last value stands in.
    """

    @property
    def failures(self) -> int:
        """Count the forecasts for which a last value stood in."""
        ...

    def observe(self, value: float) -> None:
        """Learn the next point. What is no finite number counts as 0, and so does a negative one."""
        ...

    def await_traffic(self) -> None:
        """Leave out zeros until something else comes, as at the beginning."""
        ...

    def predict(self, steps: int = 1) -> float:
        """Forecast the point `steps` >= 1 ahead; 0.0 before the first one."""
        ...


def cleaned(value: float) -> float:
    """Take what is no finite number for 0, and so a negative one."""
    return max(value, 0.0) if math.isfinite(value) else 0.0


def whole(value: float) -> float:
    """Take less than half a request for none."""
    return value if value >= _LEAST_REQUESTS else 0.0


class SeriesForecaster:
    """A model behind the common rules: no leading zeros, a warm-up, log space, nothing below zero.

    Until there are `min_points` the last value is repeated. With `log1p` the model sees
    log(1 + value). With `counts` forecasts below one half are 0: less than half a request is none.
    """

    def __init__(self, model: Model, min_points: int, *, log1p: bool, counts: bool = False) -> None:
        self.failures = 0
        self._model = model
        self._min_points = min_points
        self._into: Callable[[float], float] = math.log1p if log1p else float
        self._out: Callable[[float], float] = math.expm1 if log1p else float
        self._counts = counts
        self.points = 0
        self._awaits_traffic = True
        self.last = 0.0

    def observe(self, value: float) -> None:
        """Learn the next point."""
        value = cleaned(value)
        if self._awaits_traffic and value == 0:
            return
        self._awaits_traffic = False
        self.points += 1
        self.last = value
        self._model.observe(self._into(value))

    def await_traffic(self) -> None:
        """Leave out zeros until something else comes, as at the beginning."""
        self._awaits_traffic = True

    def predict(self, steps: int = 1) -> float:
        """Forecast the point `steps` ahead. Raises ValueError for less than one step."""
        if steps < 1:
            raise ValueError(f"a forecast looks at least 1 step ahead, got {steps}")
        if self.points < max(self._min_points, 1):
            return self.last
        forecast = self._attempt(steps)
        if not math.isfinite(forecast):
            self.failures += 1
            return self.last
        return whole(forecast) if self._counts else max(forecast, 0.0)

    def _attempt(self, steps: int) -> float:
        try:
            return self._out(self._model.predict(steps))
        except Exception:  # a library's model may raise anything; a planner must get a number
            return math.nan
