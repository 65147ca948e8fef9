"""Points spread evenly over a branch: a shifted Halton sequence over its dimensions."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from aisimulate.core.seeds import named_seed
from aisimulate.spica.finite_space import FiniteSpace
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.samplers.load_draw import mixed_quantile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.search_space import BranchSpace

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)


class QuasiRandomSampler:
    """Visits every point of a finite space once, evenly from the start on; then the space is exhausted.

    With a continuous range the space never ends, points may come back with another load, and the first two
    suggestions take the ends of every range, as random search does.
    """

    overlaps = True

    def __init__(self, branch: BranchSpace, *, seed: int) -> None:
        self.branch = branch
        self._space = FiniteSpace(branch)
        self._sizes = [len(self._space.placements), *map(len, self._space.digits)]
        rng = random.Random(named_seed(seed, "quasi-random", branch.deployment_mode))
        self._shifts = [rng.random() for _ in (*branch.float_ranges, *self._sizes)]
        self._drawn = 0
        self._seen: set[int] = set()

    def suggest(self, count: int) -> list[Suggestion]:
        """Take up to `count` new points; fewer near the end of a finite space, none after it."""
        if not self.branch.float_ranges:
            count = min(count, self._space.size - len(self._seen))
        return [self._draw() for _ in range(count)]

    def observe(self, suggestion: Suggestion, metrics: Mapping[str, float]) -> None:
        """Nothing to learn."""

    def observe_infeasible(self, suggestion: Suggestion, reason: str) -> None:
        """Nothing to learn."""

    def _draw(self) -> Suggestion:
        self._drawn += 1
        # The first dimensions are the most even ones: the ranges, then the placements.
        shares = [
            (radical_inverse(self._drawn, prime) + shift) % 1.0
            for prime, shift in zip(_PRIMES, self._shifts, strict=False)
        ]
        ranges = self.branch.float_ranges
        floats = {
            name: self._load(share, *bounds)
            for share, (name, bounds) in zip(shares, ranges.items(), strict=False)
        }
        rest = shares[len(ranges) :]
        index = self._space.index_of(
            [int(share * size) for share, size in zip(rest, self._sizes, strict=True)]
        )
        if not ranges:
            index = self._unseen_from(index)
        point = self._space.point_at(index)
        return Suggestion(point.selection | floats, point.parallel_config, handle=index)

    def _unseen_from(self, index: int) -> int:
        while index in self._seen:
            index = (index + 1) % self._space.size
        self._seen.add(index)
        return index

    def _load(self, share: float, low: float, high: float) -> float:
        if self._drawn <= 2:
            return (low, high)[self._drawn - 1]
        return mixed_quantile(share, low, high)


def radical_inverse(number: int, base: int) -> float:
    """Mirror the digits of a number at the point: 6 = 110 in base 2 gives 0.011."""
    digits = max(1, math.ceil(math.log(number + 1, base)) + 1)
    value, weight = 0, 1
    for _ in range(digits):
        number, digit = divmod(number, base)
        value, weight = value * base + digit, weight * base
    return value / weight
