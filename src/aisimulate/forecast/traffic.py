"""Forecasts of traffic: how many requests the next window brings, and how long they are."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from aisimulate.forecast.forecaster import cleaned
from aisimulate.forecast.make import is_restrained, series_forecaster
from aisimulate.forecast.restraint import TRIAL_POINTS, Restraint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Window(NamedTuple):
    """Requests that arrive in one window, and their mean lengths in tokens (all 0 when idle)."""

    num_req: float
    isl: float
    osl: float


def window_loss(predicted: Sequence[float], actual: Sequence[float]) -> float:
    """Weighted log-scale error: 0.4 each on prefill and decode tokens per window, 0.1 on each mean length."""
    # Each value is cut at zero before it is multiplied, so that two negative ones do not cancel.
    guess, truth = ([max(value, 0.0) for value in window] for window in (predicted, actual))
    return (
        0.4 * _log_error(guess[0] * guess[1], truth[0] * truth[1])
        + 0.4 * _log_error(guess[0] * guess[2], truth[0] * truth[2])
        + 0.1 * _log_error(guess[1], truth[1])
        + 0.1 * _log_error(guess[2], truth[2])
    )


def _log_error(predicted: float, actual: float) -> float:
    return abs(_log(predicted) - _log(actual))


def _log(value: float) -> float:
    return math.log1p(min(value, sys.float_info.max))


class TrafficForecaster:
    """Three forecasters of one kind, fed as a planner feeds them (spec 03 section C2).

    An idle window counts as no requests of the last lengths, since nobody asks for empty ones. The pool's
    windows are restrained as a whole, by the loss that forecasts are judged by, unless not `restrained`.
    """

    def __init__(self, entry: str | Mapping[str, Any], *, interval_s: float, restrained: bool = True) -> None:
        """Make the forecasters of a preset's name or a mapping; see `make_forecaster` for the errors."""
        self._forecasters = [series_forecaster(entry, interval_s=interval_s) for _ in range(3)]
        self._restraint = Restraint(window_loss) if restrained and is_restrained(entry) else None
        self._shape = (0.0, 0.0)

    def warm(self, windows: Iterable[Window]) -> None:
        """Learn windows of the past; what comes then may begin with idle ones, which say nothing again."""
        for window in windows:
            self.observe(window)
        for forecaster in self._forecasters:
            forecaster.await_traffic()

    @property
    def failures(self) -> int:
        """Count the forecasts for which a last value stood in."""
        return sum(forecaster.failures for forecaster in self._forecasters)

    def observe(self, window: Window) -> None:
        """Learn the window that has just ended."""
        if window.num_req:
            self._shape = (window.isl, window.osl)
        values = (cleaned(window.num_req), *map(cleaned, self._shape))
        if self._restraint is not None and self._is_tried:
            self._restraint.settle(self._last, self._free(1), values)
        for forecaster, value in zip(self._forecasters, values, strict=True):
            forecaster.observe(value)

    def predict(self, steps: int = 1) -> Window:
        """Forecast the window `steps` ahead."""
        ahead = self._free(steps)
        if self._restraint is None:
            return Window(*ahead)
        if not self._is_tried:
            return Window(*self._last)
        free = ahead if steps == 1 else self._free(1)
        return Window(*self._restraint.restrain(self._last, free, ahead))

    @property
    def _is_tried(self) -> bool:
        return self._forecasters[0].points >= TRIAL_POINTS

    @property
    def _last(self) -> tuple[float, ...]:
        return tuple(forecaster.last for forecaster in self._forecasters)

    def _free(self, steps: int) -> tuple[float, ...]:
        return tuple(forecaster.predict(steps) for forecaster in self._forecasters)
