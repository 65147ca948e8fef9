"""How a target is chosen among those with their costs (spec 03 section A5).

At temperature 0 the lowest cost wins. Equal costs go to the target with the fewest active blocks, then to the
first in the order of (worker, rank), or to one of them drawn at random. The reference draws without a seed.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.rng import ChaChaRng


class Choice(Protocol):
    """Picks the index of one of `targets`, whose costs are in order; `active_blocks` are by target."""

    def pick(  # noqa: D102
        self, costs: Sequence[float], targets: Sequence[int], active_blocks: Sequence[float]
    ) -> int: ...


class LowestCost:
    """The lowest cost, and of equal ones the target with the fewest active blocks, then the first."""

    def pick(self, costs: Sequence[float], targets: Sequence[int], active_blocks: Sequence[float]) -> int:
        """Pick a target."""
        lowest = min(costs)
        index = costs.index(lowest)
        if costs.count(lowest) == 1:
            return index
        ties = [place for place, cost in enumerate(costs) if cost == lowest]
        return min(ties, key=lambda place: active_blocks[targets[place]])


class RandomTie:
    """The lowest cost, and one of equal ones at random."""

    def __init__(self, rng: ChaChaRng) -> None:
        self._rng = rng

    def pick(self, costs: Sequence[float], targets: Sequence[int], active_blocks: Sequence[float]) -> int:
        """Pick a target."""
        del targets, active_blocks
        lowest = min(costs)
        ties = [place for place, cost in enumerate(costs) if cost == lowest]
        return ties[0] if len(ties) == 1 else ties[self._rng.below(len(ties))]


class Softmax:
    """A draw by costs, whose whole range counts as one: p ~ exp(-(cost - min) / ((max - min) * T))."""

    def __init__(self, temperature: float, rng: ChaChaRng) -> None:
        self._temperature = temperature
        self._rng = rng

    def pick(self, costs: Sequence[float], targets: Sequence[int], active_blocks: Sequence[float]) -> int:
        """Pick a target."""
        del targets, active_blocks
        if len(costs) == 1:
            return 0
        lowest = min(costs)
        scale = (max(costs) - lowest) * self._temperature
        weights = [exp((lowest - cost) / scale) for cost in costs] if scale > 0 else [1.0] * len(costs)
        left = self._rng.f64() * sum(weights)
        for index, weight in enumerate(weights):
            left -= weight
            if left <= 0:
                return index
        return len(weights) - 1
