"""Results of AIPerf: the summary `profile_export_aiperf.json` and the records `profile_export.jsonl`.

The summary is also what GenAI-Perf wrote. Every metric tells its unit, which is read, not assumed.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.core.errors import nearest
from aisimulate.core.shown import show
from aisimulate.core.units import NS_PER_MS
from aisimulate.fidelity.measured.metrics import VALUE, named
from aisimulate.fidelity.measured.run import MeasuredRun, Requests, column, since_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisimulate.fidelity.measured.document import Document, Fields

SOUGHT = "request_latency or time_to_first_token as an object with a unit (summary)"
SOUGHT_RECORDS = "metadata and metrics as objects in every line (records)"

_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "sec": 1e3, "s": 1e3}
# Their name -> our metric; latencies first, which have a distribution in a unit of time.
_LATENCIES = {
    "time_to_first_token": "ttft_ms",
    "time_to_second_token": "ttst_ms",
    "inter_token_latency": "tpot_ms",
    "inter_chunk_latency": "itl_ms",
    "request_latency": "e2e_latency_ms",
}
_DISTRIBUTIONS = {
    "output_token_throughput_per_user": "user_rate_tok_s",
    "input_sequence_length": "input_tokens",
    "output_sequence_length": "output_tokens",
}
_TOTALS = {
    "request_throughput": "request_throughput_rps",
    "output_token_throughput": "output_throughput_tok_s",
    "total_token_throughput": "total_throughput_tok_s",
    "goodput": "goodput_request_throughput_rps",
    "request_count": "completed_requests",
    "error_request_count": "failed_requests",
}
_STATISTICS = ("avg", "min", "max", "p50", "p75", "p90", "p95", "p99", "std")


def fits(document: Document) -> bool:
    """Whether a file looks like a summary."""
    keys = _top(document.first)
    found = (keys.get(name) for name in ("request_latency", "time_to_first_token"))
    return any(isinstance(value, dict) and "unit" in value for value in found)


def runs(document: Document) -> list[MeasuredRun]:
    """Read a summary. Raises InputError."""
    fields = document.fields()
    inner = fields.inside("records") if "records" in fields else fields
    assert inner is not None
    reported = {
        metric: _distribution(inner, theirs, metric)
        for theirs, metric in {**_LATENCIES, **_DISTRIBUTIONS}.items()
        if theirs in inner
    }
    for theirs, metric in _TOTALS.items():
        value = _average(inner, theirs)
        if value is not None:
            reported[metric] = {VALUE: value}
    duration = inner.inside("benchmark_duration")
    if duration is not None and (value := duration.number("avg")) is not None:
        reported["duration_ms"] = {VALUE: value * _unit_ms(duration)}
    return [MeasuredRun(document.path, "aiperf", reported)]


def fits_records(document: Document) -> bool:
    """Whether a file looks like records."""
    keys = document.first
    return all(isinstance(keys.get(name), dict) for name in ("metadata", "metrics"))


def runs_of_records(document: Document) -> list[MeasuredRun]:
    """Read records. Raises InputError.

    Failed and cancelled requests and those of the warm-up are counted, and left out.
    """
    kept, failed, warmup = [], 0, 0
    for number in range(len(document.rows)):
        fields = document.fields(number)
        metadata = fields.inside("metadata")
        if metadata is not None and metadata.text("benchmark_phase") == "warmup":
            warmup += 1
        elif "error" in fields or (metadata is not None and metadata.values.get("was_cancelled")):
            failed += 1
        else:
            kept.append(fields)
    reported = {"failed_requests": {VALUE: float(failed)}, "completed_requests": {VALUE: float(len(kept))}}
    notes = (f"{warmup} requests of the warm-up were left out",) if warmup else ()
    requests = _requests(kept) if kept else None
    return [MeasuredRun(document.path, "aiperf-records", reported, requests, notes=notes)]


def _top(keys: Any) -> Any:  # noqa: ANN401 - what JSON holds
    inner = keys.get("records")
    return inner if isinstance(inner, dict) else keys


def _distribution(fields: Fields, theirs: str, metric: str) -> dict[str, float]:
    inner = fields.inside(theirs)
    assert inner is not None
    scale = _unit_ms(inner) if metric.endswith("_ms") else 1.0
    return named({name: inner.number(name) for name in _STATISTICS}, scale)


def _average(fields: Fields, theirs: str) -> float | None:
    inner = fields.inside(theirs)
    return None if inner is None else inner.number("avg")


def _unit_ms(fields: Fields) -> float:
    unit = fields.text("unit")
    if unit not in _MS:
        raise fields.error("unit", f"{show(unit)} is not one of {', '.join(_MS)}{nearest(unit, _MS)}")
    return _MS[unit]


def _requests(rows: list[Fields]) -> Requests:
    told = {
        metric: column([_value(row, theirs) for row in rows])
        for theirs, metric in _LATENCIES.items()
        if metric != "itl_ms"
    }
    lengths = {
        metric: column([_value(row, theirs) for row in rows])
        for theirs, metric in _DISTRIBUTIONS.items()
        if metric != "user_rate_tok_s"
    }
    starts = column([_start_ms(row) for row in rows])
    ttft, e2e = told["ttft_ms"], told["e2e_latency_ms"]
    instants = [
        starts,
        None if starts is None or ttft is None else starts + ttft,
        None if starts is None or e2e is None else starts + e2e,
    ]
    arrival, first, last = since_first(*instants)
    gaps = np.fromiter(chain.from_iterable(map(_gaps, rows)), np.float64)
    return Requests(
        arrival_ms=arrival,
        first_token_ms=first,
        last_token_ms=last,
        gaps_ms=gaps if len(gaps) else None,
        **told,
        **lengths,
    )


def _value(row: Fields, theirs: str) -> float | None:
    metrics = row.inside("metrics")
    inner = None if metrics is None else metrics.inside(theirs)
    if inner is None:
        return None
    value = inner.number("value")
    return value if value is None or theirs not in _LATENCIES else value * _unit_ms(inner)


def _start_ms(row: Fields) -> float | None:
    metadata = row.inside("metadata")
    value = None if metadata is None else metadata.number("request_start_ns")
    return None if value is None else value / NS_PER_MS


def _gaps(row: Fields) -> Iterator[float]:
    metrics = row.inside("metrics")
    inner = None if metrics is None else metrics.inside("inter_chunk_latency")
    values: Iterable[float | None] = [] if inner is None else inner.numbers("value") or []
    scale = _unit_ms(inner) if inner is not None else 1.0
    return (value * scale for value in values if value is not None)
