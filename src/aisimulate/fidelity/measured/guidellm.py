"""Results of GuideLLM: `benchmarks.json`, with one benchmark for each load that was tried.

Its inter-token latency and time per output token weigh each request by its tokens. Where single requests
are in the file, the metrics of requests are computed from them, unweighted as with the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.fidelity.measured.document import Fields
from aisimulate.fidelity.measured.metrics import VALUE, named
from aisimulate.fidelity.measured.run import MeasuredRun, Requests, column, in_ms, since_first

if TYPE_CHECKING:
    from aisimulate.fidelity.measured.document import Document

SOUGHT = "benchmarks as a list of objects with metrics"

_MS_PER_S = 1000.0
# Their name -> our metric and what their unit is in ours.
_DISTRIBUTIONS = {
    "time_to_first_token_ms": ("ttft_ms", 1.0),
    "inter_token_latency_ms": ("weighted_tpot_ms", 1.0),
    "time_per_output_token_ms": ("weighted_ntpot_ms", 1.0),
    "request_latency": ("e2e_latency_ms", _MS_PER_S),
    "prompt_token_count": ("input_tokens", 1.0),
    "output_token_count": ("output_tokens", 1.0),
}
_RATES = {
    "requests_per_second": "request_throughput_rps",
    "output_tokens_per_second": "output_throughput_tok_s",
    "prompt_tokens_per_second": "input_throughput_tok_s",
    "tokens_per_second": "total_throughput_tok_s",
}
_STATISTICS = ("mean", "median", "std_dev", "min", "max")
_PERCENTILES = ("p50", "p75", "p90", "p95", "p99")


def fits(document: Document) -> bool:
    """Whether a file looks like one."""
    found = document.first.get("benchmarks")
    return isinstance(found, list) and bool(found) and isinstance(found[0], dict) and "metrics" in found[0]


def runs(document: Document) -> list[MeasuredRun]:
    """Read the benchmarks of a file. Raises InputError."""
    place = str(document.path)
    return [
        _run(document, Fields(item, place, f"benchmarks[{number}]"))
        for number, item in enumerate(document.first["benchmarks"])
    ]


def _run(document: Document, fields: Fields) -> MeasuredRun:
    metrics = fields.inside("metrics")
    if metrics is None:
        raise fields.error("metrics", "is missing")
    reported: dict[str, dict[str, float]] = {}
    for theirs, (metric, scale) in _DISTRIBUTIONS.items():
        found = _distribution(_successful(metrics, theirs), scale)
        if found:
            reported[metric] = found
    for theirs, metric in _RATES.items():
        inner = _successful(metrics, theirs)
        if inner is not None and (value := inner.number("mean")) is not None:
            reported[metric] = {VALUE: value}
    if "mean" in reported.get("weighted_tpot_ms", {}):
        # Weighed by its gaps, the mean over requests is the mean over all gaps.
        reported["itl_ms"] = {"mean": reported["weighted_tpot_ms"]["mean"]}
    reported |= _counts(metrics)
    duration_s = fields.number("duration")
    if duration_s:
        reported["duration_ms"] = {VALUE: duration_s * _MS_PER_S}
    return MeasuredRun(document.path, "guidellm", reported, _requests(fields), _label(fields))


def _successful(metrics: Fields, name: str) -> Fields | None:
    inner = metrics.inside(name)
    return None if inner is None else inner.inside("successful")


def _distribution(fields: Fields | None, scale: float) -> dict[str, float]:
    if fields is None or not fields.number("count"):
        return {}
    told = {name: fields.number(name) for name in _STATISTICS}
    percentiles = fields.inside("percentiles")
    if percentiles is not None:
        told |= {name: percentiles.number(name) for name in _PERCENTILES}
    return named(told, scale)


def _counts(metrics: Fields) -> dict[str, dict[str, float]]:
    totals = metrics.inside("request_totals")
    if totals is None:
        inner = _successful(metrics, "request_latency")
        count = None if inner is None else inner.number("count")
        return {} if count is None else {"completed_requests": {VALUE: count}}
    failed = (totals.number("errored") or 0.0) + (totals.number("incomplete") or 0.0)
    completed = totals.number("successful") or 0.0
    return {"completed_requests": {VALUE: completed}, "failed_requests": {VALUE: failed}}


def _label(fields: Fields) -> str:
    """Tell which load a benchmark had, where older and newer versions say it."""
    for path in (("config", "strategy"), ("args", "strategy"), ("scheduler", "strategy")):
        inner: Fields | None = fields
        for name in path:
            value = None if inner is None else inner.values.get(name)
            inner = Fields(value, fields.place) if isinstance(value, dict) else None
        if inner is not None:
            told = [inner.text(name) for name in ("type_", "rate", "streams") if name in inner]
            return " ".join(told)
    return ""


def _requests(fields: Fields) -> Requests | None:
    groups = fields.inside("requests")
    rows = None if groups is None else groups.items("successful")
    if not rows:
        return None
    place = "benchmarks[].requests.successful"
    told = [Fields(row, fields.place, f"{place}[{number}]") for number, row in enumerate(rows)]
    outputs = column([row.number("output_tokens") for row in told])
    starts = column([_instant(row, "request_start") for row in told])
    first = column([_instant(row, "first_token_iteration") for row in told])
    last = column([_instant(row, "last_token_iteration") for row in told])
    arrival, first, last = map(in_ms, since_first(starts, first, last))
    latency_s = column([row.number("request_latency") for row in told])
    return Requests(
        arrival_ms=arrival,
        first_token_ms=first,
        last_token_ms=last,
        ttft_ms=column([row.number("time_to_first_token_ms") for row in told]),
        tpot_ms=column([row.number("inter_token_latency_ms") for row in told]),
        e2e_latency_ms=in_ms(latency_s),
        input_tokens=column([row.number("prompt_tokens") for row in told]),
        output_tokens=outputs,
    )


def _instant(row: Fields, name: str) -> float | None:
    info = row.inside("info")
    timings = None if info is None else info.inside("timings")
    return None if timings is None else timings.number(name)
