"""The contract between a replay and what decides how many workers its pools have (spec 02 section 6).

A policy is asked at instants that it names itself. It sees a snapshot of the fleet and answers with the
number of workers that each pool should have, those that are starting included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from aisimulate.core.errors import InputError
from aisimulate.core.limits import MAX_WORKERS
from aisimulate.core.shown import show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Snapshot = dict[str, Any]
"""What a policy sees; JSON values only.

`tick_ordinal`, `now_ms`; `{active,starting,draining}_{prefill,decode}_{count,ids}`, and the counts that are
`non_draining` and `total`; `{prefill,decode}_fpm_snapshots`: the latest forward pass of each rank since the
tick before; `traffic`: what arrived and completed since then. An aggregated pool is the decode pool.
"""

_KEYS = ("target_prefill", "target_decode", "next_tick_ms")


class ScalingPolicy(Protocol):
    """Decides how many workers there should be. It must be deterministic, and keeps no clock of its own."""

    def initial_tick_ms(self) -> float:
        """When to ask first; an infinite value means never."""
        ...

    def on_tick(self, snapshot: Snapshot) -> Mapping[str, Any]:
        """Answer with `target_prefill`, `target_decode` (None: unchanged) and `next_tick_ms` (None: stop)."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """The checked answer of a policy; with `abrupt`, workers that go lose their requests."""

    target_prefill: int | None
    target_decode: int | None
    next_tick_ms: float | None
    abrupt: bool = False

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Decision:
        """Check an answer. Raises InputError (one line) for a missing key or a value that is none."""
        missing = [key for key in _KEYS if key not in answer]
        if missing:
            raise InputError(f"scaling policy: {missing[0]}: missing (None means unchanged)")
        next_tick_ms = answer["next_tick_ms"]
        if next_tick_ms is not None and not isinstance(next_tick_ms, int | float):
            raise InputError(f"scaling policy: next_tick_ms: {show(next_tick_ms)} is not a number")
        targets = _target("target_prefill", answer), _target("target_decode", answer)
        return cls(*targets, _finite(next_tick_ms), bool(answer.get("abrupt")))


def _target(key: str, answer: Mapping[str, Any]) -> int | None:
    target = answer[key]
    if target is None:
        return None
    if isinstance(target, bool) or not isinstance(target, int) or not 0 <= target <= MAX_WORKERS:
        raise InputError(f"scaling policy: {key}: {show(target)} is not a whole number of workers >= 0")
    return target


def _finite(next_tick_ms: float | None) -> float | None:
    if next_tick_ms is None or not math.isfinite(next_tick_ms):
        return None
    return float(next_tick_ms)


class ScriptedPolicy:
    """Follows a plan: at each tick the next of `decisions`, then none; ticks go on every `step_ms`.

    A decision is a mapping with `target_prefill`, `target_decode`, both or neither, and `abrupt` where
    workers that go lose their requests.
    """

    def __init__(self, first_tick_ms: float, step_ms: float, decisions: Sequence[Mapping[str, int]]) -> None:
        self._first_tick_ms = first_tick_ms
        self._step_ms = step_ms
        self._decisions = decisions
        self.snapshots: list[Snapshot] = []

    def initial_tick_ms(self) -> float:
        """When the first decision is due."""
        return self._first_tick_ms

    def on_tick(self, snapshot: Snapshot) -> Mapping[str, Any]:
        """Give the next decision."""
        number = len(self.snapshots)
        self.snapshots.append(snapshot)
        decision = self._decisions[number] if number < len(self._decisions) else {}
        return {
            "target_prefill": decision.get("target_prefill"),
            "target_decode": decision.get("target_decode"),
            "next_tick_ms": snapshot["now_ms"] + self._step_ms,
            "abrupt": decision.get("abrupt", False),
        }
