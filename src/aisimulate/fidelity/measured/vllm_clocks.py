"""Logs of single requests with vLLM's own clocks, one JSON object a line.

`arrival_time` is the client's clock (epoch seconds); `queued_ts`, `scheduled_ts`, `first_token_ts` and
`last_token_ts` are the engine's (seconds, mostly monotonic). Prompt and output tokens are `input_toks` and
`output_toks`, or the names that vLLM's API has for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.fidelity.measured.metrics import VALUE
from aisimulate.fidelity.measured.run import (
    Floats,
    MeasuredRun,
    Requests,
    column,
    in_ms,
    per_gap,
    since_first,
)

if TYPE_CHECKING:
    from aisimulate.fidelity.measured.document import Document, Fields

SOUGHT = "arrival_time, first_token_ts and last_token_ts in every line (vLLM's clocks)"

_STAMPS = ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")
_INPUTS = ("input_toks", "input_tokens", "prompt_tokens")
_OUTPUTS = ("output_toks", "output_tokens", "completion_tokens")
# One clock cannot make a request wait this long before it is queued; two clocks differ by much more.
_ONE_CLOCK_S = 10.0


def fits(document: Document) -> bool:
    """Whether a file looks like one."""
    return all(name in document.first for name in ("arrival_time", "first_token_ts", "last_token_ts"))


def runs(document: Document) -> list[MeasuredRun]:
    """Read a log; requests that did not end are counted and left out. Raises InputError."""
    rows = [document.fields(number) for number in range(len(document.rows))]
    kept = completed(rows)
    counts = {"completed_requests": len(kept), "failed_requests": len(rows) - len(kept)}
    reported = {name: {VALUE: float(count)} for name, count in counts.items()}
    requests, notes = _requests(kept) if kept else (None, [])
    notes += _repeated(document)
    return [MeasuredRun(document.path, "vllm-clocks", reported, requests, notes=notes)]


def _repeated(document: Document) -> list[str]:
    """Doubt a log with the same request several times, which would replay it as often."""
    ids = [row["request_id"] for row in document.rows if isinstance(row.get("request_id"), str | int)]
    repeated = len(ids) - len(set(ids))
    return [f"a request_id comes again ({repeated} x): was something logged twice?"] if repeated else []


def completed(rows: list[Fields]) -> list[Fields]:
    """Give the rows of requests that got their last token."""
    return [row for row in rows if (row.number("last_token_ts") or 0.0) > 0 and _length(row, _OUTPUTS)]


def _requests(rows: list[Fields]) -> tuple[Requests, list[str]]:
    arrival_s = _told(rows, "arrival_time")
    queued_s, scheduled_s, first_s, last_s = (column([row.number(name) for row in rows]) for name in _STAMPS)
    assert last_s is not None
    notes = []
    if (shift_s := _shift_s(arrival_s, queued_s, first_s)) is not None:
        arrival_s = arrival_s + shift_s
        notes.append("arrivals are on another clock than tokens: aligned by the smallest queueing gap")
    arrival, scheduled, first, last = map(in_ms, since_first(arrival_s, scheduled_s, first_s, last_s))
    assert arrival is not None
    assert last is not None
    outputs = _lengths(rows, _OUTPUTS)
    requests = Requests(
        arrival_ms=arrival,
        scheduled_ms=scheduled,
        first_token_ms=first,
        last_token_ms=last,
        ttft_ms=None if first is None else first - arrival,
        tpot_ms=None if first is None else per_gap(last - first, outputs),
        e2e_latency_ms=last - arrival,
        input_tokens=_lengths(rows, _INPUTS),
        output_tokens=outputs,
    )
    return requests, notes


def _shift_s(arrival_s: Floats, queued_s: Floats | None, first_s: Floats | None) -> float | None:
    """Say how far the engine's clock is ahead of the client's; None when they are one.

    The request that waits least between arrival and queue is taken not to wait at all (spec 07 section 3).
    """
    later = queued_s if queued_s is not None else first_s
    if later is None:
        return None
    gap_s = float(np.nanmin(later - arrival_s))
    return None if 0 <= gap_s <= _ONE_CLOCK_S else gap_s


def _told(rows: list[Fields], name: str) -> Floats:
    values = []
    for row in rows:
        value = row.number(name)
        if value is None:
            raise row.error(name, "missing (required)")
        values.append(value)
    return np.array(values)


def _lengths(rows: list[Fields], names: tuple[str, ...]) -> Floats:
    values = []
    for row in rows:
        value = _length(row, names)
        if value is None:
            raise row.error(names[0], "missing (required)")
        values.append(value)
    return np.array(values)


def _length(row: Fields, names: tuple[str, ...]) -> float | None:
    return next((value for name in names if (value := row.number(name))), None)
