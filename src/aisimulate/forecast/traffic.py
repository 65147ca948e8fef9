"""Forecasts of traffic: how many requests the next window brings, and how long they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from aisimulate.forecast.make import make_forecaster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Window(NamedTuple):
    """Requests that arrive in one window, and their mean lengths in tokens (all 0 when idle)."""

    num_req: float
    isl: float
    osl: float


class TrafficForecaster:
    """Three forecasters of one kind, fed as a planner feeds them (spec 03 section C2).

    An idle window counts as no requests of the last lengths, since nobody asks for empty ones.
    """

    def __init__(self, entry: str | Mapping[str, Any], *, interval_s: float) -> None:
        """Make the forecasters of a preset's name or a mapping; see `make_forecaster` for the errors."""
        self._forecasters = [make_forecaster(entry, interval_s=interval_s) for _ in range(3)]
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
        for forecaster, value in zip(self._forecasters, (window.num_req, *self._shape), strict=True):
            forecaster.observe(value)

    def predict(self, steps: int = 1) -> Window:
        """Forecast the window `steps` ahead."""
        return Window(*(forecaster.predict(steps) for forecaster in self._forecasters))
