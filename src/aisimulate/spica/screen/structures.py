"""The structures of a branch: every deployment without its load, and which are copies of a smaller one.

W copies of the same workers with the load split evenly do per GPU what one does (spec 08 section 2.3): they
are computed once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.spica.finite_space import FiniteSpace
from aisimulate.spica.parallel_enum import DisaggParallelConfig, ReplicaParallelConfig
from aisimulate.spica.planner import enables_scaling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.search_space import BranchSpace


class Structures:
    """The static, round-robin structures of a branch, by number.

    `units` are (selection, parallel config) pairs. Per structure, `owners` has the number of its unit and
    `copies` says how many of them it is.
    """

    def __init__(self, branch: BranchSpace, *, split: bool = True) -> None:
        """`split`: whether the load is split evenly among copies, so that copies are worth telling."""
        self._split = split
        self._space = FiniteSpace(branch)
        self._fixed = self._fixed_positions()
        self.units: list[tuple[Mapping[str, Any], ParallelConfig]] = []
        found = self._collect()
        self._indices = [index for index, _, _ in found]
        self.owners = np.array([unit for _, unit, _ in found], dtype=np.int64)
        self.copies = np.array([copies for _, _, copies in found], dtype=np.int64)

    def point(self, number: int) -> tuple[dict[str, Any], ParallelConfig]:
        """Return the selection and the workers of a structure."""
        point = self._space.point_at(self._indices[number])
        return dict(point.selection), point.parallel_config

    def _fixed_positions(self) -> tuple[int, int]:
        """Choose the router's and the planner's combination that stands for all: the plainest there is."""
        _, routers, planners = self._space.digits
        plain = [row.get("router_mode") == "round_robin" for row in routers]
        static = [not enables_scaling(row.get("planner_scaling_policy", "disabled")) for row in planners]
        return _first(plain), _first(static)

    def _collect(self) -> list[tuple[int, int, int]]:
        """List the structures: index in the finite space, number of the unit, copies of it."""
        found: list[tuple[int, int, int]] = []
        numbers: dict[tuple[str, ParallelConfig, int], int] = {}
        settings = self._space.digits[0]
        for placement, (backend, config) in enumerate(self._space.placements):
            copies, unit_config = unit_of(config) if self._split else (1, config)
            for setting, knobs in enumerate(settings):
                key = backend, unit_config, setting
                unit = numbers.setdefault(key, len(numbers))
                if unit == len(self.units):
                    self.units.append(({**knobs, "backend": backend}, unit_config))
                index = self._space.index_of((placement, setting, *self._fixed))
                found.append((index, unit, copies))
        return found


def unit_of(config: ParallelConfig) -> tuple[int, ParallelConfig]:
    """Return how many copies of which smallest deployment a config is."""
    if isinstance(config, ReplicaParallelConfig):
        return config.replicas, ReplicaParallelConfig(config.shape, 1)
    copies = math.gcd(config.prefill.replicas, config.decode.replicas)
    prefill, decode = (
        ReplicaParallelConfig(pool.shape, pool.replicas // copies) for pool in (config.prefill, config.decode)
    )
    return copies, DisaggParallelConfig(prefill, decode)


def _first(wanted: list[bool]) -> int:
    return wanted.index(True) if True in wanted else 0
