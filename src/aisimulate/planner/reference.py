"""The planner that decides as the reference does (spec 03 sections B2 to B8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.planner import reasons
from aisimulate.planner.load_scaling import scale_by_load
from aisimulate.planner.state import PlannerState, Verdict
from aisimulate.planner.throughput_scaling import scale_by_forecast
from aisimulate.planner.tick import Cadence, TickResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.forecast.traffic import TrafficForecaster
    from aisimulate.planner.model import EngineModel
    from aisimulate.planner.observations import Observation
    from aisimulate.planner.settings import EngineLimits, PlannerSettings
    from aisimulate.planner.state import Counts


class ReferencePlanner:
    """Decides tick by tick. `models` by pool where the target is an SLA; `forecast` where it is predicted."""

    def __init__(
        self,
        settings: PlannerSettings,
        limits: Mapping[str, EngineLimits],
        models: Mapping[str, EngineModel] | None = None,
        forecast: TrafficForecaster | None = None,
    ) -> None:
        self.cadence = Cadence(settings)
        self._settings = settings
        self._state = PlannerState(settings, limits, models or {})
        self._forecast = forecast

    def tick(self, seen: Observation) -> TickResult:
        """Decide, and go on to the next tick."""
        cadence, state, settings = self.cadence, self._state, self._settings
        load_due, throughput_due = cadence.load_due, cadence.throughput_due
        state.see(seen.counts)
        if load_due and not settings.is_easy:
            for pool in state.pools:
                if seen.passes.get(pool):
                    state.models[pool].observe(seen.passes[pool])
        result = TickResult()
        if throughput_due:
            self._predict(seen, result)
        if load_due and settings.scales_by_load:
            self._react(seen, result)
        elif load_due:
            result.load = Verdict(None, reasons.DISABLED)
        result.targets = self._final(result)
        cadence.advance()
        return result

    def _predict(self, seen: Observation, result: TickResult) -> None:
        state, traffic = self._state, seen.traffic
        if traffic is None or self._forecast is None:
            result.throughput = Verdict(None, reasons.NO_TRAFFIC)
            return
        self._forecast.observe(traffic.window)
        state.learn(traffic.kv_hit_rate, traffic.accept_length)
        result.forecast = self._forecast.predict()
        result.throughput = scale_by_forecast(state, result.forecast, traffic.duration_s, result.engine_rps)

    def _react(self, seen: Observation, result: TickResult) -> None:
        settings, traffic = self._settings, seen.traffic
        if traffic is not None and not settings.is_easy and not settings.scales_by_throughput:
            self._state.learn(traffic.kv_hit_rate, traffic.accept_length)
        result.load = scale_by_load(self._state, seen.passes)

    def _final(self, result: TickResult) -> Counts | None:
        """Merge the branches, keep floors and budget; None when nothing changes."""
        state = self._state
        targets = result.load.targets or result.throughput.targets or state.ready
        settled = not any(counts.is_scaling for counts in state.counts.values())
        band = state.band()
        out_of_band = settled and band is not None and not band.holds(state.ready)
        if settled:
            targets = tuple(
                max(target, floor) if ready < floor else target
                for target, ready, floor in zip(targets, state.ready, state.floors, strict=True)
            )
        if targets == state.ready and not out_of_band:
            return None
        final = state.clamped(targets)
        return None if final == state.ready else final
