"""Named presets of the composite knobs (spec 05 section 1.4). Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aisimulate.forecast.presets import REFERENCE_PRESETS


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

# The forecaster presets of the reference, which are the default candidates; there are more in `forecast`.
LOAD_PREDICTOR_PRESETS: dict[str, dict[str, Any]] = REFERENCE_PRESETS
