"""Scaling by fixed thresholds, one replica at a time (spec 03 section B4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisimulate.planner import reasons
from aisimulate.planner.settings import AGG, PREFILL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.forward_pass import ForwardPass
    from aisimulate.planner.settings import EngineLimits, PlannerSettings


class _Bounds(NamedTuple):
    """Grow above (or at) `up`, shrink below (or at) `down`."""

    up: float
    down: float
    at_up: bool
    at_down: bool

    def grows(self, value: float) -> bool:
        return value >= self.up if self.at_up else value > self.up

    def shrinks(self, value: float) -> bool:
        return value <= self.down if self.at_down else value < self.down


_PREFILL = {
    "throughput": _Bounds(1.0, 0.1, at_up=True, at_down=False),
    "latency": _Bounds(0.1, 0.0, at_up=True, at_down=True),
}
_DECODE = {
    "throughput": _Bounds(1.0, 0.6, at_up=False, at_down=False),
    "latency": _Bounds(0.4, 0.1, at_up=False, at_down=False),
}


def easy_target(
    settings: PlannerSettings,
    limits: EngineLimits,
    pool: str,
    passes: Sequence[ForwardPass],
    ready: int,
) -> tuple[int | None, str | None]:
    """Choose the replicas of a pool; None with the reason when it stays as it is.

    It grows when any rank is above its bound, and shrinks when all are below theirs and what is taken away
    would not push the others over the upper one.
    """
    bounds = _bounds(settings, pool)
    unit = _unit(settings, limits, pool)
    if bounds is None or not unit or not ready or not passes:
        return None, reasons.NO_SIGNAL
    values = [_load(item, pool) / unit for item in passes]
    if any(map(bounds.grows, values)):
        return ready + 1, None
    if ready > 1 and all(map(bounds.shrinks, values)):
        return _consolidated(max(ready - 1, settings.floor(pool)), ready, max(values), bounds.up), None
    return None, reasons.NO_CHANGE


def _consolidated(target: int, ready: int, busiest: float, up: float) -> int:
    if 0 < target < ready and busiest * ready / target >= up:
        return ready
    return target


def _bounds(settings: PlannerSettings, pool: str) -> _Bounds | None:
    if settings.target != "load":
        return (_PREFILL if pool == PREFILL else _DECODE)[settings.target]
    given = settings.thresholds
    if pool == PREFILL:
        up, down, scale = given.prefill_up_tokens, given.prefill_down_tokens, 1.0
    else:
        up, down, scale = given.decode_up_percent, given.decode_down_percent, 100.0
    if up is None or down is None:
        return None
    return _Bounds(up / scale, down / scale, at_up=True, at_down=True)


def _unit(settings: PlannerSettings, limits: EngineLimits, pool: str) -> float:
    """What the load of a rank is measured in; 0 when it is not known."""
    if pool != PREFILL:
        return limits.kv_tokens or 0
    return 1.0 if settings.target == "load" else limits.context_tokens or 0


def _load(item: ForwardPass, pool: str) -> int:
    """Tokens of a rank: those in its queue, or those it holds or will hold KV for."""
    if pool == PREFILL:
        return item.sum_queued_prefill_tokens
    tokens = item.sum_decode_kv_tokens + item.sum_queued_decode_kv_tokens
    return tokens + item.sum_queued_prefill_tokens if pool == AGG else tokens
