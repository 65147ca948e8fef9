"""A pool of simple models that trusts whichever has been right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.forecast.models import (
    ExponentialSmoothing,
    LastValue,
    LocalLinearTrend,
    RunningMean,
    WindowMean,
)
from aisimulate.forecast.ridge import RidgeAutoregression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from aisimulate.forecast.models import Model

# Old errors fade, so that the pool can change its mind: the last 100 points or so count.
_MEMORY = 0.99
# A model's weight is its mean error to the power of minus so many times the points it was tried on.
# With independent errors the likelihood would give 1; what members have in common says nothing of either.
_TRUST_PER_POINT = 1.5
# Mean errors below this are all alike.
_ERROR_FLOOR = 0.005
# How freely level and trend move (variances), as in the reference's default filter.
_TREND = (1.0, 0.1, 10.0)


def usual_members() -> list[tuple[float, Model]]:
    """Give the usual members with what they weigh before anything is known.

    Levels over different times come first. What has many coefficients or a trend has to show what it can do,
    and the last value is no more than one of them: how far to leave it is not the pool's question.
    """
    return [
        (0.5, LastValue()),
        (1.0, ExponentialSmoothing(0.5)),
        (1.0, ExponentialSmoothing(0.1)),
        (1.0, ExponentialSmoothing(0.05)),
        (1.0, WindowMean(10)),
        (2.0, WindowMean(20)),
        (1.0, RunningMean()),
        (0.5, RidgeAutoregression(2)),
        (0.5, RidgeAutoregression(8)),
        (0.5, RidgeAutoregression(16)),
        (0.5, LocalLinearTrend(*_TREND)),
    ]


class Pool:
    """Averages the forecasts of its members, weighted by how small their errors have been.

    In log space (log1p) the average is geometric and the errors are relative.
    """

    def __init__(self, members: Sequence[tuple[float, Model]]) -> None:
        self._models = [model for _, model in members]
        self._log_priors = np.log([prior for prior, _ in members])
        self._errors = np.zeros(len(self._models))
        self._points = 0.0  # faded number of points behind the errors
        self._started = False
        self._next: NDArray[np.float64] | None = None  # one-step forecasts, until the point is known

    def observe(self, value: float) -> None:
        """Learn the next point: every member pays for its own forecast of it."""
        if self._started:
            self._errors = _MEMORY * self._errors + np.abs(self._one_step() - value)
            self._points = _MEMORY * self._points + 1
        for model in self._models:
            model.observe(value)
        self._started, self._next = True, None

    def predict(self, steps: int) -> float:
        """Forecast the point `steps` ahead; members are weighted by their one-step errors."""
        forecasts = self._one_step() if steps == 1 else self._forecasts(steps)
        weights = self._weights()
        return float(weights @ forecasts / weights.sum())

    def _one_step(self) -> NDArray[np.float64]:
        if self._next is None:
            self._next = self._forecasts(1)
        return self._next

    def _forecasts(self, steps: int) -> NDArray[np.float64]:
        return np.array([model.predict(steps) for model in self._models])

    def _weights(self) -> NDArray[np.float64]:
        logs = self._log_priors
        if self._points:
            logs = logs - _TRUST_PER_POINT * self._points * np.log(self._errors / self._points + _ERROR_FLOOR)
        return np.asarray(np.exp(logs - logs.max()))
