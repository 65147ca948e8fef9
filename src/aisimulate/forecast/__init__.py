"""Load forecasters: what the planner expects the next windows of traffic to be (spec 03 part C)."""

from __future__ import annotations

from aisimulate.forecast.forecaster import Forecaster
from aisimulate.forecast.make import make_forecaster, minimum_points, predictor_fields
from aisimulate.forecast.presets import (
    DEFAULT_PRESET,
    FAMILIES,
    OPTION_DEFAULTS,
    OWN_PRESETS,
    PRESETS,
    REFERENCE_PRESETS,
)
from aisimulate.forecast.traffic import TrafficForecaster, Window

__all__ = [
    "DEFAULT_PRESET",
    "FAMILIES",
    "OPTION_DEFAULTS",
    "OWN_PRESETS",
    "PRESETS",
    "REFERENCE_PRESETS",
    "Forecaster",
    "TrafficForecaster",
    "Window",
    "make_forecaster",
    "minimum_points",
    "predictor_fields",
]
