"""The branch that reacts to the load it sees (spec 03 sections B3, B4 and B6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.planner import reasons
from aisimulate.planner.easy import easy_target
from aisimulate.planner.settings import AGG
from aisimulate.planner.sla_load import sla_agg_target, sla_target
from aisimulate.planner.state import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.core.forward_pass import ForwardPass
    from aisimulate.planner.state import PlannerState


_WEIGHT = {reasons.SCALE_UP: 4, reasons.CAPPED_DOWN: 3, reasons.SCALE_DOWN: 2, reasons.NO_CHANGE: 1}


def scale_by_load(state: PlannerState, passes: Mapping[str, Sequence[ForwardPass]]) -> Verdict:
    """Decide from the last forward passes of all ranks."""
    blocked = _blocked(state, passes)
    if blocked is not None:
        by_pool = dict.fromkeys(state.pools, blocked) if len(state.pools) > 1 else {}
        return Verdict(None, blocked, by_pool)
    if state.pools != (AGG,):
        return _scale_pair(state, passes)
    return _scale_easy(state, passes[AGG]) if state.settings.is_easy else _scale_agg(state, passes[AGG])


def _blocked(state: PlannerState, passes: Mapping[str, Sequence[ForwardPass]]) -> str | None:
    """Why nothing can be decided: no data, an earlier decision under way, or ranks that were not seen."""
    if not any(passes.get(pool) for pool in state.pools):
        return reasons.NO_PASSES
    if any(state.counts[pool].is_scaling for pool in state.pools):
        return reasons.IN_PROGRESS
    for pool, ready in zip(state.pools, state.ready, strict=True):
        if passes.get(pool) and not _covers(passes[pool], ready):
            return reasons.NOT_COVERED
    return None


def _covers(passes: Sequence[ForwardPass], ready: int) -> bool:
    """Whether all workers were seen, each with the same number of ranks."""
    ranks: dict[int, set[int]] = {}
    for item in passes:
        ranks.setdefault(item.worker_id, set()).add(item.dp_rank)
    return len(ranks) == ready and len({len(seen) for seen in ranks.values()}) <= 1


# One pool -------------------------------------------------------------------------------------------------


def _scale_easy(state: PlannerState, passes: Sequence[ForwardPass]) -> Verdict:
    ready = state.ready[0]
    target, reason = easy_target(state.settings, state.limits[AGG], AGG, passes, ready)
    if target is None:
        return Verdict(None, reason)
    (final,), budget_reason = state.guarded((max(target, state.floors[0]),))
    if final < ready:
        reason = reasons.CAPPED_DOWN if final > target else reasons.SCALE_DOWN
    else:
        reason = reasons.SCALE_UP if final > ready else reasons.NO_CHANGE
    return Verdict((final,), budget_reason or reason)


def _scale_agg(state: PlannerState, passes: Sequence[ForwardPass]) -> Verdict:
    ready = state.ready[0]
    if not state.models[AGG].ready:
        return Verdict(None, reasons.NO_SIGNAL)
    asked, refused = sla_agg_target(state, passes)
    wanted = max(asked, state.floors[0])
    if state.settings.scales_by_throughput:
        wanted = max(wanted, state.lower_bounds[0])
    (final,), budget_reason = state.guarded((wanted,))
    capped = asked < ready and final > asked
    if final == ready:
        reason = reasons.CAPPED_DOWN if capped else reasons.REFUSED_DOWN if refused else reasons.NO_CHANGE
        return Verdict(None, budget_reason or reason)
    reason = reasons.SCALE_UP if final > ready else reasons.CAPPED_DOWN if capped else reasons.SCALE_DOWN
    return Verdict((final,), budget_reason or reason)


# Two pools ------------------------------------------------------------------------------------------------


def _scale_pair(state: PlannerState, passes: Mapping[str, Sequence[ForwardPass]]) -> Verdict:
    asked: list[int] = []
    causes: list[str | None] = []
    for number, pool in enumerate(state.pools):
        target, cause = _target(state, number, passes.get(pool) or [])
        asked.append(state.ready[number] if target is None else target)
        causes.append(cause)
    lifted = asked[:]
    if state.settings.scales_by_throughput:
        lifted = [max(pair) for pair in zip(asked, state.lower_bounds, strict=True)]
    wanted = tuple(map(max, lifted, state.floors))
    if lifted != asked:
        wanted, _ = state.under_ceiling(wanted)
    final, budget_reason = state.guarded(wanted)
    rows = zip(final, asked, lifted, state.ready, strict=True)
    by_pool = [_pool_reason(*row) for row in rows]
    reason = max(by_pool, key=lambda name: _WEIGHT[name])
    if final != state.ready:
        return Verdict(final, budget_reason or reason, dict(zip(state.pools, by_pool, strict=True)))
    telling = [cause if cause not in (None, reasons.NO_CHANGE) else None for cause in causes]
    named = {pool: cause or stated for pool, cause, stated in zip(state.pools, telling, by_pool, strict=True)}
    first = next((cause for cause in telling if cause), None)
    return Verdict(None, budget_reason or first or reason, named)


def _target(state: PlannerState, number: int, passes: Sequence[ForwardPass]) -> tuple[int | None, str | None]:
    if not passes:
        return None, None
    if not state.settings.is_easy:
        return sla_target(state, number, passes)
    pool = state.pools[number]
    return easy_target(state.settings, state.limits[pool], pool, passes, state.ready[number])


def _pool_reason(final: int, asked: int, lifted: int, ready: int) -> str:
    capped = lifted > asked and asked < ready
    if final > ready:
        return reasons.SCALE_UP
    if capped:
        return reasons.CAPPED_DOWN
    return reasons.SCALE_DOWN if final < ready else reasons.NO_CHANGE
