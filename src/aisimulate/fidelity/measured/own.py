"""What `aisimulate simulate` writes: the report (`--format json`) and the records (`--per-request`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.fidelity.measured.document import Fields
from aisimulate.fidelity.measured.metrics import VALUE, named
from aisimulate.fidelity.measured.run import MeasuredRun, Requests, column, since_first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.fidelity.measured.document import Document

SOUGHT = "num_requests, duration_ms and mean_ttft_ms (a report)"
SOUGHT_RECORDS = "terminal_status and arrival_time_ms in every line (records)"

_DISTRIBUTIONS = {
    "ttft_ms": "ttft_ms",
    "ttst_ms": "ttst_ms",
    "tpot_ms": "tpot_ms",
    "itl_ms": "itl_ms",
    "e2e_latency_ms": "e2e_latency_ms",
    "output_token_throughput_per_user": "gap_rate_tok_s",
}
_TOTALS = (
    "output_throughput_tok_s",
    "input_throughput_tok_s",
    "total_throughput_tok_s",
    "request_throughput_rps",
    "goodput_request_throughput_rps",
    "duration_ms",
    "completed_requests",
)
_STATISTICS = ("mean", "min", "max", "median", "p75", "p90", "p95", "p99", "std")


def fits(document: Document) -> bool:
    """Whether a file looks like a report."""
    return all(name in document.first for name in ("num_requests", "duration_ms", "mean_ttft_ms"))


def runs(document: Document) -> list[MeasuredRun]:
    """Read a report. Raises InputError."""
    fields = document.fields()
    reported: dict[str, dict[str, float]] = {}
    for theirs, metric in _DISTRIBUTIONS.items():
        if told := named({name: fields.number(f"{name}_{theirs}") for name in _STATISTICS}):
            reported[metric] = told
    for metric in _TOTALS:
        value = fields.number(metric)
        if value is not None:
            reported[metric] = {VALUE: value}
    failed = [fields.number(name) for name in ("rejected_requests", "unfinished_requests")]
    reported["failed_requests"] = {VALUE: sum(value for value in failed if value is not None)}
    if not fields.number("num_tpot_samples"):
        for metric in ("tpot_ms", "itl_ms", "ttst_ms", "gap_rate_tok_s"):
            reported.pop(metric, None)  # zeros of an empty sample
    records = fields.items("per_request")
    place = str(document.path)
    rows = (Fields(row, place, f"per_request[{number}]") for number, row in enumerate(records or ()))
    requests, _ = _requests(rows)
    return [MeasuredRun(document.path, "aisimulate", reported, requests)]


def fits_records(document: Document) -> bool:
    """Whether a file looks like records."""
    return all(name in document.first for name in ("terminal_status", "arrival_time_ms"))


def runs_of_records(document: Document) -> list[MeasuredRun]:
    """Read records. Raises InputError."""
    requests, others = _requests(document.fields(number) for number in range(len(document.rows)))
    completed = len(document.rows) - others
    reported = {"completed_requests": {VALUE: float(completed)}, "failed_requests": {VALUE: float(others)}}
    return [MeasuredRun(document.path, "aisimulate-records", reported, requests)]


def _requests(rows: Iterable[Fields]) -> tuple[Requests | None, int]:
    """Read the records of completed requests; count the others."""
    kept, others = [], 0
    for row in rows:
        if row.text("terminal_status") == "completed":
            kept.append(row)
        else:
            others += 1
    if not kept:
        return None, others
    told = {name: column([row.number(name) for row in kept]) for name in _COLUMNS}
    arrival, scheduled, first, last = since_first(
        told["arrival_time_ms"], told["first_admit_ms"], told["first_token_ms"], told["last_token_ms"]
    )
    requests = Requests(
        arrival_ms=arrival,
        scheduled_ms=scheduled,
        first_token_ms=first,
        last_token_ms=last,
        ttft_ms=told["ttft_ms"],
        ttst_ms=told["ttst_ms"],
        tpot_ms=told["itl_ms"],  # of a record: the mean of its gaps
        e2e_latency_ms=told["e2e_latency_ms"],
        input_tokens=told["input_length"],
        output_tokens=told["output_length"],
    )
    return requests, others


_COLUMNS = (
    "arrival_time_ms",
    "first_admit_ms",
    "first_token_ms",
    "last_token_ms",
    "ttft_ms",
    "ttst_ms",
    "itl_ms",
    "e2e_latency_ms",
    "input_length",
    "output_length",
)
