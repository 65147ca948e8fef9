"""How much each knob matters: the share of a figure's variance that grouping by the knob explains.

The measure is epsilon squared of a one-way analysis of variance: 1 - (variance left within the groups, by its
degrees of freedom) / (total variance, by its own), never below 0. It needs no model. Knobs that were changed
together share credit, and a knob that acts only beside another shows less than it does.
"""

from __future__ import annotations

import json
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_GROUPS = 8
"""Numbers with more distinct values than this are cut into quartiles."""


def varied_fields(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the fields that are not the same in all configurations, in their order."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({_key(config.get(name)) for config in configs}) > 1]


def varied_knobs(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the fields of which the configurations that have them hold more than one value."""
    having = {name: [c[name] for c in configs if c.get(name) is not None] for name in varied_fields(configs)}
    return [name for name, values in having.items() if len({_key(value) for value in values}) > 1]


def importance(values: Sequence[Any], results: Sequence[float]) -> float:
    """Share (0 to 1) of the variance of `results` that groups of equal `values` explain."""
    groups: dict[object, list[float]] = {}
    for group, result in zip(_grouped(values), results, strict=True):
        groups.setdefault(group, []).append(result)
    count = len(results)
    if len(groups) < 2 or count <= len(groups):
        return 0.0
    total = _squares(results)
    within = sum(_squares(group) for group in groups.values())
    if total <= 0:
        return 0.0
    return max(0.0, 1 - within / (count - len(groups)) / (total / (count - 1)))


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values)


def _grouped(values: Sequence[Any]) -> list[object]:
    """Give each value its group: itself, or its quartile where there are many numbers."""
    if len({_key(value) for value in values}) <= _MOST_GROUPS or not all(_is_number(v) for v in values):
        return [_key(value) for value in values]
    ordered = sorted(values)
    cuts = [ordered[len(ordered) * quarter // 4] for quarter in (1, 2, 3)]
    return [sum(value >= cut for cut in cuts) for value in values]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _key(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)
