"""Prophet as the reference runs it (spec 03 section C3), through the extra `forecast`."""

from __future__ import annotations

from collections import deque

from aisimulate.forecast.extra import load, quiet

_START = "2024-01-01"


class ProphetTrend:
    """Fits Prophet with its own defaults to the last `window_points` at every forecast.

    Points lie `interval_s` apart on a made-up time axis. Raises UnsupportedError when Prophet is missing.
    """

    def __init__(self, window_points: int, interval_s: float) -> None:
        self._prophet, self._pandas = load("prophet", "prophet", "pandas")
        self._interval_s = interval_s
        self._points: deque[float] = deque(maxlen=window_points)

    def observe(self, value: float) -> None:
        """Learn the next point."""
        self._points.append(value)

    def predict(self, steps: int) -> float:
        """Forecast the point `steps` ahead."""
        pandas, count = self._pandas, len(self._points)
        spacing = pandas.Timedelta(seconds=self._interval_s)
        times = [pandas.Timestamp(_START) + index * spacing for index in range(count)]
        ahead = [times[-1] + steps * spacing]
        with quiet():
            model = self._prophet.Prophet()
            model.fit(pandas.DataFrame({"ds": times, "y": list(self._points)}))
            return float(model.predict(pandas.DataFrame({"ds": ahead}))["yhat"].iloc[-1])
