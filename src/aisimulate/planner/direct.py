"""The planner that sizes the pools directly (spec 03 section E).

It asks the simulator's own timing what an engine sustains, and scales to what the offered load needs in one
step: the load expected when new replicas are ready, and what has queued up until then. Starting replicas
count as capacity. Replicas are taken away when for some time fewer would have been enough, with a margin.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.planner import reasons
from aisimulate.planner.budget import clamp_one, clamp_pair
from aisimulate.planner.sizing import Needs, Sizing, StartingReplicas, most
from aisimulate.planner.state import PlannerState, Verdict
from aisimulate.planner.tick import Cadence, TickResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.forecast.traffic import TrafficForecaster, Window
    from aisimulate.planner.exact import ExactEngine
    from aisimulate.planner.observations import Observation, Traffic
    from aisimulate.planner.settings import EngineLimits, PlannerSettings
    from aisimulate.planner.state import Counts

_LEAST_HOLD_S = 60.0
_RUE = 5
"""Within so many holds after a replica was taken away, wanting one back means that it was taken too early."""
_MOST_HOLDS = 16
_MOST_STEPS = 500
"""Windows ahead beyond which a forecast says no more than the last of them does."""
_DEFAULT_OSL = 150.0


@dataclass(slots=True)
class _Eye:
    """One view of the load: windows of `interval_s`, and what is expected of those to come."""

    forecast: TrafficForecaster
    interval_s: float
    horizon_s: float
    expected: Window | None = None

    def see(self, traffic: Traffic) -> None:
        """Take in a window, and expect that one in which a replica asked for now will have started."""
        self.forecast.observe(traffic.window)
        steps = max(1, math.ceil(self.horizon_s / self.interval_s - 1e-9))
        steps = min(steps, _MOST_STEPS)
        self.expected = self.forecast.predict(steps)


class DirectPlanner:
    """Decides tick by tick; one forecast per branch in use, `startup_s` the time until a replica is ready."""

    def __init__(
        self,
        settings: PlannerSettings,
        limits: Mapping[str, EngineLimits],
        engines: Mapping[str, ExactEngine],
        forecasts: Mapping[str, TrafficForecaster],
        startup_s: float,
    ) -> None:
        self.cadence = Cadence(settings)
        self._state = PlannerState(settings, limits, {})
        intervals = {"load": settings.load_interval_s, "throughput": settings.throughput_interval_s}
        self._eyes = {
            branch: _Eye(forecast, intervals[branch], intervals[branch] + startup_s)
            for branch, forecast in forecasts.items()
        }
        slowest = max(eye.interval_s for eye in self._eyes.values())
        self._hold_s = self._least_hold_s = max(_LEAST_HOLD_S, 2 * startup_s, 2 * slowest)
        self._shrunk_s: float | None = None
        self._past: deque[tuple[float, Counts]] = deque()
        self._lengths = (0.0, _DEFAULT_OSL)
        self._starting = StartingReplicas(settings.pools, startup_s)
        self._sizing = Sizing(settings, self._state, engines, self._starting, with_queue="load" in self._eyes)
        self._needed_before: Counts = (0,) * len(settings.pools)
        self._unserved = False

    @property
    def branches(self) -> tuple[str, ...]:
        """Which views of the load it has, each with its own windows of traffic."""
        return tuple(self._eyes)

    def tick(self, seen: Observation) -> TickResult:
        """Decide, and go on to the next tick."""
        state, cadence = self._state, self.cadence
        state.see(seen.counts)
        due = {"load": cadence.load_due, "throughput": cadence.throughput_due}
        self._unserved = self._is_unserved(seen)
        for branch, eye in self._eyes.items():
            if due[branch] and (traffic := seen.windows.get(branch)) is not None:
                eye.see(self._completed(traffic))
                state.learn(traffic.kv_hit_rate, traffic.accept_length)
        result = TickResult()
        if any(due[branch] for branch in self._eyes):
            self._decide(seen, result)
        cadence.advance()
        return result

    def _is_unserved(self, seen: Observation) -> bool:
        """Whether requests came to a pool without replicas: no engine tells of them, a forecast may not."""
        came = self._unserved or any(traffic.window.num_req > 0 for traffic in seen.windows.values())
        return came and any(seen.counts[pool].present == 0 for pool in self._state.pools)

    def _completed(self, traffic: Traffic) -> Traffic:
        """Fill in lengths that nobody has seen in this window."""
        isl = traffic.isl if traffic.isl > 0 else self._lengths[0]
        osl = traffic.osl if traffic.osl > 0 else self._lengths[1]
        self._lengths = (isl, osl)
        return traffic.of_lengths(isl, osl)

    # What is needed ---------------------------------------------------------------------------------------

    def _decide(self, seen: Observation, result: TickResult) -> None:
        expected = [(eye, eye.expected) for eye in self._eyes.values() if eye.expected is not None]
        if not expected:
            result.load = Verdict(None, reasons.NO_TRAFFIC)
            return
        needs = Needs.most(
            [
                self._sizing.needs(seen, forecast, eye.interval_s, result.engine_rps)
                for eye, forecast in expected
            ]
        )
        if self._unserved:
            one, none = (1,) * len(self._state.pools), (0,) * len(self._state.pools)
            needs = Needs.most([needs, Needs(one, one, none)])
        result.forecast = max((forecast for _, forecast in expected), key=lambda one: one.num_req * one.isl)
        self._past.append((seen.now_s, most([needs.planned, needs.ample])))
        while self._past[0][0] <= seen.now_s - self._hold_s:
            self._past.popleft()
        self._answer(seen, needs, most([counts for _, counts in self._past]), result)

    # What is done about it --------------------------------------------------------------------------------

    def _answer(self, seen: Observation, needs: Needs, kept: Counts, result: TickResult) -> None:
        """Grow to what is needed; shrink to the most that was needed for a while."""
        current = tuple(seen.counts[pool].present for pool in self._state.pools)
        needed = self._confirmed(needs, current)
        wanted = tuple(
            max(need, min(now, keep)) for need, keep, now in zip(needed, kept, current, strict=True)
        )
        fitted = self._within_budget(wanted)
        targets = self._below_ceiling(seen, current, fitted)
        result.load = Verdict(targets, self._reason(current, needs.planned, wanted, targets))
        result.targets = None if targets == current else targets
        self._learn_patience(seen.now_s, current, targets)
        for pool, now, target in zip(self._state.pools, current, targets, strict=True):
            self._starting.changed(pool, target - now, seen.now_s)

    def _confirmed(self, needs: Needs, current: Counts) -> Counts:
        """Need more for little only when the decision before needed it too: windows are noisy.

        Forecasts of long windows are not waited for.
        """
        before, self._needed_before = self._needed_before, needs.planned
        if "load" not in self._eyes:
            return needs.planned
        rows = zip(needs.least, needs.planned, current, before, strict=True)
        return tuple(
            planned if least > now or earlier > now else min(planned, now)
            for least, planned, now, earlier in rows
        )

    def _learn_patience(self, now_s: float, current: Counts, targets: Counts) -> None:
        """Wait longer from now on, when what was taken away is wanted back soon."""
        if any(target > now for target, now in zip(targets, current, strict=True)):
            if self._shrunk_s is not None and now_s - self._shrunk_s < _RUE * self._hold_s:
                self._hold_s = min(2 * self._hold_s, _MOST_HOLDS * self._least_hold_s)
            self._shrunk_s = None
        elif targets != current:
            self._shrunk_s = now_s

    def _within_budget(self, wanted: Counts) -> Counts:
        band = self._state.band()
        if band is None or band.holds(wanted):
            return wanted
        if len(wanted) == 1:
            return (clamp_one(band, wanted[0]),)
        return clamp_pair(band, (wanted[0], wanted[1]))

    def _below_ceiling(self, seen: Observation, current: Counts, fitted: Counts) -> Counts:
        """Let pools grow only into GPUs that are free now: draining replicas still hold theirs."""
        band = self._state.band()
        if band is None or band.max_gpus < 0:
            return fitted
        counts = [seen.counts[pool] for pool in self._state.pools]
        free = band.max_gpus - band.total(tuple(one.present + one.draining for one in counts))
        for now, fit, gpus, one in zip(current, fitted, band.gpus, counts, strict=True):
            free += gpus * min(one.starting, max(0, now - fit))  # they go at once
        targets = list(fitted)
        for number, (now, fit) in enumerate(zip(current, fitted, strict=True)):
            if fit > now:
                targets[number] = now + max(0, min(fit - now, free // band.gpus[number]))
                free -= (targets[number] - now) * band.gpus[number]
        return tuple(targets)

    def _reason(self, current: Counts, needed: Counts, wanted: Counts, targets: Counts) -> str:
        if any(target < want for target, want in zip(targets, wanted, strict=True)):
            return reasons.BUDGET_CLAMPED
        if any(target > now for target, now in zip(targets, current, strict=True)):
            return reasons.SCALE_UP
        if targets != current:
            return reasons.SCALE_DOWN
        if any(need > now for need, now in zip(needed, current, strict=True)):
            return reasons.UP_WAITS
        return reasons.DOWN_WAITS if needed != current else reasons.NO_CHANGE
