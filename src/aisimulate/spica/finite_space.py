"""The finite space of distinct effective points of a branch, by index.

A knob that the chosen router or planner policy never reads takes its first choice only, so two indices
never mean the same deployment (spec 05 section 5, D7, D8). Samplers draw or walk indices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from aisimulate.spica.choices import ROUTER_WEIGHTS
from aisimulate.spica.planner import (
    enables_scaling,
    fpm_fields,
    load_sensitivity_fields,
    reads_details,
    scaling_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.search_space import BranchSpace

PLANNER_DETAIL_KNOBS = ("planner_fpm_sampling", "planner_load_sensitivity")
_ROUTER_KNOBS = ("router_mode", *ROUTER_WEIGHTS)
_PLANNER_KNOBS = ("planner_scaling_policy", *PLANNER_DETAIL_KNOBS)
_DECODERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "planner_scaling_policy": scaling_fields,
    "planner_fpm_sampling": fpm_fields,
    "planner_load_sensitivity": load_sensitivity_fields,
}

Selection = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FinitePoint:
    """One point: a full selection (deployment_mode and every knob of the branch) and its config."""

    selection: Selection
    parallel_config: ParallelConfig


def distinct_choices(knob: str, choices: Iterable[Any]) -> list[Any]:
    """Drop repeated choices, keeping order; composites are equal when they decode to equal fields."""
    decode = _DECODERS.get(knob)
    distinct: dict[Any, Any] = {}
    for choice in choices:
        distinct.setdefault(tuple(decode(choice).items()) if decode else choice, choice)
    return list(distinct.values())


def _combinations(axes: Mapping[str, Sequence[Any]]) -> list[Selection]:
    """List every combination of the axes; the last axis varies fastest."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _gated(
    axes: Mapping[str, Sequence[Any]],
    switch: str,
    is_active: Callable[[Any], bool],
    merge_inactive: Callable[[Any], bool],
) -> list[Selection]:
    """Combine `switch` with its details; a state that ignores the details gets their first choices.

    With `merge_inactive` all inactive states that it holds for are one: the first listed stands for them.
    """
    details = {knob: values for knob, values in axes.items() if knob != switch}
    first = {knob: values[0] for knob, values in details.items()}
    combinations: list[Selection] = []
    seen_inactive = False
    for state in axes.get(switch, ()):
        if is_active(state):
            combinations += [{switch: state, **rest} for rest in _combinations(details)]
        elif not (seen_inactive and merge_inactive(state)):
            combinations.append({switch: state, **first})
            seen_inactive = seen_inactive or merge_inactive(state)
    return combinations or [first]


class FiniteSpace:
    """Indexes the points of a branch: 0 <= index < `size`, in a fixed order.

    The order is that of a mixed-radix number whose digits are, most significant first: backend, parallel
    config (pool order), engine knobs (listed order), router, planner. A continuous `float_ranges`
    dimension is not part of the space: a sampler adds its value to the point's selection.
    """

    def __init__(self, branch: BranchSpace) -> None:
        self._branch = branch
        choices = {knob: distinct_choices(knob, values) for knob, values in branch.knob_choices.items()}
        self._placements = [
            (backend, config)
            for backend in branch_backends(branch)
            for config in branch.parallel_configs
            if backend in branch.supported_backends[config]
        ]
        router, planner = _pick(choices, _ROUTER_KNOBS), _pick(choices, _PLANNER_KNOBS)
        engine = {k: v for k, v in choices.items() if k != "backend" and k not in router and k not in planner}
        self._digits = (
            _combinations(engine),
            _gated(router, "router_mode", lambda mode: mode == "kv_router", lambda _: False),
            _gated(
                planner, "planner_scaling_policy", reads_details, lambda state: not enables_scaling(state)
            ),
        )
        self.size = len(self._placements) * math.prod(len(digit) for digit in self._digits)

    @property
    def placements(self) -> Sequence[tuple[str, ParallelConfig]]:
        """The (backend, parallel config) pairs, in index order."""
        return self._placements

    @property
    def digits(self) -> Sequence[Sequence[Selection]]:
        """The combinations of the engine knobs, of the router's and of the planner's."""
        return self._digits

    def positions(self, index: int) -> tuple[int, ...]:
        """Split an index into the position of its placement and of each digit.

        Raises IndexError outside 0..size-1.
        """
        if not 0 <= index < self.size:
            raise IndexError(f"point {index} is outside 0..{self.size - 1}")
        found: list[int] = []
        for digit in reversed(self._digits):
            index, position = divmod(index, len(digit))
            found.append(position)
        return (index, *reversed(found))

    def index_of(self, positions: Sequence[int]) -> int:
        """Join what `positions` split."""
        index = positions[0]
        for digit, position in zip(self._digits, positions[1:], strict=True):
            index = index * len(digit) + position
        return index

    def point_at(self, index: int) -> FinitePoint:
        """Decode an index. Raises IndexError outside 0..size-1."""
        placement, *positions = self.positions(index)
        values: Selection = {}
        for digit, position in zip(self._digits, positions, strict=True):
            values |= digit[position]
        backend, config = self._placements[placement]
        values["backend"] = backend
        selection = {"deployment_mode": self._branch.deployment_mode}
        selection |= {knob: values[knob] for knob in (*self._branch.knob_choices, "backend")}
        return FinitePoint(selection, config)

    def __iter__(self) -> Iterator[FinitePoint]:
        """Walk the points in index order."""
        return (self.point_at(index) for index in range(self.size))


def _pick(choices: Mapping[str, list[Any]], knobs: Sequence[str]) -> dict[str, list[Any]]:
    return {knob: choices[knob] for knob in knobs if knob in choices}


def branch_backends(branch: BranchSpace) -> list[str]:
    """List the distinct backends of a branch in knob order (by name when it was built without that knob)."""
    listed = distinct_choices("backend", branch.knob_choices.get("backend", ()))
    return listed or sorted(set().union(*branch.supported_backends.values()))


def finite_size(branch: BranchSpace) -> int | None:
    """Count the distinct effective points of a branch; None when it has a continuous dimension."""
    return None if branch.float_ranges else FiniteSpace(branch).size
