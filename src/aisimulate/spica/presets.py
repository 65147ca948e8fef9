"""Named presets of the composite knobs (spec 05 section 1.4). Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """Which planner loops run, and how often (seconds; None only where the loop is off)."""

    enable_throughput_scaling: bool
    enable_load_scaling: bool
    throughput_adjustment_interval_seconds: float | None
    load_adjustment_interval_seconds: float | None


SCALING_POLICIES: dict[str, ScalingPolicy] = {
    "disabled": ScalingPolicy(False, False, None, None),
    "throughput_180_5": ScalingPolicy(True, False, 180, 5),
    "throughput_600_5": ScalingPolicy(True, False, 600, 5),
    "load_180_5": ScalingPolicy(False, True, 180, 5),
    "load_180_10": ScalingPolicy(False, True, 180, 10),
    "hybrid_180_5": ScalingPolicy(True, True, 180, 5),
    "hybrid_600_5": ScalingPolicy(True, True, 600, 5),
}

# Of ours: the same loops, sized directly by the simulator's own timing. Legal, but not searched by default.
DIRECT_POLICIES: dict[str, ScalingPolicy] = {
    "direct_throughput_180_5": SCALING_POLICIES["throughput_180_5"],
    "direct_load_180_5": SCALING_POLICIES["load_180_5"],
    "direct_hybrid_180_5": SCALING_POLICIES["hybrid_180_5"],
}

# How many forward-pass samples the planner keeps, and into how many buckets it sorts them.
FPM_SAMPLING: dict[str, dict[str, int]] = {
    "small": {"max_num_fpm_samples": 32, "fpm_sample_bucket_size": 4},
    "default": {"max_num_fpm_samples": 64, "fpm_sample_bucket_size": 16},
    "large": {"max_num_fpm_samples": 128, "fpm_sample_bucket_size": 16},
    "fine": {"max_num_fpm_samples": 128, "fpm_sample_bucket_size": 64},
}

LOAD_SENSITIVITY: dict[str, dict[str, int]] = {
    "aggressive": {"load_scaling_down_sensitivity": 70, "load_min_observations": 3},
    "default": {"load_scaling_down_sensitivity": 80, "load_min_observations": 5},
    "conservative": {"load_scaling_down_sensitivity": 90, "load_min_observations": 8},
}

PREDICTOR_FAMILIES = ("constant", "arima", "kalman", "prophet")

# What a predictor entry means where it does not say.
PREDICTOR_DEFAULTS: dict[str, Any] = {
    "load_predictor_log1p": False,
    "prophet_window_size": 50,
    "kalman_q_level": 1.0,
    "kalman_q_trend": 0.1,
    "kalman_r": 10.0,
    "kalman_min_points": 5,
}


def _predictor(family: str, log1p: bool, **extra: float) -> dict[str, Any]:
    return {"load_predictor": family, "load_predictor_log1p": log1p, **extra}


def _kalman(log1p: bool, q_level: float, q_trend: float, r: float, min_points: int) -> dict[str, Any]:
    return _predictor(
        "kalman",
        log1p,
        kalman_q_level=q_level,
        kalman_q_trend=q_trend,
        kalman_r=r,
        kalman_min_points=min_points,
    )


LOAD_PREDICTOR_PRESETS: dict[str, dict[str, Any]] = {
    "constant_last": _predictor("constant", False),
    "arima_raw": _predictor("arima", False),
    "arima_log1p": _predictor("arima", True),
    "prophet_w20_raw": _predictor("prophet", False, prophet_window_size=20),
    "prophet_w20_log1p": _predictor("prophet", True, prophet_window_size=20),
    "prophet_w50_raw": _predictor("prophet", False, prophet_window_size=50),
    "prophet_w50_log1p": _predictor("prophet", True, prophet_window_size=50),
    "kalman_default_raw": _kalman(False, 1.0, 0.1, 10.0, 5),
    "kalman_default_log1p": _kalman(True, 1.0, 0.1, 10.0, 5),
    "kalman_reactive_raw": _kalman(False, 10.0, 1.0, 5.0, 3),
    "kalman_reactive_log1p": _kalman(True, 10.0, 1.0, 5.0, 3),
}
