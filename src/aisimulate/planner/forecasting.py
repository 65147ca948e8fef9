"""What a planner expects of the next window: requests and their lengths."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aisimulate.planner.throughput_scaling import Forecast

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.forecast.models import Model
    from aisimulate.planner.observations import Traffic


class _Series:
    """One series, whose leading zeros say nothing: nobody came yet."""

    def __init__(self, forecaster: Model) -> None:
        self._forecaster = forecaster
        self._started = False

    def observe(self, value: float) -> None:
        self._started = self._started or value != 0
        if self._started:
            self._forecaster.observe(value)

    def predict(self, steps: int) -> float:
        value = self._forecaster.predict(steps) if self._started else 0.0
        return max(0.0, value) if math.isfinite(value) else 0.0


class LoadForecast:
    """Three independent series: offered requests, and mean prompt and output tokens.

    A window without requests counts as 0 requests of the lengths seen last (spec 03 section C2).
    """

    def __init__(self, make: Callable[[], Model]) -> None:
        self._requests, self._isl, self._osl = (_Series(make()) for _ in range(3))
        self._seen = False
        self._lengths = (0.0, 0.0)

    def observe(self, traffic: Traffic) -> None:
        """Take in a window."""
        self._requests.observe(traffic.requests)
        lengths = (traffic.isl, traffic.osl)
        if traffic.requests > 0:
            self._seen = True
            self._lengths = lengths
        elif self._seen:
            lengths = self._lengths
        self._isl.observe(lengths[0])
        self._osl.observe(lengths[1])

    def predict(self, steps: int = 1) -> Forecast:
        """Predict the window that ends `steps` windows from now; nothing is ever negative."""
        return Forecast(*(series.predict(steps) for series in (self._requests, self._isl, self._osl)))
