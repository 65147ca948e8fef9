"""Scaling by the latency that the next request will see (spec 03 section B6).

A pool grows when no replica can meet its bound any more. It shrinks when after that every replica still
would, with a margin: the load of the one taken away falls on the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.planner import reasons
from aisimulate.planner.settings import AGG, PREFILL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.forward_pass import ForwardPass
    from aisimulate.planner.model import EngineModel
    from aisimulate.planner.state import PlannerState


class _Ballot:
    """Collects what the ranks of a pool say; `is_safe`: nobody objects to a replica less."""

    def __init__(self, ready: int) -> None:
        self.estimates_ms: list[float] = []
        self.is_safe = ready > 1
        self.is_refused = False

    def object(self, *, unsafe: bool) -> None:
        """Keep the replicas: it would be `unsafe` to do with less, or it cannot be told."""
        self.is_safe = False
        self.is_refused = self.is_refused or unsafe

    def target(self, bound_ms: float, ready: int, floor: int) -> tuple[int | None, str | None]:
        """Choose the replicas; None with the reason when they stay."""
        if not self.estimates_ms:
            return None, reasons.REFUSED_DOWN if self.is_refused else reasons.NO_SIGNAL
        if all(estimate > bound_ms for estimate in self.estimates_ms):
            return ready + 1, None
        if self.is_safe:
            return max(ready - 1, floor), None
        return None, reasons.REFUSED_DOWN if self.is_refused else reasons.NO_CHANGE


def sla_target(
    state: PlannerState, number: int, passes: Sequence[ForwardPass]
) -> tuple[int | None, str | None]:
    """Choose the replicas of a prefill or decode pool; None with the reason when it stays as it is."""
    pool, ready = state.pools[number], state.ready[number]
    model = state.models[pool]
    if not model.ready or not ready:
        return None, reasons.NO_SIGNAL
    if pool == PREFILL:
        if not state.limits[pool].batched_tokens:
            return None, reasons.NO_SIGNAL
        ballot = _prefill_ballot(state, model, ready, passes)
        return ballot.target(state.settings.ttft_ms, ready, state.floors[number])
    ballot = _decode_ballot(state, model, ready, passes, mixed=False)
    return ballot.target(state.settings.itl_ms, ready, state.floors[number])


def sla_agg_target(state: PlannerState, passes: Sequence[ForwardPass]) -> tuple[int, bool]:
    """Choose the replicas of an aggregated pool; also whether it was refused to shrink it.

    It grows when prompts or tokens ask for it, and shrinks when both agree.
    """
    ready, floor, model = state.ready[0], state.floors[0], state.models[AGG]
    first, first_refused = None, False
    if state.limits[AGG].batched_tokens:
        ballot = _mixed_prefill_ballot(state, model, ready, passes)
        first, first_refused = _or_stay(ballot.target(state.settings.ttft_ms, ready, floor), ready)
    ballot = _decode_ballot(state, model, ready, passes, mixed=True)
    second, second_refused = _or_stay(ballot.target(state.settings.itl_ms, ready, floor), ready)
    return _combined(first, second, ready), first_refused or second_refused


def _or_stay(found: tuple[int | None, str | None], ready: int) -> tuple[int | None, bool]:
    target, reason = found
    return (ready, True) if reason == reasons.REFUSED_DOWN else (target, False)


def _combined(first: int | None, second: int | None, ready: int) -> int:
    for target in (first, second):
        if target is not None and target > ready:
            return target
    if second is not None and second < ready:
        if first is None:
            return second  # nobody speaks for the prompts
        if first < ready:
            return max(first, second)
    return ready


def _prefill_ballot(
    state: PlannerState, model: EngineModel, ready: int, passes: Sequence[ForwardPass]
) -> _Ballot:
    ballot, hits = _Ballot(ready), state.kv_hit_rate
    for item in passes:
        wait_s = model.queue_s(item, hits)
        if wait_s is not None:
            ballot.estimates_ms.append(wait_s * 1000)
        if ballot.is_safe:
            own_s = model.queue_s(item, hits, queue_scale=0.0)
            budget_ms = _queue_budget_ms(state, own_s)
            if own_s is None or budget_ms is None or budget_ms <= 0:
                ballot.object(unsafe=own_s is not None)
                continue
            after_s = model.queue_s(item, hits, queue_scale=_grown(ready))
            _weigh_queue(ballot, own_s, after_s, budget_ms)
    return ballot


def _mixed_prefill_ballot(
    state: PlannerState, model: EngineModel, ready: int, passes: Sequence[ForwardPass]
) -> _Ballot:
    ballot, hits, scale = _Ballot(ready), state.kv_hit_rate, _grown(ready)
    for item in passes:
        wait_s = model.queue_s(item, hits)
        if wait_s is not None:
            ballot.estimates_ms.append(wait_s * 1000)
        if ballot.is_safe:
            own_s, after_s = (
                model.queue_s(item, hits, queue_scale=queued, decode_scale=scale, with_queued_decodes=True)
                for queued in (0.0, scale)
            )
            budget_ms = _queue_budget_ms(state, own_s)
            if own_s is None or after_s is None or budget_ms is None:
                ballot.object(unsafe=False)
            elif budget_ms <= 0:
                ballot.object(unsafe=True)
            else:
                _weigh_queue(ballot, own_s, after_s, budget_ms)
    return ballot


def _queue_budget_ms(state: PlannerState, own_s: float | None) -> float | None:
    """How long a request may wait for others: its own prompt takes the same time on any replica."""
    if own_s is None:
        return None
    return (state.settings.ttft_ms - own_s * 1000) * state.settings.sensitivity


def _weigh_queue(ballot: _Ballot, own_s: float, after_s: float | None, budget_ms: float) -> None:
    if after_s is None:
        ballot.object(unsafe=False)
    elif after_s * 1000 - own_s * 1000 >= budget_ms:
        ballot.object(unsafe=True)


def _decode_ballot(
    state: PlannerState, model: EngineModel, ready: int, passes: Sequence[ForwardPass], *, mixed: bool
) -> _Ballot:
    ballot, scale, accept = _Ballot(ready), _grown(ready), state.accept_length
    capacity = state.limits[state.pools[-1]].kv_tokens
    for item in passes:
        gap_s = model.itl_s(item)
        if gap_s is not None:
            ballot.estimates_ms.append(gap_s * 1000 / accept)
        if not ballot.is_safe:
            continue
        tokens = item.sum_decode_kv_tokens + item.sum_queued_decode_kv_tokens
        tokens += item.sum_queued_prefill_tokens if mixed else 0
        if capacity and int(tokens * scale) >= capacity:
            ballot.object(unsafe=True)
            continue
        after_s = model.itl_s(item, decode_scale=scale, with_queued_prefills=mixed)
        if after_s is None:
            ballot.object(unsafe=False)
        elif after_s * 1000 / accept >= state.settings.itl_ms * state.settings.sensitivity:
            ballot.object(unsafe=True)
    return ballot


def _grown(ready: int) -> float:
    """How much more falls on each of the others when one replica goes."""
    return ready / (ready - 1) if ready > 1 else 1.0
