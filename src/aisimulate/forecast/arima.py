"""ARIMA as the reference runs it (spec 03 section C3), through the extra `forecast`."""

from __future__ import annotations

import math
from typing import Any

from aisimulate.forecast.extra import load, quiet


class AutoArima:
    """Selects an order once, on the points there are at the first forecast, and only updates it later.

    A raw series for which a model without lags is selected is fitted once more in log space, and stays
    there when that succeeds. Equal points are repeated. Raises UnsupportedError when pmdarima is missing.
    """

    def __init__(self, *, log1p: bool) -> None:
        self._library, threads = load("arima", "pmdarima", "threadpoolctl")
        # Its matrices are tiny: BLAS threads would spend most of the time waiting for each other.
        self._threads = threads.ThreadpoolController()
        self._log1p = log1p
        self._model: Any = None
        self._points: list[float] = []  # all of them until the model is fitted, then the new ones

    def observe(self, value: float) -> None:
        """Learn the next point; the model sees it at the next forecast."""
        self._points.append(value)

    def predict(self, steps: int) -> float:
        """Forecast the point `steps` ahead."""
        if self._model is None and min(self._points) == max(self._points):
            return self._points[-1]
        with quiet(), self._threads.limit(limits=1):
            if self._model is None:
                self._select()
            elif self._points:
                self._model.update(self._scaled())
            self._points = []
            forecast = float(self._model.predict(n_periods=steps)[-1])
        return math.expm1(forecast) if self._log1p else forecast

    def _select(self) -> None:
        self._fit()
        p, _, q = self._model.order
        if p == 0 and q == 0 and not self._log1p:
            self._turn_to_logs()

    def _turn_to_logs(self) -> None:
        self._log1p = True
        try:
            self._fit()
        except Exception:  # the raw model works, whatever the library says about the other one
            self._log1p = False

    def _fit(self) -> None:
        self._model = self._library.auto_arima(self._scaled(), suppress_warnings=True, error_action="ignore")

    def _scaled(self) -> list[float]:
        return [math.log1p(value) for value in self._points] if self._log1p else self._points
