"""Results of inference-perf: `summary_` or `stage_N_lifecycle_metrics.json`, and the records of requests.

Everything is in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.fidelity.measured.document import Fields
from aisimulate.fidelity.measured.metrics import VALUE, named
from aisimulate.fidelity.measured.run import MeasuredRun, Requests, column, in_ms, per_gap, since_first

if TYPE_CHECKING:
    from aisimulate.fidelity.measured.document import Document

SOUGHT = "successes and failures as objects (summary_lifecycle_metrics.json, stage_N_...)"
SOUGHT_REQUESTS = "a list of objects with start_time, end_time and info (per_request_lifecycle_metrics.json)"

_MS_PER_S = 1000.0
_LATENCIES = {
    "time_to_first_token": "ttft_ms",
    "time_per_output_token": "tpot_ms",
    "inter_token_latency": "itl_ms",
    "request_latency": "e2e_latency_ms",
    "normalized_time_per_output_token": "ntpot_ms",
}
_LENGTHS = {"prompt_len": "input_tokens", "prompt_tokens": "input_tokens", "output_len": "output_tokens"}
_RATES = {
    "requests_per_sec": "request_throughput_rps",
    "input_tokens_per_sec": "input_throughput_tok_s",
    "output_tokens_per_sec": "output_throughput_tok_s",
    "total_tokens_per_sec": "total_throughput_tok_s",
}
_GOODPUT = "goodput_request_throughput_rps"
_STATISTICS = ("mean", "min", "max", "median", "p75", "p90", "p95", "p99")


def fits(document: Document) -> bool:
    """Whether a file looks like a summary."""
    keys = document.first
    return all(isinstance(keys.get(name), dict) for name in ("successes", "failures"))


def runs(document: Document) -> list[MeasuredRun]:
    """Read a summary. Raises InputError."""
    fields = document.fields()
    successes, failures = fields.inside("successes"), fields.inside("failures")
    assert successes is not None
    assert failures is not None
    reported: dict[str, dict[str, float]] = {}
    _add_distributions(reported, successes.inside("latency"), _LATENCIES, _MS_PER_S)
    _add_distributions(reported, successes, _LENGTHS, 1.0)
    _add_values(reported, successes.inside("throughput"), _RATES)
    _add_values(reported, successes, {"count": "completed_requests"})
    _add_values(reported, failures, {"count": "failed_requests"})
    _add_values(reported, successes.inside("goodput_metrics"), {"request_goodput": _GOODPUT})
    seconds = fields.number("benchmark_time_seconds")
    if seconds:
        reported["duration_ms"] = {VALUE: seconds * _MS_PER_S}
    return [MeasuredRun(document.path, "inference-perf", reported)]


def fits_requests(document: Document) -> bool:
    """Whether a file looks like records of requests."""
    rows = document.rows[0]
    first = rows[0] if isinstance(rows, list) and rows else None
    return isinstance(first, dict) and all(name in first for name in ("start_time", "end_time", "info"))


def runs_of_requests(document: Document) -> list[MeasuredRun]:
    """Read records of requests; failed ones are counted and left out. Raises InputError."""
    rows = [Fields(row, str(document.path), f"[{place}]") for place, row in enumerate(document.rows[0])]
    kept = [row for row in rows if "error" not in row]
    reported = {
        "completed_requests": {VALUE: float(len(kept))},
        "failed_requests": {VALUE: float(len(rows) - len(kept))},
    }
    requests = _requests(kept) if kept else None
    return [MeasuredRun(document.path, "inference-perf-requests", reported, requests)]


def _add_distributions(
    reported: dict[str, dict[str, float]], fields: Fields | None, names: dict[str, str], scale: float
) -> None:
    for theirs, metric in names.items():
        inner = None if fields is None else fields.inside(theirs)
        if inner is None or metric in reported:
            continue
        if told := named({name: inner.number(name) for name in _STATISTICS}, scale):
            reported[metric] = told


def _add_values(reported: dict[str, dict[str, float]], fields: Fields | None, names: dict[str, str]) -> None:
    for theirs, metric in names.items():
        value = None if fields is None else fields.number(theirs)
        if value is not None:
            reported[metric] = {VALUE: value}


def _requests(rows: list[Fields]) -> Requests:
    starts = column([row.number("start_time") for row in rows])
    ends = column([row.number("end_time") for row in rows])
    times = [_token_times(row) for row in rows]
    outputs = column([_output_tokens(row, stamps) for row, stamps in zip(rows, times, strict=True)])
    inputs = column([_input_tokens(row) for row in rows])
    first = column([stamps[0] if len(stamps) > 1 else None for stamps in times])
    last = column([stamps[-1] if len(stamps) > 1 else None for stamps in times])
    gaps = [np.diff(np.array(stamps)) for stamps in times if len(stamps) > 1]
    arrival_s, first_s, last_s, ends_s = since_first(starts, first, last, ends)
    return Requests(
        arrival_ms=in_ms(arrival_s),
        first_token_ms=in_ms(first_s),
        last_token_ms=in_ms(ends_s if last_s is None else last_s),
        ttft_ms=_difference_ms(first_s, arrival_s),
        tpot_ms=_per_gap_ms(_difference_ms(last_s, first_s), outputs),
        e2e_latency_ms=_difference_ms(ends_s, arrival_s),
        input_tokens=inputs,
        output_tokens=outputs,
        gaps_ms=np.concatenate(gaps) * _MS_PER_S if gaps else None,
    )


def _info(row: Fields, *names: str) -> Fields | None:
    inner = row.inside("info")
    for name in names:
        inner = None if inner is None else inner.inside(name)
    return inner


def _token_times(row: Fields) -> list[float]:
    """Give the instants of the tokens of a request, where an older or newer version has them; seconds."""
    for inner in (_info(row, "response_metrics"), _info(row)):
        stamps = None if inner is None else inner.numbers("output_token_times")
        if stamps:
            return [stamp for stamp in stamps if stamp is not None]
    return []


def _output_tokens(row: Fields, stamps: list[float]) -> float | None:
    for inner in (_info(row, "response_metrics"), _info(row)):
        value = None if inner is None else inner.number("output_tokens")
        if value:
            return value
    return float(len(stamps)) or None


def _input_tokens(row: Fields) -> float | None:
    inner = _info(row)
    return None if inner is None else inner.number("input_tokens")


def _difference_ms(later: np.ndarray | None, earlier: np.ndarray | None) -> np.ndarray | None:
    return None if later is None or earlier is None else (later - earlier) * _MS_PER_S


def _per_gap_ms(span_ms: np.ndarray | None, outputs: np.ndarray | None) -> np.ndarray | None:
    return None if span_ms is None or outputs is None else per_gap(span_ms, outputs)
