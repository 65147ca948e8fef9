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

from aisimulate.planner.budget import clamp_one, clamp_pair
from aisimulate.planner.model import Shape
from aisimulate.planner.settings import DECODE, PREFILL
from aisimulate.planner.state import PlannerState, Verdict
from aisimulate.planner.tick import Cadence, TickResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.core.forward_pass import ForwardPass
    from aisimulate.planner.exact import ExactCapacity, ExactEngine
    from aisimulate.planner.forecasting import LoadForecast
    from aisimulate.planner.observations import Observation, Traffic
    from aisimulate.planner.settings import EngineLimits, PlannerSettings
    from aisimulate.planner.state import Counts
    from aisimulate.planner.throughput_scaling import Forecast

_BUSY = {"throughput": 0.85, "latency": 0.5, "sla": 0.85}
"""Share of its time that an engine may be busy, by target."""
_MARGIN = 1.1
"""How much more load the replicas that remain have to sustain before one is taken away."""
_LEAST_HOLD_S = 60.0
_LEAST_DRAIN_S = 15.0
_RUE = 5
"""Within so many holds after a replica was taken away, wanting one back means that it was taken too early."""
_MOST_HOLDS = 16
_MOST_STEPS = 500
"""Windows ahead beyond which a forecast says no more than the last of them does."""
_DEFAULT_OSL = 150.0


