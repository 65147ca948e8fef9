"""The requests of an open loop as columns: those of a trace, or of a synthetic load at a constant rate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.spica.screen.reuse import ReuseTable
from aisimulate.workload.formats import load_trace
from aisimulate.workload.sessions import normalise_starts, speed_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from aisimulate.core.traffic import Session
    from aisimulate.spica.config import Workload

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

SCREEN_ROWS = 1_500
"""The most requests that a screen looks at: ranks hold from about so many on (spec 08 section 4.2)."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests in order of arrival that are short enough to be served; `reuse`: what caches hold of them.

    `turns` are their places among all requests: placement in turn counts those that are refused as well.
    """

    arrivals_ms: Floats
    prompts: Ints
    outputs: Ints
    turns: Ints
    reuse: ReuseTable

    def lanes(self, ranks: int) -> Ints:
        """Return the rank of each request, when ranks get them in turn."""
        return self.turns % ranks


def requests_of(workload: Workload, context_tokens: int | None) -> Requests | None:
    """Return the first requests of an open loop; None when they depend on the answers to earlier ones.

    `context_tokens` bounds a request: longer prompts are refused, outputs end there.
    """
    limit = 1 << 60 if context_tokens is None else context_tokens
    if workload.trace_path is None:
        return _synthetic(workload, limit)
    trace = load_trace([Path(workload.trace_path)], workload.trace_format, workload.block_tokens)
    if trace.graph is not None:
        return None
    sessions = speed_up(normalise_starts(trace.sessions), workload.arrival_speedup_ratio)
    return _of_sessions(sessions, trace.block_tokens, limit)


def _of_sessions(sessions: Sequence[Session], block_tokens: int, limit: int) -> Requests | None:
    if any(len(session.turns) > 1 for session in sessions):
        return None
    arrivals = np.array([session.arrival_ms or 0.0 for session in sessions])
    order = np.argsort(arrivals, kind="stable")[:SCREEN_ROWS]
    turns = [sessions[int(row)].turns[0] for row in order]
    prompts = np.array([turn.input_tokens for turn in turns], dtype=np.int64)
    outputs = np.array([turn.output_tokens for turn in turns], dtype=np.int64)
    content = [turn.block_ids for turn in turns]
    ids = None if any(each is None for each in content) else [each or () for each in content]
    return _usable(arrivals[order], prompts, outputs, ids, block_tokens, limit)


def _usable(
    arrivals_ms: Floats,
    prompts: Ints,
    outputs: Ints,
    ids: Sequence[Sequence[int]] | None,
    block_tokens: int,
    limit: int,
) -> Requests:
    kept = np.flatnonzero(prompts < limit)
    prompts = np.maximum(prompts[kept], 1)
    outputs = np.maximum(np.minimum(outputs[kept], limit - prompts), 1)
    served = None if ids is None else [ids[row] for row in kept.tolist()]
    return Requests(
        arrivals_ms[kept], prompts, outputs, kept, ReuseTable(served, prompts, kept, block_tokens)
    )


def _synthetic(workload: Workload, limit: int) -> Requests:
    assert workload.isl is not None and workload.osl is not None
    count = min(workload.resolved_request_count(), SCREEN_ROWS)
    arrivals = np.arange(count, dtype=np.float64) * workload.synthetic_arrival_interval_ms
    prompts, outputs = (np.full(count, tokens, dtype=np.int64) for tokens in (workload.isl, workload.osl))
    return _usable(arrivals, prompts, outputs, None, 1, limit)
