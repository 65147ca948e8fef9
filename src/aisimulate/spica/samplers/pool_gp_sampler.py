"""The default sampler: Gaussian processes over the real configurations of a branch (spec 06 section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.seeds import named_seed
from aisimulate.spica.pool_gp.optimizer import PoolOptimizer
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.samplers.branch_pool import BranchPool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.samplers.pool_parts import PointKey
    from aisimulate.spica.search_space import BranchSpace

    # The objectives' values as replays would give them, estimated; None for what cannot run.
    ObjectiveScreen = Callable[[Sequence[tuple[Mapping[str, Any], ParallelConfig]]], list[list[float] | None]]

_SMALLEST = 1e-12
_RATE_AND_SPEED = [("throughput_per_gpu", True), ("throughput_per_user", True)]


class PoolGpSampler:
    """Learns from every replay where the next one is worth most; never suggests a deployment twice."""

    overlaps = True

    def __init__(
        self,
        branch: BranchSpace,
        *,
        objectives: Sequence[tuple[str, bool]] | None = None,
        seed: int,
        screen: ObjectiveScreen | None = None,
    ) -> None:
        self.branch = branch
        self._objectives = list(objectives) if objectives else [("objective", True)]
        self._screen = screen
        if screen is None:
            self._pool = BranchPool(branch)
        else:
            in_pairs = branch.deployment_mode == "disagg" and self._objectives == _RATE_AND_SPEED
            self._pool = BranchPool(branch, self._screened, in_pairs=in_pairs)
        self._optimizer: PoolOptimizer[PointKey] = PoolOptimizer(
            self._pool,
            objectives=len(self._objectives),
            seed=named_seed(seed, "sampler", branch.deployment_mode),
        )

    def suggest(self, count: int) -> list[Suggestion]:
        """Choose up to `count` new deployments; none when there is nothing left."""
        return [self._suggestion(key) for key in self._optimizer.ask(count)]

    def observe(self, suggestion: Suggestion, metrics: Mapping[str, float]) -> None:
        """Learn a measured result."""
        values = [positive(metrics[name], maximise=maximise) for name, maximise in self._objectives]
        self._optimizer.tell(suggestion.handle, values)  # type: ignore[arg-type]

    def observe_infeasible(self, suggestion: Suggestion, reason: str) -> None:
        """Learn that there is no result."""
        self._optimizer.tell_infeasible(suggestion.handle)  # type: ignore[arg-type]

    def notes(self) -> list[str]:
        """Say what the user should know of how the search went."""
        dropped = "the first replays contradict the screen, which is dropped"
        return [dropped] if self._optimizer.prior_dropped else []

    def _screened(self, points: Sequence[tuple[Mapping[str, Any], ParallelConfig]]) -> list[list[float]]:
        assert self._screen is not None
        return [self._as_positive(values) for values in self._screen(points)]

    def _as_positive(self, values: list[float] | None) -> list[float]:
        if values is None:
            return [_SMALLEST] * len(self._objectives)
        directions = (maximise for _, maximise in self._objectives)
        return [positive(value, maximise=up) for value, up in zip(values, directions, strict=True)]

    def _suggestion(self, key: PointKey) -> Suggestion:
        point, floats = self._pool.point(key)
        return Suggestion(point.selection | floats, point.parallel_config, handle=key)


def positive(value: float, *, maximise: bool) -> float:
    """Turn a metric into a positive number of which more is better.

    A negative one is a cost with its sign turned (a score of minimised latency): both become the rate 1/cost.
    """
    if maximise and value >= 0.0:
        return value
    return 1.0 / max(abs(value), _SMALLEST)
