"""What a trace asks for, in figures: how many, how often, how long, and how much of it came before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.replay.statistics import summarize
from aisimulate.workload.formats import ACCUMULATING_FORMATS
from aisimulate.workload.prefix_reuse import ideal_reuse_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.traffic import Session, Turn
    from aisimulate.workload.loaded import LoadedTrace

_CLOCK_TICK_MS = 1e-6


def trace_summary(trace: LoadedTrace, trace_format: str) -> dict[str, Any]:
    """Summarise a trace of at least one request; what is not known is None.

    Times are the recorded ones: a later turn counts as sent its think time after the turn before, as if
    turns took no time. `ideal_prefix_hit_ratio` is the share of prompt tokens that a KV cache which forgets
    nothing could reuse.
    """
    ordered = _by_time(trace.sessions)
    turns = [turn for _, turn in ordered]
    accumulates = trace_format in ACCUMULATING_FORMATS
    prompts = _whole_prompts(trace.sessions) if accumulates else [turn.input_tokens for turn in turns]
    outputs = [turn.output_tokens for turn in turns]
    # When requests of a graph start depends on how fast others are served.
    timeless = trace.untimed is not None or trace.graph is not None
    duration_s = None if timeless else _seconds(ordered[-1][0] - ordered[0][0])
    totals = {"requests": len(turns), "input_tokens": sum(prompts), "output_tokens": sum(outputs)}
    reused = _reused_tokens(trace, turns, accumulates)
    return {
        "sessions": len(trace.sessions),
        "duration_s": duration_s,
        **totals,
        **{f"{name}_per_s": total / duration_s if duration_s else None for name, total in totals.items()},
        "input_tokens_per_request": _statistics(prompts),
        "output_tokens_per_request": _statistics(outputs),
        "turns_per_session": _statistics([len(session.turns) for session in trace.sessions]),
        "ideal_prefix_hit_ratio": None if reused is None else reused / totals["input_tokens"],
    }


def _seconds(span_ms: float) -> float:
    """Time between two instants of the clock, which counts whole ns."""
    return span_ms / 1000.0 if span_ms >= _CLOCK_TICK_MS else 0.0


def _by_time(sessions: Sequence[Session]) -> list[tuple[float, Turn]]:
    """All turns with their recorded times in ms; sessions without a time keep their place at the start."""
    timed: list[tuple[float, Turn]] = []
    for session in sessions:
        now_ms = session.arrival_ms or 0.0
        for turn in session.turns:
            now_ms += turn.delay_ms
            timed.append((now_ms, turn))
    timed.sort(key=lambda item: item[0])
    return timed


def _whole_prompts(sessions: Sequence[Session]) -> list[int]:
    """Prompt lengths where each turn adds to all earlier prompts and outputs of its session."""
    prompts: list[int] = []
    for session in sessions:
        history = 0
        for turn in session.turns:
            prompts.append(history + turn.input_tokens)
            history += turn.input_tokens + turn.output_tokens
    return prompts


def _reused_tokens(trace: LoadedTrace, turns: list[Turn], accumulates: bool) -> int | None:
    if not accumulates:
        reused = ideal_reuse_tokens(turns, trace.block_tokens)
        return None if reused is None else int(reused.sum())
    # All that was said before is there again; beyond it, only first turns can share anything.
    history = sum(_whole_prompts(trace.sessions)) - sum(turn.input_tokens for turn in turns)
    firsts = [session.turns[0] for session in sorted(trace.sessions, key=lambda s: s.arrival_ms or 0.0)]
    shared = ideal_reuse_tokens(firsts, trace.block_tokens)
    return history + (0 if shared is None else int(shared.sum()))


def _statistics(values: list[int]) -> dict[str, float]:
    summary = summarize(np.array(values, np.float64))
    return {
        "mean": summary.mean,
        "min": summary.min,
        "p50": summary.median,
        "p90": summary.p90,
        "p99": summary.p99,
        "max": summary.max,
    }
