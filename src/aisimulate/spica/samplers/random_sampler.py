"""Seeded random search: without replacement over the finite knobs, free draws over continuous ranges."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from aisimulate.core.seeds import named_seed
from aisimulate.spica.finite_space import FiniteSpace
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.samplers.load_draw import LOG_FLOOR_SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.search_space import BranchSpace


class RandomSampler:
    """Draws every point of the finite space once, in a seeded order; then the space is exhausted.

    With a continuous range the space never ends: finite knobs are then drawn with replacement, the first
    two draws take the ends of every range, and the rest are half uniform, half log-uniform, because the
    interesting low loads fill only a few per cent of a linear range (06 section 6).
    """

    overlaps = True

    def __init__(self, branch: BranchSpace, *, seed: int) -> None:
        self.branch = branch
        self._space = FiniteSpace(branch)
        self._rng = random.Random(named_seed(seed, "sampler", branch.deployment_mode))
        self._drawn = 0
        self._moved: dict[int, int] = {}

    def suggest(self, count: int) -> list[Suggestion]:
        """Draw up to `count` new points; fewer near the end of a finite space, none after it."""
        if not self.branch.float_ranges:
            count = min(count, self._space.size - self._drawn)
        return [self._draw() for _ in range(count)]

    def observe(self, suggestion: Suggestion, metrics: Mapping[str, float]) -> None:
        """Nothing to learn."""

    def observe_infeasible(self, suggestion: Suggestion, reason: str) -> None:
        """Nothing to learn."""

    def _draw(self) -> Suggestion:
        ranges = self.branch.float_ranges
        index = self._rng.randrange(self._space.size) if ranges else self._next_index()
        point = self._space.point_at(index)
        floats = {name: self._draw_float(*bounds) for name, bounds in ranges.items()}
        self._drawn += 1
        return Suggestion(point.selection | floats, point.parallel_config, handle=index)

    def _next_index(self) -> int:
        """Take the next step of a Fisher-Yates shuffle of all indices, storing only displaced ones."""
        pick = self._rng.randrange(self._drawn, self._space.size)
        index = self._moved.pop(pick, pick)
        if pick != self._drawn:
            self._moved[pick] = self._moved.pop(self._drawn, self._drawn)
        return index

    def _draw_float(self, low: float, high: float) -> float:
        if self._drawn < 2:
            return (low, high)[self._drawn]
        floor = max(low, high * LOG_FLOOR_SHARE)
        if floor <= 0.0 or self._rng.random() < 0.5:
            return self._rng.uniform(low, high)
        drawn = math.exp(self._rng.uniform(math.log(floor), math.log(high)))
        return min(max(drawn, low), high)
