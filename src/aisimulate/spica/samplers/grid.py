"""Exhaustive search of a finite space, in the order of its knobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.spica.finite_space import FiniteSpace
from aisimulate.spica.samplers.base import Suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.search_space import BranchSpace


class GridSampler:
    """Visits every point once, first to last.

    Raises:
        InputError: the branch has a continuous range, which no grid can exhaust.
    """

    overlaps = True

    def __init__(self, branch: BranchSpace) -> None:
        refuse_ranges(branch)
        self.branch = branch
        self._space = FiniteSpace(branch)
        self._next = 0

    def suggest(self, count: int) -> list[Suggestion]:
        """Return the next `count` points; fewer at the end, none after it."""
        stop = min(self._next + count, self._space.size)
        indices = range(self._next, stop)
        self._next = stop
        points = [(index, self._space.point_at(index)) for index in indices]
        return [Suggestion(point.selection, point.parallel_config, handle=index) for index, point in points]

    def observe(self, suggestion: Suggestion, metrics: Mapping[str, float]) -> None:
        """Nothing to learn."""

    def observe_infeasible(self, suggestion: Suggestion, reason: str) -> None:
        """Nothing to learn."""


def refuse_ranges(branch: BranchSpace, sampler: str = "grid") -> None:
    """Raise InputError if the branch has a continuous range."""
    for name, (low, high) in branch.float_ranges.items():
        raise InputError(
            f"sweep.sampler: {sampler} needs a finite space, but workload.{name} is the range "
            f"[{low}, {high}]; give one value, or use sampler random"
        )
