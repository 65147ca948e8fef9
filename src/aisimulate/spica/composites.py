"""Value rules of custom composite entries, checked when the config is loaded (spec 05 section 1.4, D2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from aisimulate.core.shown import show_python
from aisimulate.core.units import common_interval_s
from aisimulate.forecast.make import check_family
from aisimulate.forecast.presets import LOG_OPTION, MOST_LAGS, OPTION_DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Far beyond any sensible setting.
_LARGEST = 1e18


def check_composite_values(knob: str, entry: Mapping[str, Any]) -> None:
    """Check the values of a custom entry whose keys are already known to be right.

    Raises ValueError that names the key, the value and the rule.
    """
    _CHECKS[knob](entry)


def _check_policy(entry: Mapping[str, Any]) -> None:
    _require_bool(entry, "enable_throughput_scaling")
    _require_bool(entry, "enable_load_scaling")
    mode = entry.get("planner_mode", "reference")
    if mode not in ("reference", "direct"):
        raise ValueError(f"planner_mode must be 'reference' or 'direct', got {show_python(mode)}")
    throughput_s = _interval(entry, "throughput_adjustment_interval_seconds", "enable_throughput_scaling")
    load_s = _interval(entry, "load_adjustment_interval_seconds", "enable_load_scaling")
    if throughput_s is not None and load_s is not None and load_s >= throughput_s:
        raise ValueError(
            f"load_adjustment_interval_seconds ({load_s:g}) must be below "
            f"throughput_adjustment_interval_seconds ({throughput_s:g}) when both loops run"
        )
    if throughput_s is not None and load_s is not None and common_interval_s(load_s, throughput_s) < 0.001:
        raise ValueError(
            f"load_adjustment_interval_seconds ({load_s}) and throughput_adjustment_interval_seconds "
            f"({throughput_s}) must be multiples of one time between ticks, of a millisecond or more"
        )


def _interval(entry: Mapping[str, Any], key: str, flag: str) -> float | None:
    """Return the interval of an enabled loop; None when the loop is off (its interval is unused)."""
    value = entry[key]
    if not entry[flag]:
        if value is not None:
            _number(key, value)
        return None
    if value is None:
        raise ValueError(f"{key} must not be null when {flag} is true")
    if _number(key, value) <= 0:
        raise ValueError(f"{key} must be positive, got {show_python(value)}")
    return float(value)


def _check_sampling(entry: Mapping[str, Any]) -> None:
    _count(entry, "max_num_fpm_samples")
    buckets = _count(entry, "fpm_sample_bucket_size")
    if math.isqrt(buckets) ** 2 != buckets:
        raise ValueError(f"fpm_sample_bucket_size must be a perfect square, got {buckets}")


def _check_sensitivity(entry: Mapping[str, Any]) -> None:
    key = "load_scaling_down_sensitivity"
    if not 0 <= _number(key, entry[key]) <= 100:
        raise ValueError(f"{key} must be within 0..100, got {show_python(entry[key])}")
    _count(entry, "load_min_observations")


def _check_predictor(entry: Mapping[str, Any]) -> None:
    check_family(entry["load_predictor"])
    merged = {**OPTION_DEFAULTS, **entry}
    _require_bool(merged, LOG_OPTION)
    _count(merged, "prophet_window_size")
    _count(merged, "kalman_min_points")
    _count(merged, "ridge_lags")
    if merged["ridge_lags"] > MOST_LAGS:
        raise ValueError(f"ridge_lags must be at most {MOST_LAGS}, got {show_python(merged['ridge_lags'])}")
    if not 0 < _number("smoothing_alpha", merged["smoothing_alpha"]) <= 1:
        raise ValueError(f"smoothing_alpha must be within 0..1, got {show_python(merged['smoothing_alpha'])}")
    for key in ("kalman_q_level", "kalman_q_trend"):
        if _number(key, merged[key]) < 0:
            raise ValueError(f"{key} must not be negative, got {show_python(merged[key])}")
    if _number("kalman_r", merged["kalman_r"]) <= 0:
        raise ValueError(f"kalman_r must be positive, got {show_python(merged['kalman_r'])}")


def _require_bool(entry: Mapping[str, Any], key: str) -> None:
    # A text such as "no" is true in Python, so only real booleans are taken.
    value = entry[key]
    if not isinstance(value, bool):
        hint = "; YAML 1.2 reads it as a text" if value in ("yes", "no", "on", "off") else ""
        raise ValueError(f"{key} must be true or false, got {show_python(value)}{hint}")


def _number(key: str, value: object) -> float:
    # The bound also refuses NaN, infinity and integers that no float can hold.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < _LARGEST:
        raise ValueError(f"{key} must be a finite number, got {show_python(value)}")
    return float(value)


def _count(entry: Mapping[str, Any], key: str) -> int:
    value = _number(key, entry[key])
    if value < 1 or not value.is_integer():
        raise ValueError(f"{key} must be a whole number >= 1, got {show_python(entry[key])}")
    return int(value)


_CHECKS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "planner_scaling_policy": _check_policy,
    "planner_fpm_sampling": _check_sampling,
    "planner_load_sensitivity": _check_sensitivity,
    "load_predictor_candidates": _check_predictor,
}
