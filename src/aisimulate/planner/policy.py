"""A planner in the loop of a replay: from its snapshots to observations, and from decisions to targets.

It keeps what the planner itself does not: targets that are still being reached, the last pass of each rank,
the traffic since it was last used, and a record of every tick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from aisimulate.core.forward_pass import ForwardPass
from aisimulate.planner.observations import Observation, PassCache, PoolCounts, TrafficWindow
from aisimulate.planner.settings import AGG, DECODE, PREFILL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.forecast.traffic import Window
    from aisimulate.planner.observations import Traffic
    from aisimulate.planner.state import Counts
    from aisimulate.planner.tick import Cadence, TickResult

Snapshot = dict[str, Any]

_SIDE = {AGG: DECODE, PREFILL: PREFILL, DECODE: DECODE}


class Planner(Protocol):
    """Decides tick by tick."""

    cadence: Cadence

    def tick(self, seen: Observation) -> TickResult: ...  # noqa: D102


class PlannerPolicy:
    """Asks a planner. `records`: what it saw, expected and did, and why, tick by tick; `last`: the result."""

    def __init__(self, planner: Planner, pools: tuple[str, ...]) -> None:
        self._planner = planner
        self._pools = pools
        self._caches = {pool: PassCache() for pool in pools}
        self._window = TrafficWindow()
        self._windows = {branch: TrafficWindow() for branch in getattr(planner, "branches", ())}
        self._asked: dict[str, int] = {}  # targets that were not reached yet
        self.records: list[dict[str, Any]] = []
        self.last: TickResult | None = None

    def initial_tick_ms(self) -> float:
        """When the first tick is due."""
        return self._planner.cadence.at_s * 1000.0

    def on_tick(self, snapshot: Snapshot) -> Mapping[str, Any]:
        """Decide, and name the next tick."""
        seen = self._observe(snapshot)
        result = self.last = self._planner.tick(seen)
        current = tuple(_non_draining(snapshot, pool) for pool in self._pools)
        for pool, count in zip(self._pools, current, strict=True):
            if self._asked.get(pool) == count:
                del self._asked[pool]
        targets = result.targets if result.targets != current else None
        if targets is not None:
            changes = zip(self._pools, targets, current, strict=True)
            self._asked |= {pool: target for pool, target, count in changes if target != count}
        self._record(snapshot, seen, result, current, targets)
        by_side = dict(zip(map(_SIDE.__getitem__, self._pools), targets or (), strict=False))
        return {
            "target_prefill": by_side.get(PREFILL),
            "target_decode": by_side.get(DECODE),
            "next_tick_ms": self._planner.cadence.at_s * 1000.0,
        }

    def _observe(self, snapshot: Snapshot) -> Observation:
        cadence = self._planner.cadence
        for window in (self._window, *self._windows.values()):
            window.add(snapshot["traffic"])
        counts, passes = {}, {}
        for pool in self._pools:
            side = _SIDE[pool]
            now = _non_draining(snapshot, pool)
            asked = self._asked.get(pool)
            expected = now if asked is None else asked
            counts[pool] = PoolCounts(
                snapshot[f"active_{side}_count"],
                expected,
                expected != now,
                snapshot[f"starting_{side}_count"],
                snapshot[f"draining_{side}_count"],
            )
            items = (ForwardPass(**item) for item in snapshot[f"{side}_fpm_snapshots"])
            self._caches[pool].update(items, snapshot[f"active_{side}_ids"])
            passes[pool] = self._caches[pool].passes()
        traffic = self._window.take() if cadence.uses_traffic else None
        return Observation(cadence.at_s, counts, passes, traffic, self._take_windows())

    def _take_windows(self) -> dict[str, Traffic]:
        """Close the windows of the branches that are due."""
        cadence = self._planner.cadence
        due = {"load": cadence.load_due, "throughput": cadence.throughput_due}
        taken = {branch: window.take(offered=True) for branch, window in self._windows.items() if due[branch]}
        return {branch: traffic for branch, traffic in taken.items() if traffic is not None}

    def _record(
        self,
        snapshot: Snapshot,
        seen: Observation,
        result: TickResult,
        current: Counts,
        targets: Counts | None,
    ) -> None:
        traffic = snapshot["traffic"]
        self.records.append(
            {
                "tick_ordinal": snapshot["tick_ordinal"],
                "at_ms": snapshot["now_ms"],
                "observed": {
                    "ready": {pool: seen.counts[pool].ready for pool in self._pools},
                    "non_draining": dict(zip(self._pools, current, strict=True)),
                    "requests": traffic["num_req"],
                    "queued_prefill_tokens": sum(
                        item.sum_queued_prefill_tokens for items in seen.passes.values() for item in items
                    ),
                },
                "forecast": _told(result.forecast),
                "engine_rps": dict(result.engine_rps),
                "proposed": _named(self._pools, result.load.targets or result.throughput.targets),
                "applied": _named(self._pools, targets),
                "reason": result.reason,
                "load_reason": result.load.reason,
                "throughput_reason": result.throughput.reason,
            }
        )


def _told(forecast: Window | None) -> dict[str, float] | None:
    if forecast is None:
        return None
    return {"requests": forecast.num_req, "isl": forecast.isl, "osl": forecast.osl}


def _non_draining(snapshot: Snapshot, pool: str) -> int:
    count: int = snapshot[f"non_draining_{_SIDE[pool]}_count"]
    return count


def _named(pools: tuple[str, ...], counts: Counts | None) -> dict[str, int] | None:
    return None if counts is None else dict(zip(pools, counts, strict=True))
