"""From a preset's name or a mapping of options to a forecaster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.blas import use_one_blas_thread
from aisimulate.core.errors import nearest
from aisimulate.core.shown import show, show_python
from aisimulate.forecast.forecaster import Forecaster, SeriesForecaster
from aisimulate.forecast.models import ExponentialSmoothing, LastValue, LocalLinearTrend
from aisimulate.forecast.presets import (
    FAMILIES,
    LOG_OPTION,
    OPTION_DEFAULTS,
    OPTIONS_OF_FAMILY,
    OWN_FAMILIES,
    PRESETS,
)
from aisimulate.forecast.restraint import TRIAL_POINTS, RestrainedForecaster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aisimulate.forecast.models import Model

# Families that fit a model only when there is something to fit.
_MIN_POINTS = {"arima": 5, "prophet": 5}
_DEFAULT_INTERVAL_S = 180.0


def make_forecaster(entry: str | Mapping[str, Any], *, interval_s: float = _DEFAULT_INTERVAL_S) -> Forecaster:
    """Make a forecaster from a preset's name, or from a mapping with `load_predictor` and its options.

    `interval_s` is the time between two points; only Prophet has a clock.
    Raises ValueError for an unknown preset or family, UnsupportedError for one whose library is not
    installed.
    """
    forecaster = series_forecaster(entry, interval_s=interval_s)
    return RestrainedForecaster(forecaster) if is_restrained(entry) else forecaster


def is_restrained(entry: str | Mapping[str, Any]) -> bool:
    """Whether forecasts leave the last value only as far as that has paid."""
    return bool(predictor_fields(entry)["load_predictor"] == "pool")


def series_forecaster(
    entry: str | Mapping[str, Any], *, interval_s: float = _DEFAULT_INTERVAL_S
) -> SeriesForecaster:
    """Make a forecaster that nothing restrains; see `make_forecaster`."""
    fields = predictor_fields(entry)
    family = fields["load_predictor"]
    model = _MAKERS[family](fields, interval_s)
    own = family in OWN_FAMILIES
    # ARIMA has its own rule for the log, since a raw one may turn to it.
    log1p = fields[LOG_OPTION] and family != "arima"
    return SeriesForecaster(model, _model_points(fields), log1p=log1p, counts=own)


def minimum_points(fields: Mapping[str, Any]) -> int:
    """Count the points a family wants before it forecasts; until then it repeats the last value."""
    return max(_model_points(fields), TRIAL_POINTS if is_restrained(fields) else 0)


def _model_points(fields: Mapping[str, Any]) -> int:
    family = fields["load_predictor"]
    if family == "kalman":
        return int(fields.get("kalman_min_points", OPTION_DEFAULTS["kalman_min_points"]))
    return _MIN_POINTS.get(family, 1)


def predictor_fields(entry: str | Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a forecaster entry: family, log flag, and the options of its family with their defaults.

    Raises ValueError for an unknown preset or family.
    """
    if isinstance(entry, str):
        if entry not in PRESETS:
            hint = nearest(entry, PRESETS)
            raise ValueError(f"unknown load predictor {show_python(entry)}; allowed: {list(PRESETS)}{hint}")
        entry = PRESETS[entry]
    settings = {**OPTION_DEFAULTS, **entry}
    check_family(settings.get("load_predictor"))
    family = settings["load_predictor"]
    names = ("load_predictor", LOG_OPTION, *OPTIONS_OF_FAMILY.get(family, ()))
    return {name: settings[name] for name in names}


def check_family(family: object) -> None:
    """Raise ValueError unless `family` is a known forecaster family."""
    if family not in FAMILIES:
        hint = nearest(str(family), FAMILIES)
        if isinstance(family, str) and family in PRESETS:
            written = ", ".join(f"{name}: {show(value)}" for name, value in PRESETS[family].items())
            hint = f", which names a preset: write {written}"
        raise ValueError(f"load_predictor must be one of {list(FAMILIES)}, got {show_python(family)}{hint}")


def _arima(fields: Mapping[str, Any], interval_s: float) -> Model:
    from aisimulate.forecast.arima import AutoArima  # noqa: PLC0415 - its libraries start slowly

    return AutoArima(log1p=fields[LOG_OPTION])


def _prophet(fields: Mapping[str, Any], interval_s: float) -> Model:
    from aisimulate.forecast.prophet import ProphetTrend  # noqa: PLC0415 - its libraries start slowly

    return ProphetTrend(fields["prophet_window_size"], interval_s)


def _ridge(fields: Mapping[str, Any], interval_s: float) -> Model:
    use_one_blas_thread()
    from aisimulate.forecast.ridge import RidgeAutoregression  # noqa: PLC0415 - numpy starts slowly

    return RidgeAutoregression(fields["ridge_lags"])


def _pool(fields: Mapping[str, Any], interval_s: float) -> Model:
    use_one_blas_thread()
    from aisimulate.forecast.pool import Pool, usual_members  # noqa: PLC0415 - numpy starts slowly

    return Pool(usual_members())


_MAKERS: dict[str, Callable[[Mapping[str, Any], float], Model]] = {
    "constant": lambda fields, _: LastValue(),
    "kalman": lambda fields, _: LocalLinearTrend(
        fields["kalman_q_level"], fields["kalman_q_trend"], fields["kalman_r"]
    ),
    "arima": _arima,
    "prophet": _prophet,
    "smoothing": lambda fields, _: ExponentialSmoothing(fields["smoothing_alpha"]),
    "ridge": _ridge,
    "pool": _pool,
}