@dataclass(slots=True)
class _Eye:
    """One view of the load: windows of `interval_s`, and what is expected of those to come."""

    forecast: LoadForecast
    interval_s: float
    horizon_s: float
    expected: Forecast | None = None

    def see(self, traffic: Traffic) -> None:
        """Take in a window, and expect that one in which a replica asked for now will have started."""
        self.forecast.observe(traffic)
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
        forecasts: Mapping[str, LoadForecast],
        startup_s: float,
    ) -> None:
        self.cadence = Cadence(settings)
        self._settings = settings
        self._state = PlannerState(settings, limits, {})
        self._engines = engines
        intervals = {"load": settings.load_interval_s, "throughput": settings.throughput_interval_s}
        self._eyes = {
            branch: _Eye(forecast, intervals[branch], intervals[branch] + startup_s)
            for branch, forecast in forecasts.items()
        }
        slowest = max(eye.interval_s for eye in self._eyes.values())
        self._startup_s = startup_s
        self._hold_s = self._least_hold_s = max(_LEAST_HOLD_S, 2 * startup_s, 2 * slowest)
        self._shrunk_s: float | None = None
        self._past: deque[tuple[float, Counts]] = deque()
        self._lengths = (0.0, _DEFAULT_OSL)

    @property
    def branches(self) -> tuple[str, ...]:
        """Which views of the load it has, each with its own windows of traffic."""
        return tuple(self._eyes)

    def tick(self, seen: Observation) -> TickResult:
        """Decide, and go on to the next tick."""
        state, cadence = self._state, self.cadence
        state.see(seen.counts)
        due = {"load": cadence.load_due, "throughput": cadence.throughput_due}
        for branch, eye in self._eyes.items():
            if due[branch] and (traffic := seen.windows.get(branch)) is not None:
                eye.see(self._completed(traffic))
                state.learn(traffic.kv_hit_rate, traffic.accept_length)
        result = TickResult()
        if any(due[branch] for branch in self._eyes):
            self._decide(seen, result)
        cadence.advance()
        return result

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
            result.load = Verdict(None, "no_traffic_data")
            return
        now, after = [], []
        for eye, forecast in expected:
            rate = forecast.requests / eye.interval_s
            now.append(self._needed(seen, forecast, rate, result, with_queue="load" in self._eyes))
            after.append(self._needed(seen, forecast, rate * _MARGIN, result, with_queue=False))
        result.forecast = max((forecast for _, forecast in expected), key=lambda one: one.requests * one.isl)
        needed = _most(now)
        self._past.append((seen.now_s, _most([needed, *after])))
        while self._past[0][0] <= seen.now_s - self._hold_s:
            self._past.popleft()
        self._answer(seen, needed, _most([counts for _, counts in self._past]), result)

    def _needed(
        self, seen: Observation, forecast: Forecast, rate: float, result: TickResult, *, with_queue: bool
    ) -> Counts:
        """Replicas that sustain a rate (requests/s) of the forecast's lengths, and work off the queue."""
        isl, osl = max(1, math.ceil(forecast.isl)), max(1, math.ceil(forecast.osl))
        counts = []
        for number, pool in enumerate(self._state.pools):
            hits = None if pool == DECODE else self._state.kv_hit_rate
            accept = 1.0 if pool == PREFILL else self._state.accept_length
            capacity = self._engines[pool].capacity(Shape(isl, osl, hits, accept), self._itl_ms(pool))
            busy = rate / capacity.rps
            if with_queue:
                busy_now = self._queue_s(seen.passes.get(pool) or [], pool, forecast, capacity)
                busy += self._catching_up(seen, pool, busy, busy_now)
            result.engine_rps[pool] = capacity.rps
            count = math.ceil(busy / self._share(pool, capacity) - 1e-9)
            counts.append(max(count, self._state.floors[number]))
        return tuple(counts)

    def _itl_ms(self, pool: str) -> float | None:
        return self._settings.itl_ms if self._settings.target == "sla" and pool != PREFILL else None

    def _share(self, pool: str, capacity: ExactCapacity) -> float:
        """How busy an engine may be: so much that the mean wait for others still meets the bound on TTFT.

        A queue of equal jobs waits busy / (2 (1 - busy)) of their length on average.
        """
        busy = _BUSY[self._settings.target]
        if self._settings.target != "sla" or pool == DECODE or not capacity.prompt_s:
            return busy
        slack = 2.0 * (self._settings.ttft_ms / 1000.0 - capacity.prompt_s) / capacity.prompt_s
        return min(busy, max(0.25, slack / (1.0 + slack))) if slack > 0 else busy

    def _queue_s(
        self, passes: Sequence[ForwardPass], pool: str, forecast: Forecast, capacity: ExactCapacity
    ) -> float:
        """Engine time of the requests that wait."""
        if pool == DECODE:
            waiting = float(sum(item.num_queued_decode for item in passes))
        else:
            waiting = sum(item.sum_queued_prefill_tokens for item in passes) / max(1.0, forecast.isl)
        return waiting / capacity.rps

    def _catching_up(self, seen: Observation, pool: str, busy: float, queue_s: float) -> float:
        """Engines beside those for new requests, to work off what waits once they are ready.

        Until then the queue grows by what the present replicas cannot do.
        """
        counts = seen.counts[pool]
        grown_s = queue_s + max(0.0, busy - counts.ready) * self._startup_s
        if not counts.ready and not grown_s:
            return 0.0
        spare_s = max(0.0, counts.ready * _BUSY[self._settings.target] - busy) * _LEAST_DRAIN_S
        if grown_s <= spare_s:
            return 0.0
        return grown_s / max(_LEAST_DRAIN_S, self._startup_s)

    # What is done about it --------------------------------------------------------------------------------

    def _answer(self, seen: Observation, needed: Counts, kept: Counts, result: TickResult) -> None:
        """Grow to what is needed; shrink to the most that was needed for a while."""
        current = tuple(seen.counts[pool].present for pool in self._state.pools)
        wanted = tuple(
            max(need, min(now, keep)) for need, keep, now in zip(needed, kept, current, strict=True)
        )
        fitted = self._within_budget(wanted)
        targets = self._below_ceiling(seen, current, fitted)
        result.load = Verdict(targets, self._reason(current, needed, wanted, targets))
        result.targets = None if targets == current else targets
        self._learn_patience(seen.now_s, current, targets)

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
            return "gpu_budget_clamped"
        if any(target > now for target, now in zip(targets, current, strict=True)):
            return "scale_up"
        if targets != current:
            return "scale_down"
        return "scale_down_waits" if needed != current else "no_change"


def _most(counts: list[Counts]) -> Counts:
    return tuple(max(column) for column in zip(*counts, strict=True))
