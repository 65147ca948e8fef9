"""Shifting and compressing the time of whole traces (spec 02 section 2.6).

Loaded sessions are shared between replays, so these functions never change them: they return new
`Session` values that share the untouched turns.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session
from aisimulate.workload.limits import MAX_INSTANT_MS, shown
from aisimulate.workload.plain import PlainSessions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisimulate.core.traffic import Turn


def normalise_starts(sessions: Sequence[Session]) -> Sequence[Session]:
    """Let the earliest first arrival be 0 ms. Sessions without one stay so."""
    if isinstance(sessions, PlainSessions):
        first_ms = min(sessions.arrivals_ms, default=0.0)
        if first_ms == 0.0:
            return sessions
        return sessions.arriving(array("d", [ms - first_ms for ms in sessions.arrivals_ms]))
    first_ms = min((s.arrival_ms for s in sessions if s.arrival_ms is not None), default=0.0)
    if first_ms == 0.0:
        return sessions
    return [s if s.arrival_ms is None else _restarted(s, s.arrival_ms - first_ms, s.turns) for s in sessions]


def first_sessions(sessions: Sequence[Session], count: int) -> Sequence[Session]:
    """Return the `count` sessions that arrive first, in file order."""
    if isinstance(sessions, PlainSessions):
        arrivals = list(sessions.arrivals_ms)
    else:
        arrivals = [session.arrival_ms or 0.0 for session in sessions]
    chosen = sorted(sorted(range(len(arrivals)), key=arrivals.__getitem__)[:count])
    if isinstance(sessions, PlainSessions) and chosen == list(range(count)):
        return sessions.beginning(count)
    return [sessions[place] for place in chosen]


def speed_up(sessions: Sequence[Session], ratio: float) -> Sequence[Session]:
    """Divide first arrivals and think times by `ratio`.

    Raises InputError when the ratio is not a finite number above 0, or so small that an instant leaves
    the clock.
    """
    if not (math.isfinite(ratio) and ratio > 0.0):
        raise InputError(f"arrival_speedup_ratio must be a finite number above 0, got {ratio:g}")
    if ratio == 1.0:
        return sessions
    _check_range(sessions, ratio)
    if isinstance(sessions, PlainSessions):
        return sessions.arriving(array("d", [ms / ratio for ms in sessions.arrivals_ms]))
    return [_sped_up(session, ratio) for session in sessions]


def require_arrivals(sessions: Iterable[Session]) -> None:
    """Refuse sessions that an open-loop replay could not start: no first arrival, or one before 0 ms."""
    if isinstance(sessions, PlainSessions) and _all_within(sessions, MAX_INSTANT_MS):
        return
    for session in sessions:
        if session.arrival_ms is None:
            raise InputError(
                f"session {shown(session.session_id)} has no first timestamp: an open-loop replay needs one "
                "for every session (or set a concurrency)"
            )
        if not 0.0 <= session.arrival_ms <= MAX_INSTANT_MS:
            raise InputError(
                f"session {shown(session.session_id)} starts at {session.arrival_ms:g} ms: "
                f"must be from 0 to {MAX_INSTANT_MS:g}"
            )


def _all_within(sessions: PlainSessions, latest_ms: float) -> bool:
    arrivals_ms = sessions.arrivals_ms
    return not arrivals_ms or (min(arrivals_ms) >= 0.0 and max(arrivals_ms) <= latest_ms)


def _check_range(sessions: Sequence[Session], ratio: float) -> None:
    longest_ms = MAX_INSTANT_MS * ratio
    if isinstance(sessions, PlainSessions) and _all_within(sessions, longest_ms):
        return
    for session in sessions:
        starts_late = session.arrival_ms is not None and session.arrival_ms > longest_ms
        if starts_late or any(turn.delay_ms > longest_ms for turn in session.turns):
            raise InputError(
                f"arrival_speedup_ratio {ratio:g}: session {shown(session.session_id)} would go beyond "
                f"{MAX_INSTANT_MS:g} ms"
            )


def _sped_up(session: Session, ratio: float) -> Session:
    arrival_ms = None if session.arrival_ms is None else session.arrival_ms / ratio
    turns = session.turns
    if len(turns) > 1:
        turns = [_with_delay(turn, turn.delay_ms / ratio) for turn in turns]
    return _restarted(session, arrival_ms, turns)


def _restarted(session: Session, arrival_ms: float | None, turns: list[Turn]) -> Session:
    return Session(session.session_id, turns, arrival_ms, session.turn_offset)


def _with_delay(turn: Turn, delay_ms: float) -> Turn:
    return turn if turn.delay_ms == delay_ms else replace(turn, delay_ms=delay_ms)
