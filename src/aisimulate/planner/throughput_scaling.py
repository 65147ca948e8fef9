"""The branch that sizes the pools for the load that is predicted (spec 03 section B5)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aisimulate.planner import reasons
from aisimulate.planner.model import Shape
from aisimulate.planner.settings import DECODE, PREFILL
from aisimulate.planner.state import Verdict

if TYPE_CHECKING:
    from aisimulate.forecast.traffic import Window
    from aisimulate.planner.state import Counts, PlannerState


def scale_by_forecast(
    state: PlannerState, forecast: Window, window_s: float, rps: dict[str, float]
) -> Verdict:
    """Decide from predicted requests per window; `rps` gets what an engine of each pool sustains.

    Where load scaling decides too, the result is only a lower bound for it.
    """
    if window_s <= 0:
        return Verdict(None, reasons.NO_TRAFFIC)
    demand_rps = forecast.num_req / window_s
    needed = [_needed(state, number, forecast, demand_rps, rps) for number in range(len(state.pools))]
    known = [count for count in needed if count is not None]
    is_ready = len(known) == len(needed)
    wanted = tuple(map(max, _capped(state, tuple(known) if is_ready else state.ready), state.floors))
    fitted, ceiling_reason = state.under_ceiling(wanted)
    if len(state.pools) > 1 and fitted == state.ready and wanted != state.ready:
        ceiling_reason = reasons.BUDGET_HOLD
    by_pool = _pool_reasons(state, needed)
    if state.settings.scales_by_load:
        state.lower_bounds = fitted
        held = ceiling_reason == reasons.BUDGET_HOLD
        bounded = reasons.BUDGET_HOLD if held else reasons.LOWER_BOUND
        reason = bounded if is_ready else reasons.NOT_READY
        return Verdict(None, reason, by_pool or _all(state, reason))
    return _emit(state, fitted, ceiling_reason, by_pool, is_ready=is_ready)


def _emit(
    state: PlannerState,
    fitted: Counts,
    ceiling_reason: str | None,
    by_pool: dict[str, str],
    *,
    is_ready: bool,
) -> Verdict:
    final, budget_reason = state.guarded(fitted)
    if final == state.ready:
        reason = reasons.NOT_READY if not is_ready else budget_reason or ceiling_reason or reasons.NO_CHANGE
        return Verdict(None, reason, by_pool or _all(state, reason))
    reason = reasons.SCALE if is_ready else reasons.NOT_READY
    return Verdict(final, reason, by_pool or _all(state, reason))


def _all(state: PlannerState, reason: str) -> dict[str, str]:
    return dict.fromkeys(state.pools, reason) if len(state.pools) > 1 else {}


def _pool_reasons(state: PlannerState, needed: list[int | None]) -> dict[str, str]:
    """Tell a pool without an estimate from its partner; nothing when both have one."""
    if None not in needed or len(needed) == 1:
        return {}
    return {
        pool: reasons.PARTNER_NOT_READY if count is not None else reasons.NOT_READY
        for pool, count in zip(state.pools, needed, strict=True)
    }


def _needed(
    state: PlannerState, number: int, forecast: Window, demand_rps: float, rps: dict[str, float]
) -> int | None:
    """Replicas that sustain the demand; None when the model cannot tell."""
    pool, settings = state.pools[number], state.settings
    if forecast.isl <= 0 or (pool != PREFILL and forecast.osl <= 0):
        return None
    if pool not in (PREFILL, DECODE) and not state.limits[pool].batched_tokens:
        return None
    shape = Shape(
        math.ceil(forecast.isl),
        max(1, math.ceil(forecast.osl)),
        state.kv_hit_rate if pool != DECODE else None,
        state.accept_length if pool != PREFILL else 1.0,
    )
    capacity = state.models[pool].capacity(
        shape,
        settings.ttft_ms if pool != DECODE else None,
        settings.itl_ms if pool != PREFILL else None,
    )
    if capacity is None or capacity.rps <= 0:
        return None
    rps[pool] = capacity.rps
    return max(math.ceil(demand_rps / capacity.rps), state.floors[number])


def _capped(state: PlannerState, wanted: Counts) -> Counts:
    most = state.settings.most_replicas_per_step
    return tuple(
        min(max(count, max(0, ready - most)), ready + most)
        for count, ready in zip(wanted, state.ready, strict=True)
    )
