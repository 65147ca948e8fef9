"""What the benchmark asks of a problem: a branch of the search space, and a truth to find in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from aisimulate.spica.pool_gp.fronts import front_of_two

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.search_space import BranchSpace

    Floats = NDArray[np.float64]

OBJECTIVES = (("throughput_per_gpu", True), ("throughput_per_user", True))
LOAD_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcome of a configuration: what is observed, and what is true without the noise."""

    observed: tuple[float, ...]
    true: tuple[float, ...]


class Problem(Protocol):
    """One search problem. All values are positive, and better when larger."""

    name: str
    branch: BranchSpace
    objectives: Sequence[tuple[str, bool]] | None

    def measure(self, selection: Mapping[str, Any], config: ParallelConfig) -> Measured | None:
        """Return the outcome of a configuration; None when it is infeasible."""
        ...

    def screen(self, selection: Mapping[str, Any], config: ParallelConfig) -> list[float] | None:
        """Estimate the objectives without measuring."""
        ...

    def score(self, found: Sequence[Measured]) -> float:
        """Judge a search by what it measured; the best possible score is `exhaustive`'s."""
        ...

    def exhaustive(self) -> float:
        """Return the best possible score, by trying everything (seconds to minutes)."""
        ...


def area(points: Floats) -> float:
    """Return the area that points (n, 2) dominate over the origin."""
    if not len(points):
        return 0.0
    rows = points[front_of_two(points)]
    return float(((rows[:, 0] - np.append(rows[1:, 0], 0.0)) * rows[:, 1]).sum())


def load_step(selection: Mapping[str, Any]) -> int:
    """Return the load ratio of a selection in thousandths."""
    return round(LOAD_STEPS * selection["kv_load_ratio"])
