"""What the problems of closed loops share: two goals, the noise, and the area under what was measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from aisimulate.spica.pool_gp.fronts import area
from tools.bench_search.hashed_noise import log_normal
from tools.bench_search.problem import Measured, load_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.parallel_enum import ParallelConfig

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

_NOISE = 0.01

Points = TypeVar("Points")


class TwoGoals(ABC, Generic[Points]):
    """Tokens per second and GPU against those per user; `Points` are deployments in columns."""

    objectives = (("throughput_per_gpu", True), ("throughput_per_user", True))

    @abstractmethod
    def points(self, selection: Mapping[str, Any], config: ParallelConfig) -> Points:
        """Return one deployment in columns."""

    @abstractmethod
    def solve(self, points: Points, steps: Ints) -> tuple[Floats, NDArray[np.bool_]]:
        """Return both objectives at load ratios in thousandths, and which deployments can run."""

    def measure(self, selection: Mapping[str, Any], config: ParallelConfig) -> Measured | None:
        """Return the outcome of a configuration, with 1 % noise on what is observed."""
        values, feasible = self.solve(self.points(selection, config), np.array([load_step(selection)]))
        if not feasible[0]:
            return None
        true = tuple(map(float, values[0]))
        tag = repr((selection, config))
        observed = [value * log_normal((tag, place), _NOISE) for place, value in enumerate(true)]
        return Measured(tuple(observed), true)

    def score(self, found: Sequence[Measured]) -> float:
        """Return the area under what was measured, by its true values."""
        return area(np.array([one.true for one in found]).reshape(-1, 2))
