"""The stored series of the reference, and walks over them."""

import json
from pathlib import Path

from aisimulate.forecast import TrafficForecaster, Window
from aisimulate.spica.load_predictor_sweep import score_preset

DATA = Path(__file__).parents[1] / "data" / "forecast" / "reference_series.json"
SERIES = json.loads(DATA.read_text())["series"]
WARMUP = 5


def windows_of(series):
    return [Window(*row) for row in SERIES[series]["windows"]]


def interval_of(series):
    return float(series.partition("@")[2])


def loss_of(preset, series):
    return score_preset(preset, windows_of(series), warmup=WARMUP, interval_s=interval_of(series)).loss


def forecasts_of(preset, series):
    forecaster = TrafficForecaster(preset, interval_s=interval_of(series))
    forecasts = []
    for window in windows_of(series):
        forecasts.append(tuple(forecaster.predict()))
        forecaster.observe(window)
    return forecasts
