"""Forecaster families, their options and the named presets (spec 03 C3, C4; 05 section 1.4). Pure data."""

from __future__ import annotations

from typing import Any

# The families of the reference, and those of our own, which need numpy only.
REFERENCE_FAMILIES = ("constant", "arima", "kalman", "prophet")
OWN_FAMILIES = ("smoothing", "ridge", "pool")
FAMILIES = (*REFERENCE_FAMILIES, *OWN_FAMILIES)

# What an entry means where it does not say. Every family has the first option.
LOG_OPTION = "load_predictor_log1p"
OPTION_DEFAULTS: dict[str, Any] = {
    LOG_OPTION: False,
    "prophet_window_size": 50,
    "kalman_q_level": 1.0,
    "kalman_q_trend": 0.1,
    "kalman_r": 10.0,
    "kalman_min_points": 5,
    "smoothing_alpha": 0.25,
    "ridge_lags": 8,
}
OPTIONS_OF_FAMILY: dict[str, tuple[str, ...]] = {
    "prophet": ("prophet_window_size",),
    "kalman": ("kalman_q_level", "kalman_q_trend", "kalman_r", "kalman_min_points"),
    "smoothing": ("smoothing_alpha",),
    "ridge": ("ridge_lags",),
}
OWN_OPTIONS = ("smoothing_alpha", "ridge_lags")
MOST_LAGS = 64
"""What `ridge_lags` may be: a fit takes the cube of it."""


def _preset(family: str, log1p: bool, **extra: float) -> dict[str, Any]:
    return {"load_predictor": family, LOG_OPTION: log1p, **extra}


def _kalman(log1p: bool, q_level: float, q_trend: float, r: float, min_points: int) -> dict[str, Any]:
    return _preset(
        "kalman",
        log1p,
        kalman_q_level=q_level,
        kalman_q_trend=q_trend,
        kalman_r=r,
        kalman_min_points=min_points,
    )


REFERENCE_PRESETS: dict[str, dict[str, Any]] = {
    "constant_last": _preset("constant", False),
    "arima_raw": _preset("arima", False),
    "arima_log1p": _preset("arima", True),
    "prophet_w20_raw": _preset("prophet", False, prophet_window_size=20),
    "prophet_w20_log1p": _preset("prophet", True, prophet_window_size=20),
    "prophet_w50_raw": _preset("prophet", False, prophet_window_size=50),
    "prophet_w50_log1p": _preset("prophet", True, prophet_window_size=50),
    "kalman_default_raw": _kalman(False, 1.0, 0.1, 10.0, 5),
    "kalman_default_log1p": _kalman(True, 1.0, 0.1, 10.0, 5),
    "kalman_reactive_raw": _kalman(False, 10.0, 1.0, 5.0, 3),
    "kalman_reactive_log1p": _kalman(True, 10.0, 1.0, 5.0, 3),
}

OWN_PRESETS: dict[str, dict[str, Any]] = {
    "pool_log1p": _preset("pool", True),
    "ridge_ar8_log1p": _preset("ridge", True, ridge_lags=8),
    "smoothing_slow_log1p": _preset("smoothing", True, smoothing_alpha=0.1),
    "smoothing_fast_log1p": _preset("smoothing", True, smoothing_alpha=0.5),
}

PRESETS: dict[str, dict[str, Any]] = {**REFERENCE_PRESETS, **OWN_PRESETS}

# What to take when nothing was measured: it needs no library and no choice of settings.
DEFAULT_PRESET = "pool_log1p"
