"""The list knobs: their legal choices, and the rules an entry must obey (spec 05 sections 1.3, 1.4)."""

from __future__ import annotations

import json
from typing import Any

from aisimulate.core.errors import nearest
from aisimulate.core.shown import show_python
from aisimulate.forecast.presets import OPTION_DEFAULTS, OWN_PRESETS
from aisimulate.spica.composites import check_composite_values
from aisimulate.spica.custom_choices import custom_choice, custom_rule
from aisimulate.spica.presets import (
    DIRECT_POLICIES,
    FPM_SAMPLING,
    LOAD_PREDICTOR_PRESETS,
    LOAD_SENSITIVITY,
    SCALING_POLICIES,
)

# They rank host and disk copies of a prefix, so without a host tier they are not searched.
HOST_TIER_WEIGHTS = ("host_cache_hit_weight", "disk_cache_hit_weight")
ROUTER_WEIGHTS = ("overlap_score_credit", "prefill_load_scale", *HOST_TIER_WEIGHTS, "router_temperature")

_BATCHED_TOKENS: tuple[Any, ...] = (8192, 16384, 32768)

SEARCH_CHOICES: dict[str, tuple[Any, ...]] = {
    "deployment_mode": ("disagg", "agg"),
    "backend": ("vllm", "sglang", "trtllm"),
    "prefill_max_num_batched_tokens": _BATCHED_TOKENS,
    "prefill_max_num_seqs": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "decode_max_num_batched_tokens": (8192,),
    "decode_max_num_seqs": (256, 512, 1024),
    "agg_max_num_batched_tokens": _BATCHED_TOKENS,
    "agg_max_num_seqs": (256, 512, 1024),
    "router_mode": ("kv_router", "round_robin"),
    "overlap_score_credit": (0.0, 0.5, 1.0),
    "prefill_load_scale": (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    "host_cache_hit_weight": (0.5, 0.75, 1.0),
    "disk_cache_hit_weight": (0.0, 0.25, 0.5),
    "router_temperature": (0.0, 0.2, 0.5, 1.0),
    "planner_scaling_policy": tuple(SCALING_POLICIES),
    "planner_fpm_sampling": tuple(FPM_SAMPLING),
    "planner_load_sensitivity": tuple(LOAD_SENSITIVITY),
    "load_predictor_candidates": tuple(LOAD_PREDICTOR_PRESETS),
}

# Legal choices that are not searched unless they are listed: what goes beyond the reference.
EXTRA_CHOICES: dict[str, tuple[Any, ...]] = {
    "planner_scaling_policy": tuple(DIRECT_POLICIES),
    "load_predictor_candidates": tuple(OWN_PRESETS),
}

# A custom entry of these three must give every field; a predictor entry only needs its family.
_ALL_REQUIRED: dict[str, frozenset[str]] = {
    "planner_scaling_policy": frozenset(
        {
            "enable_throughput_scaling",
            "enable_load_scaling",
            "throughput_adjustment_interval_seconds",
            "load_adjustment_interval_seconds",
        }
    ),
    "planner_fpm_sampling": frozenset(FPM_SAMPLING["default"]),
    "planner_load_sensitivity": frozenset(LOAD_SENSITIVITY["default"]),
}

COMPOSITE_DICT_KEYS: dict[str, frozenset[str]] = {
    **_ALL_REQUIRED,
    "planner_scaling_policy": _ALL_REQUIRED["planner_scaling_policy"] | {"planner_mode"},
    "load_predictor_candidates": frozenset({"load_predictor", *OPTION_DEFAULTS}),
}
COMPOSITE_REQUIRED_KEYS: dict[str, frozenset[str]] = {
    **_ALL_REQUIRED,
    "load_predictor_candidates": frozenset({"load_predictor"}),
}


def default_choices(knob: str) -> list[Any]:
    """Give a knob's default: all its legal choices (only the first backend)."""
    return ["vllm"] if knob == "backend" else list(SEARCH_CHOICES[knob])


def checked_choices(knob: str, entries: list[Any], *, custom: bool = False) -> list[Any]:
    """Check a knob's list and return it with native values and without repeats, order kept (D5).

    With `custom` a numeric knob takes values off its grid, too. Raises ValueError with the offending entry,
    the rule and the legal choices.
    """
    if not entries:
        raise ValueError(f"{knob} must list at least one choice; {_allowed(knob)}")
    unique: dict[str, Any] = {}
    for entry in entries:
        if isinstance(entry, dict):
            checked: Any = _checked_dict(knob, entry)
        else:
            checked = _checked_value(knob, entry, custom)
        unique.setdefault(choice_key(checked), checked)
    return list(unique.values())


def choice_key(entry: object) -> str:
    """Canonical text of a choice: equal for equal entries whatever their key order or number type."""
    if isinstance(entry, dict):
        return json.dumps({key: _canonical(value) for key, value in entry.items()}, sort_keys=True)
    return json.dumps(_canonical(entry))


def _canonical(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _checked_dict(knob: str, entry: dict[Any, Any]) -> dict[str, Any]:
    if knob not in COMPOSITE_DICT_KEYS:
        raise ValueError(f"{knob} does not accept a dict entry, got {show_python(entry)}; {_allowed(knob)}")
    if not entry:
        raise ValueError(f"a {knob} entry must not be empty; {_allowed_keys(knob)}")
    unknown = sorted(str(key) for key in entry if key not in COMPOSITE_DICT_KEYS[knob])
    if unknown:
        hint = nearest(unknown[0], sorted(COMPOSITE_DICT_KEYS[knob]))
        raise ValueError(
            f"unknown keys {show_python(unknown)} in a {knob} entry; {_allowed_keys(knob)}{hint}"
        )
    missing = sorted(COMPOSITE_REQUIRED_KEYS[knob] - entry.keys())
    if missing:
        raise ValueError(f"missing required keys {missing} in a {knob} entry")
    check_composite_values(knob, entry)
    return entry


def _checked_value(knob: str, entry: object, custom: bool) -> object:
    """Return the listed choice equal to `entry`, so that 256.0 becomes 256; or a legal one off the grid."""
    legal = _legal_choices(knob)
    for choice in legal:
        if not isinstance(entry, bool) and entry == choice:
            return choice
    if custom and custom_rule(knob) is not None:
        return custom_choice(knob, entry)
    hint = nearest(entry, [str(choice) for choice in legal]) if isinstance(entry, str) else ""
    raise ValueError(f"invalid choice {show_python(entry)} for {knob}; {_allowed(knob)}{hint}")


def _legal_choices(knob: str) -> tuple[Any, ...]:
    return SEARCH_CHOICES[knob] + EXTRA_CHOICES.get(knob, ())


def _allowed(knob: str) -> str:
    more = f" and {list(EXTRA_CHOICES[knob])}" if knob in EXTRA_CHOICES else ""
    own = f"; custom_choices: true takes {custom_rule(knob)}" if custom_rule(knob) else ""
    return f"allowed: {list(SEARCH_CHOICES[knob])}{more}{own}"


def _allowed_keys(knob: str) -> str:
    return f"allowed keys: {sorted(COMPOSITE_DICT_KEYS[knob])}"
