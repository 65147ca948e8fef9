"""Composite planner knobs: decoding entries to flat fields, and which loops they enable (spec 05 1.4, 3)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from aisimulate.core.errors import nearest
from aisimulate.spica.presets import (
    DIRECT_POLICIES,
    FPM_SAMPLING,
    LOAD_SENSITIVITY,
    SCALING_POLICIES,
    ScalingPolicy,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "FPM_SAMPLING",
    "LOAD_SENSITIVITY",
    "SCALING_POLICIES",
    "CompositeEntry",
    "ScalingPolicy",
    "enables_scaling",
    "filter_scaling_policies",
    "fpm_fields",
    "load_sensitivity_fields",
    "scaling_fields",
    "throughput_intervals",
]

Preset = TypeVar("Preset")
CompositeEntry: TypeAlias = "str | dict[str, Any]"

_NO_SCALING = asdict(SCALING_POLICIES["disabled"])


def scaling_fields(entry: str | Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a scaling policy: two flags and two intervals (s); absent ones are False and None.

    One that sizes directly has `planner_mode` besides.
    """
    if isinstance(entry, str) and entry in DIRECT_POLICIES:
        return {**asdict(DIRECT_POLICIES[entry]), "planner_mode": "direct"}
    if isinstance(entry, str):
        entry = asdict(_preset("planner_scaling_policy", SCALING_POLICIES, entry))
    return {**_NO_SCALING, **entry}


def fpm_fields(entry: str | Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a forward-pass sampling entry: sample and bucket counts."""
    if isinstance(entry, str):
        entry = _preset("planner_fpm_sampling", FPM_SAMPLING, entry)
    return dict(entry)


def load_sensitivity_fields(entry: str | Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a load sensitivity entry: scale-down sensitivity (%) and observation count."""
    if isinstance(entry, str):
        entry = _preset("planner_load_sensitivity", LOAD_SENSITIVITY, entry)
    return dict(entry)


def enables_scaling(entry: str | Mapping[str, Any]) -> bool:
    """Whether a policy runs any scaling loop."""
    fields = scaling_fields(entry)
    return bool(fields["enable_throughput_scaling"] or fields["enable_load_scaling"])


def reads_details(entry: str | Mapping[str, Any]) -> bool:
    """Whether a policy learns from forward passes, so that sampling and sensitivity can act."""
    return enables_scaling(entry) and scaling_fields(entry).get("planner_mode") != "direct"


def throughput_intervals(policies: Iterable[str | Mapping[str, Any]]) -> list[float]:
    """List the distinct throughput intervals (s), sorted, of policies that scale by forecast throughput."""
    flat = [scaling_fields(policy) for policy in policies]
    intervals = {
        fields["throughput_adjustment_interval_seconds"]
        for fields in flat
        if fields["enable_throughput_scaling"]
    }
    return sorted(interval for interval in intervals if interval is not None)


def filter_scaling_policies(
    policies: Iterable[CompositeEntry], *, allow_throughput: bool
) -> tuple[list[CompositeEntry], list[CompositeEntry]]:
    """Split policies into (kept, dropped), order preserved: throughput scaling only where allowed."""
    kept: list[CompositeEntry] = []
    dropped: list[CompositeEntry] = []
    for policy in policies:
        allowed = allow_throughput or not scaling_fields(policy)["enable_throughput_scaling"]
        (kept if allowed else dropped).append(policy)
    return kept, dropped


def _preset(knob: str, presets: Mapping[str, Preset], name: str) -> Preset:
    if name not in presets:
        raise ValueError(f"unknown {knob} {name!r}; allowed: {list(presets)}{nearest(name, presets)}")
    return presets[name]
