"""What a planner knows while it decides: counts, models, and what it remembers from tick to tick."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisimulate.planner import reasons
from aisimulate.planner.budget import (
    Band,
    clamp_one,
    clamp_pair,
    fit_pair,
    guard_one,
    guard_pair,
)
from aisimulate.planner.settings import OFF

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.planner.budget import Pair
    from aisimulate.planner.model import EngineModel
    from aisimulate.planner.observations import PoolCounts
    from aisimulate.planner.settings import EngineLimits, PlannerSettings

Counts = tuple[int, ...]


@dataclass(slots=True)
class Verdict:
    """What one branch of the planner decides: targets by pool (None: nothing), and why."""

    targets: Counts | None = None
    reason: str | None = None
    by_pool: dict[str, str] = field(default_factory=dict)


class PlannerState:
    """Shared by the branches of one planner. `models` are only there where the target is an SLA."""

    def __init__(
        self,
        settings: PlannerSettings,
        limits: Mapping[str, EngineLimits],
        models: Mapping[str, EngineModel],
    ) -> None:
        self.settings = settings
        self.limits = limits
        self.models = models
        self.pools = settings.pools
        self.ready: Counts = (0,) * len(self.pools)
        self.counts: Mapping[str, PoolCounts] = {}
        self.lower_bounds: Counts = (1,) * len(self.pools)
        self.kv_hit_rate: float | None = None
        self.accept_length = 1.0
        self.floors: Counts = tuple(settings.floor(pool) for pool in self.pools)

    def see(self, counts: Mapping[str, PoolCounts]) -> None:
        """Take note of the replicas there are."""
        self.counts = counts
        self.ready = tuple(counts[pool].ready for pool in self.pools)

    def learn(self, kv_hit_rate: float | None, accept_length: float | None) -> None:
        """Remember the last hit rate of the router and the last tokens per decode forward."""
        if kv_hit_rate is not None and not math.isnan(kv_hit_rate):
            self.kv_hit_rate = kv_hit_rate
        if accept_length is not None and math.isfinite(accept_length):
            self.accept_length = self.clamped_accept_length(accept_length)

    def clamped_accept_length(self, accept_length: float) -> float:
        """Bound tokens per forward by the draft tokens there are."""
        most = max(0, self.limits[self.pools[-1]].nextn) + 1
        return min(max(accept_length, 1.0), float(most))

    # Budget -----------------------------------------------------------------------------------------------

    def band(self, *, with_minimum: bool = True) -> Band | None:
        """The GPU budget of the pools; None when it is not known what a replica costs."""
        gpus = tuple(self.limits[pool].gpus or 0 for pool in self.pools)
        if 0 in gpus:
            return None
        settings = self.settings
        return Band(settings.min_gpus if with_minimum else OFF, settings.max_gpus, gpus, self.floors)

    def guarded(self, proposed: Counts) -> tuple[Counts, str | None]:
        """Fit a proposal into the budget without reversing it; a pair below its floors is put right."""
        band = self.band()
        if band is None or len(proposed) == 1:
            return self._one_guarded(band, proposed)
        if self.below_floor:
            return clamp_pair(band, _pair(self._at_least_floors(proposed))), reasons.BUDGET_RECONCILE
        return guard_pair(band, _pair(self.ready), _pair(proposed))

    def under_ceiling(self, proposed: Counts) -> tuple[Counts, str | None]:
        """Fit a proposal under the maximum alone: what is needed may be less than the minimum."""
        band = self.band(with_minimum=False)
        if band is None or len(proposed) == 1:
            return self._one_guarded(band, proposed)
        if self.below_floor:
            return clamp_pair(band, _pair(self._at_least_floors(proposed))), None
        return fit_pair(band, _pair(self.ready), _pair(proposed)), None

    def _one_guarded(self, band: Band | None, proposed: Counts) -> tuple[Counts, str | None]:
        """Fit one count into a band; without a band everything fits."""
        if band is None:
            return proposed, None
        count, reason = guard_one(band, self.ready[0], proposed[0])
        return (count,), reason

    def clamped(self, counts: Counts) -> Counts:
        """Fit counts into the budget, whichever way."""
        counts, band = self._at_least_floors(counts), self.band()
        if band is None:
            return counts
        return clamp_pair(band, _pair(counts)) if len(counts) > 1 else (clamp_one(band, counts[0]),)

    def _at_least_floors(self, counts: Counts) -> Counts:
        return tuple(map(max, counts, self.floors))

    @property
    def below_floor(self) -> bool:
        """Whether a pool has fewer replicas than it must have."""
        return any(count < floor for count, floor in zip(self.ready, self.floors, strict=True))


def _pair(counts: Counts) -> Pair:
    first, second = counts
    return first, second
