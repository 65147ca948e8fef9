"""Traces of independent requests of which only lengths and arrivals are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.limits import shown
from aisimulate.workload.loaded import DEFAULT_BLOCK_TOKENS, LoadedTrace
from aisimulate.workload.time_scale import scale_doubts

if TYPE_CHECKING:
    from pathlib import Path


class Request(NamedTuple):
    """One row: its line, its lengths in tokens, and its arrival in ms, None when it has none."""

    line: int
    arrival_ms: float | None
    input_tokens: int
    output_tokens: int


def flat_trace(path: Path, requests: list[Request], notes: list[str]) -> LoadedTrace:
    """Make each request a session `request_<line>` of its own, ordered by arrival, whatever the file's order.

    Requests without an arrival come last, in file order. Nobody shares their content.
    """
    times = ((f"{path}:{r.line}", r.arrival_ms) for r in requests if r.arrival_ms is not None)
    doubts = scale_doubts(times)
    untimed = next((r.line for r in requests if r.arrival_ms is None), None)
    requests.sort(key=_arrival)
    sessions = [
        Session(f"request_{r.line}", [Turn(r.input_tokens, r.output_tokens)], r.arrival_ms) for r in requests
    ]
    trace = LoadedTrace(sessions, DEFAULT_BLOCK_TOKENS, notes, doubts=doubts)
    if untimed is not None:
        trace.untimed = f"{path}:{untimed}: session {shown(f'request_{untimed}')}"
    return trace


def _arrival(request: Request) -> float:
    return float("inf") if request.arrival_ms is None else request.arrival_ms
