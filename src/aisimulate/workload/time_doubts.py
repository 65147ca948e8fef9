"""Times of a trace that look as if they were in another unit, and speed-ups that hardly anybody means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.workload.formats import TIME_UNITS
from aisimulate.workload.plain import PlainSessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.traffic import Session

_EPOCH_SECONDS = (1e9, 1e11)
_MANY, _FEW = 100, 20  # sessions from which a rate that is too high, or too low, tells anything
_MANY_PER_S, _FEW_PER_S = 100.0, 1.0 / 60.0
_ABSURD_PER_S = 10_000.0
"""Where an authored speed-up is doubted: large fleets are tried at hundreds of requests per second."""


def time_doubts(sessions: Sequence[Session], trace_format: str, speedup: float = 1.0) -> list[str]:
    """Ask about times that look as if they were in another unit than their format's.

    `sessions` are as authored; `speedup` is what their times will be divided by. A speed-up that makes a
    usual rate of what looked wrong was chosen for that, so nothing is asked then.
    """
    starts = _starts(sessions)
    if not starts:
        return []
    first_ms, last_ms = min(starts), max(starts)
    unit = TIME_UNITS.get(trace_format)
    if unit == "ms" and speedup == 1.0 and _EPOCH_SECONDS[0] <= first_ms and last_ms < _EPOCH_SECONDS[1]:
        return [f"times from {first_ms:.15g} ms look like seconds since 1970: they are taken as ms"]
    seconds = (last_ms - first_ms) / 1000.0
    if seconds <= 0 or len(starts) < _FEW:
        return []
    if unit is not None and _is_odd(len(starts), seconds / speedup):
        other = _other_unit(unit, len(starts) / seconds)
        if other is not None:
            return [_rate(len(starts), seconds, f"times are taken as {unit}; are they {other}?")]
    return [] if speedup == 1.0 else _speedup_doubts(len(starts), seconds, speedup)


def _starts(sessions: Sequence[Session]) -> Sequence[float]:
    if isinstance(sessions, PlainSessions):
        return sessions.arrivals_ms
    return [session.arrival_ms for session in sessions if session.arrival_ms is not None]


def _is_odd(sessions: int, seconds: float) -> bool:
    rate = sessions / seconds
    return rate < _FEW_PER_S or (rate > _MANY_PER_S and sessions >= _MANY)


def _other_unit(unit: str, rate_per_s: float) -> str | None:
    """Name the unit that would make the rate a usual one."""
    if rate_per_s < _FEW_PER_S:
        return {"ms": "us", "s": "ms"}[unit]
    return "s" if unit == "ms" and rate_per_s > _MANY_PER_S else None


def _speedup_doubts(sessions: int, seconds: float, speedup: float) -> list[str]:
    rate = sessions / seconds * speedup
    if rate >= _FEW_PER_S and (rate <= _ABSURD_PER_S or sessions < _MANY):
        return []
    return [_rate(sessions, seconds / speedup, f"is arrival_speedup_ratio {speedup:g} meant?")]


def _rate(sessions: int, seconds: float, question: str) -> str:
    rate = sessions / seconds
    return f"{sessions:,} sessions in {seconds:,.4g} s are {rate:,.4g} per second: {question}"
