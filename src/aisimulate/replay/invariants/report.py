"""Invariants of the report: it says what the requests say, in sound numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aisimulate.core.units import NS_PER_MS, NS_PER_S
from aisimulate.engine.sequence import COMPLETED
from aisimulate.replay.invariants.catalogue import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.engine.sequence import Sequence
    from aisimulate.replay.client import ClientView
    from aisimulate.replay.outcome import ReplayOutcome
    from aisimulate.replay.report import Report

_RELATIVE = 1e-9
# Means come from differently ordered sums; in ms, or in tokens per second.
_ABSOLUTE = 1e-6

_METRICS = (
    "ttft_ms",
    "ttst_ms",
    "tpot_ms",
    "itl_ms",
    "e2e_latency_ms",
    "output_token_throughput_per_user",
)
_ASCENDING = ("min", "median", "p75", "p90", "p95", "p99", "max")


def check_totals(outcome: ReplayOutcome, report: Report) -> None:
    """I11: every total and mean that can be had from the requests is the one reported."""
    for key, value in _expected(outcome):
        told = report[key]
        if not math.isclose(told, value, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
            raise Invariant.TOTALS.broken(f"report.{key}", f"{told!r}, but the requests give {value!r}")
    ended = sum(request.status is not None for request in outcome.sequences)
    records = report.get("per_request")
    if records is not None and len(records) != ended:
        raise Invariant.TOTALS.broken("report.per_request", f"{len(records)} records of {ended} requests")


def _expected(outcome: ReplayOutcome) -> Iterator[tuple[str, float]]:
    done = [r for r in outcome.sequences if r.status == COMPLETED and r.admissions]
    emitted = [request.emitted_tokens for request in done]
    inputs = sum(request.input_tokens for request in done)
    duration_ns = max((request.terminal_ns or 0 for request in done), default=0)
    prefill_s, worker_s = _worker_seconds(outcome)
    yield "completed_requests", len(done)
    yield "total_input_tokens", inputs
    yield "total_output_tokens", sum(emitted)
    yield "processed_tokens", inputs + sum(emitted)
    client = outcome.client
    if client is None or not done:
        yield "duration_ms", duration_ns / NS_PER_MS
    elif client.frontend.ttft_ratio == 1.0:  # else each client sees its end differently late
        yield "duration_ms", (duration_ns + client.frontend.offset_ns) / NS_PER_MS
    yield "prefill_worker_seconds", prefill_s
    yield "decode_worker_seconds", worker_s
    gpu_s = prefill_s * outcome.prefill_gpus_per_worker + worker_s * outcome.gpus_per_worker
    yield "gpu_hours", gpu_s / 3600
    yield "num_ttft_samples", sum(count > 0 for count in emitted)
    yield "num_tpot_samples", sum(count > 1 for count in emitted)
    emitting = [request for request in done if request.emitted_tokens]
    yield from _means(emitting) if client is None else _client_means(emitting, client)


def _worker_seconds(outcome: ReplayOutcome) -> tuple[float, float]:
    """Time that the workers of the prefill and the decode pool were there, or were asked for."""
    if (scaling := outcome.scaling) is not None:
        return scaling.prefill_ns / NS_PER_S, scaling.decode_ns / NS_PER_S
    whole_s = outcome.end_ns / NS_PER_S
    return outcome.prefill_workers * whole_s, outcome.workers * whole_s


def _means(emitting: list[Sequence]) -> Iterator[tuple[str, float]]:
    number = max(1, len(emitting))
    waits = sum((request.first_token_ns or 0) - request.arrival_ns for request in emitting)
    lives = sum((request.last_token_ns or 0) - request.arrival_ns for request in emitting)
    yield "mean_ttft_ms", waits / number / NS_PER_MS
    yield "mean_e2e_latency_ms", lives / number / NS_PER_MS


def _client_means(emitting: list[Sequence], client: ClientView) -> Iterator[tuple[str, float]]:
    """Means of what clients saw through a front end."""
    number, seen = max(1, len(emitting)), [client.record(request) for request in emitting]
    yield "mean_ttft_ms", sum(record["client_ttft_ms"] for record in seen) / number
    yield "mean_e2e_latency_ms", sum(record["client_e2e_latency_ms"] for record in seen) / number


def check_statistics(report: Report) -> None:
    """I12: no number of the report is infinite or negative, percentiles ascend, means lie between."""
    for key, value in report.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and not 0 <= value < math.inf:
            raise Invariant.STATISTICS.broken(f"report.{key}", repr(value))
    for metric in _METRICS:
        values = [report[f"{statistic}_{metric}"] for statistic in _ASCENDING]
        slack = _RELATIVE * values[-1]
        mean = report[f"mean_{metric}"]
        if values != sorted(values) or not values[0] - slack <= mean <= values[-1] + slack:
            shown = dict(zip(_ASCENDING, values, strict=True))
            raise Invariant.STATISTICS.broken(f"report.*_{metric}", f"{shown}, mean {mean!r}")
