"""How far a forecast may leave the last value: as far as leaving it has paid so far."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aisimulate.forecast.forecaster import SeriesForecaster, cleaned, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    Point = tuple[float, ...]

TRIAL_POINTS = 5
"""Until there are so many points the last value is repeated."""
# What all forecasts together may lose more than the last value would have, as a share of its loss.
_MARGIN = 0.09
# Halvings of the way between two forecasts: a thousandth of it is near enough.
_HALVINGS = 10
# Its exponential is still a number.
_LARGEST_LOG = 709.0


class Restraint:
    """Moves forecasts from the last value towards freely made ones, never further than was earned.

    `distance` is the loss of one point as a forecast of another; it is a metric. If a forecast is no further
    from the last value than the loss saved so far plus a margin, then by the triangle inequality the loss
    of all forecasts stays within that margin of the last value's, whatever comes.
    """

    def __init__(self, distance: Callable[[Point, Point], float]) -> None:
        self._distance = distance
        self._earned = 0.0

    def restrain(self, last: Point, free: Point, ahead: Point) -> Point:
        """Move the forecast `ahead`, of any number of steps, as far as the next one, `free`, may go."""
        share = self._share(last, free)
        return ahead if share == 1 else _between(last, ahead, share)

    def settle(self, last: Point, free: Point, actual: Point) -> None:
        """Learn what came, of which `last` and `free` were the forecasts."""
        made = self.restrain(last, free, free)
        self._earned += (1 + _MARGIN) * self._distance(last, actual) - self._distance(made, actual)

    def _share(self, last: Point, free: Point) -> float:
        if self._distance(last, free) <= self._earned:
            return 1.0
        near, far = 0.0, 1.0
        for _ in range(_HALVINGS if self._earned > 0 else 0):
            middle = (near + far) / 2
            if self._distance(last, _between(last, free, middle)) <= self._earned:
                near = middle
            else:
                far = middle
        return near


def _between(last: Point, other: Point, share: float) -> Point:
    """Go `share` of the way from `last` to `other`, in log(1 + x)."""
    if share == 0:
        return last
    logs = (
        math.log1p(start) + share * (math.log1p(end) - math.log1p(start))
        for start, end in zip(last, other, strict=True)
    )
    return tuple(whole(math.expm1(min(log, _LARGEST_LOG))) for log in logs)


class RestrainedForecaster:
    """A forecaster that leaves the last value of its series only as far as that has paid."""

    def __init__(self, forecaster: SeriesForecaster) -> None:
        self._forecaster = forecaster
        self._restraint = Restraint(_log_distance)

    @property
    def failures(self) -> int:
        """Count the forecasts for which a last value stood in."""
        return self._forecaster.failures

    def observe(self, value: float) -> None:
        """Learn the next point."""
        if self._forecaster.points >= TRIAL_POINTS:
            last, free = self._forecaster.last, self._forecaster.predict()
            self._restraint.settle((last,), (free,), (cleaned(value),))
        self._forecaster.observe(value)

    def await_traffic(self) -> None:
        """Leave out zeros until something else comes, as at the beginning."""
        self._forecaster.await_traffic()

    def predict(self, steps: int = 1) -> float:
        """Forecast the point `steps` ahead. Raises ValueError for less than one step."""
        ahead = self._forecaster.predict(steps)
        if self._forecaster.points < TRIAL_POINTS:
            return self._forecaster.last
        free = ahead if steps == 1 else self._forecaster.predict()
        return self._restraint.restrain((self._forecaster.last,), (free,), (ahead,))[0]


def _log_distance(one: Point, other: Point) -> float:
    return abs(math.log1p(one[0]) - math.log1p(other[0]))
