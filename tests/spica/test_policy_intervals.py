"""The intervals of a custom scaling policy need a tick that divides both."""

from __future__ import annotations

import pytest

from aisimulate.spica.composites import check_composite_values


def policy(load_s: float, throughput_s: float) -> dict[str, object]:
    return {
        "enable_throughput_scaling": True,
        "enable_load_scaling": True,
        "throughput_adjustment_interval_seconds": throughput_s,
        "load_adjustment_interval_seconds": load_s,
    }


def test_intervals_without_a_common_tick_are_refused_before_anything_runs() -> None:
    check_composite_values("planner_scaling_policy", policy(5, 180.1))
    with pytest.raises(ValueError, match=r"\(3\.14159\) .* must be multiples of one time between ticks"):
        check_composite_values("planner_scaling_policy", policy(3.14159, 180.1))
