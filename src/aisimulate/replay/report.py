"""The flat report of a replay: every metric of spec 02 section 8, and the records of its requests.

Only *counted* requests (admitted at least once and completed) enter the metrics; `num_requests` and the
counts of rejected and unfinished requests are the exceptions.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.core.units import NS_PER_MS, NS_PER_S, to_ms
from aisimulate.engine.sequence import COMPLETED, FAILED, REJECTED
from aisimulate.replay.agentic_report import report_plays
from aisimulate.replay.columns import Columns, Latencies, counted_sequences
from aisimulate.replay.gaps import summarize_gaps
from aisimulate.replay.handoff_records import build_handoff_records
from aisimulate.replay.records import build_records, ended_in_order, with_scheduled
from aisimulate.replay.statistics import summarize

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy.typing as npt

    from aisimulate.replay.client import ClientView
    from aisimulate.replay.outcome import ReplayOutcome, Sla
    from aisimulate.replay.statistics import Summary
    from aisimulate.replay.ticks import ScalingOutcome

    Floats: TypeAlias = npt.NDArray[np.float64]

Report = dict[str, Any]

MS_PER_HOUR = 3_600_000
# Rates divide by at least this, so a replay that took no time has finite ones.
_MIN_DURATION_S = 1e-9


def build_report(outcome: ReplayOutcome, *, record_per_request: bool) -> Report:
    """Compute the report of a finished replay as plain JSON values in a fixed order of keys.

    All numbers are finite; the statistics of an empty sample are 0.0. `goodput_*` keys are present when an
    SLA is set, `per_request` when asked for and at least one request ended. Our own additions to the
    reference's keys: rejected_requests, unfinished_requests, rejection_reasons, timing_mode, those of
    steady_ttft_ms for a closed loop, and, where the outcome has any, scheduling_look_ahead, frontend,
    provenance and notes.
    """
    counted = _counted(outcome)
    latencies = Latencies.of(counted)
    duration_ns = int(counted.terminal_ns.max(initial=0))
    duration_s = max(duration_ns / NS_PER_S, _MIN_DURATION_S)
    report = _request_counts(outcome, len(counted))
    report["duration_ms"] = to_ms(duration_ns)
    report.update(_throughput(counted, duration_s, outcome.wall_ns))
    report.update(_resources(outcome))
    if outcome.sla.is_set:
        report.update(_goodput(counted, latencies, outcome.sla, duration_s))
    report.update(_prefix_reuse(counted))
    report.update(outcome.tiers)
    report.update(_latency_statistics(outcome, latencies))
    if outcome.is_closed_loop:
        report.update(_after_the_burst(counted, latencies))
    if outcome.plays is not None:
        report.update(report_plays(outcome.plays))
    report.update(_remarks(outcome))
    if outcome.scaling is not None:
        report.update(_scaling(outcome.scaling, report, records=record_per_request))
    records = _records(outcome) if record_per_request else []
    if records:
        report["per_request"] = records
    return report


def _records(outcome: ReplayOutcome) -> list[Report]:
    client = outcome.client
    return _engine_records(outcome) if client is None else _client_records(outcome, client)


def _engine_records(outcome: ReplayOutcome) -> list[Report]:
    if outcome.prefill_workers:
        ranks = outcome.prefill_dp_size, outcome.dp_size
        records = build_handoff_records(outcome.sequences, *ranks, outcome.routes)
    else:
        records = build_records(outcome.sequences, outcome.dp_size, outcome.plays, outcome.routes.get("agg"))
    return records if not outcome.look_ahead else [with_scheduled(record) for record in records]


def _client_records(outcome: ReplayOutcome, client: ClientView) -> list[Report]:
    """Records of what engines did, and at the end of each what its client saw."""
    ended = ended_in_order(outcome.sequences)
    pairs = zip(_engine_records(outcome), ended, strict=True)
    return [record | client.record(sequence) for record, sequence in pairs]


def _counted(outcome: ReplayOutcome) -> Columns:
    """Collect the counted requests, as their clients saw them."""
    columns, client = _engine_columns(outcome), outcome.client
    if client is None:
        return columns
    is_pair = outcome.prefill_workers > 0
    rows = counted_sequences(outcome.sequences, disaggregated=is_pair) if client.gathers else []
    return client.columns(columns, rows)


def _engine_columns(outcome: ReplayOutcome) -> Columns:
    if outcome.settled is None or not outcome.settled.count:
        return Columns.of(outcome.sequences, disaggregated=outcome.prefill_workers > 0)
    outcome.settled.absorb(outcome.sequences)
    return outcome.settled.columns()


def _request_counts(outcome: ReplayOutcome, counted: int) -> Report:
    requests = len(outcome.sequences) + (outcome.settled.count if outcome.settled is not None else 0)
    others = [s for s in outcome.sequences if s.status != COMPLETED] if counted < requests else []
    reasons = Counter(s.reason or "unspecified" for s in others if s.status in (REJECTED, FAILED))
    return {
        "num_requests": requests,
        "completed_requests": counted,
        "rejected_requests": reasons.total(),
        "unfinished_requests": sum(s.status is None for s in others),
        "rejection_reasons": dict(sorted(reasons.items())),
    }


def _throughput(counted: Columns, duration_s: float, wall_ns: int) -> Report:
    """Rates over virtual time, then over the real time that the replay took."""
    input_tokens = int(counted.input_tokens.sum())
    output_tokens = int(counted.output_tokens.sum())
    processed = input_tokens + output_tokens
    wall_s = wall_ns / NS_PER_S
    return {
        "total_input_tokens": input_tokens,
        "total_output_tokens": output_tokens,
        "request_throughput_rps": len(counted) / duration_s,
        "input_throughput_tok_s": input_tokens / duration_s,
        "output_throughput_tok_s": output_tokens / duration_s,
        "total_throughput_tok_s": processed / duration_s,
        "wall_time_ms": to_ms(wall_ns),
        "processed_tokens": processed,
        "processed_tokens_per_s": processed / wall_s if wall_s > 0 else 0.0,
        "processed_output_tokens_per_s": output_tokens / wall_s if wall_s > 0 else 0.0,
    }


def _resources(outcome: ReplayOutcome) -> Report:
    """Provisioned time up to the last event; an aggregated pool is reported in the decode columns."""
    prefill_s, worker_s = _worker_seconds(outcome)
    gpu_s = prefill_s * outcome.prefill_gpus_per_worker + worker_s * outcome.gpus_per_worker
    return {
        "prefill_worker_seconds": prefill_s,
        "decode_worker_seconds": worker_s,
        "prefill_gpus_per_worker": outcome.prefill_gpus_per_worker,
        "decode_gpus_per_worker": outcome.gpus_per_worker,
        "gpu_hours": gpu_s / 3600.0,
    }


def _worker_seconds(outcome: ReplayOutcome) -> tuple[float, float]:
    """Give the worker time of the prefill and of the other pool."""
    if outcome.scaling is not None:
        return outcome.scaling.prefill_ns / NS_PER_S, outcome.scaling.decode_ns / NS_PER_S
    return outcome.prefill_workers * outcome.end_ns / NS_PER_S, outcome.workers * outcome.end_ns / NS_PER_S


def _scaling(scaling: ScalingOutcome, report: Report, *, records: bool) -> Report:
    """What scaling did; `avg_gpu` is the GPU time over the duration, and what per-GPU metrics divide by."""
    duration_h = report["duration_ms"] / MS_PER_HOUR
    added: Report = {
        "avg_gpu": report["gpu_hours"] / duration_h if duration_h else 0.0,
        "planner_total_ticks": scaling.ticks,
    }
    if records:
        added["lifecycle_operations"] = scaling.operations
        if scaling.decisions:
            added["scaling_decisions"] = scaling.decisions
    return added


def _goodput(counted: Columns, latencies: Latencies, sla: Sla, duration_s: float) -> Report:
    good = np.ones(len(latencies.ttft), dtype=np.bool_)
    if sla.ttft_ms is not None:
        good &= latencies.ttft <= sla.ttft_ms
    if sla.e2e_ms is not None:
        good &= latencies.e2e <= sla.e2e_ms
    if sla.itl_ms is not None:
        good[latencies.several] &= latencies.tpot <= sla.itl_ms
    requests = int(good.sum()) + _good_without_tokens(counted, sla)
    return {
        "goodput_completed_requests": requests,
        "goodput_request_throughput_rps": requests / duration_s,
        "goodput_output_throughput_tok_s": int(latencies.output_tokens[good].sum()) / duration_s,
    }


def _good_without_tokens(counted: Columns, sla: Sla) -> int:
    """Requests for no output can only meet a bound on end to end latency, up to their terminal instant."""
    if sla.e2e_ms is None or sla.ttft_ms is not None or sla.itl_ms is not None:
        return 0
    silent = counted.output_tokens == 0
    waits_ms = (counted.terminal_ns - counted.arrival_ns)[silent] / NS_PER_MS
    return int((waits_ms <= sla.e2e_ms).sum())


def _prefix_reuse(counted: Columns) -> Report:
    """Share of prompt tokens found in the cache; a readmission can find generated tokens as well."""
    input_tokens = max(1, int(counted.input_tokens.sum()))
    return {
        "prefix_cache_reused_ratio": int(counted.best_reuse.sum()) / input_tokens,
        "first_admission_prefix_cache_reused_ratio": int(counted.first_reuse.sum()) / input_tokens,
    }


def _latency_statistics(outcome: ReplayOutcome, latencies: Latencies) -> Report:
    gaps = summarize_gaps(outcome.gap_logs)
    return {
        "num_ttft_samples": len(latencies.ttft),
        "num_tpot_samples": len(latencies.tpot),
        "num_e2e_latency_samples": len(latencies.e2e),
        **_named("ttft_ms", summarize(latencies.ttft)),
        **_named("ttst_ms", summarize(latencies.ttst)),
        **_named("tpot_ms", summarize(latencies.tpot)),
        **_named("itl_ms", gaps.itl_ms),
        **_named("e2e_latency_ms", summarize(latencies.e2e)),
        **_named("output_token_throughput_per_user", gaps.rate_tok_s),
    }


def _after_the_burst(counted: Columns, latencies: Latencies) -> Report:
    """TTFT without the prompts that all came at the start of a closed loop (spec 08 section 4.1)."""
    later = counted.arrival_ns[counted.output_tokens > 0] > 0
    return _named("steady_ttft_ms", summarize(latencies.ttft[later]))


def _remarks(outcome: ReplayOutcome) -> Report:
    """How a pass is timed, where the times come from, and what a user should know."""
    report: Report = {"timing_mode": outcome.timing_mode}
    if outcome.look_ahead:
        report["scheduling_look_ahead"] = outcome.look_ahead
    if outcome.client is not None:
        report["frontend"] = outcome.client.frontend.named
    if outcome.provenance:
        report["provenance"] = dict(outcome.provenance)
    if outcome.notes:
        report["notes"] = list(outcome.notes)
    return report


def _named(metric: str, summary: Summary) -> Report:
    return {f"{statistic}_{metric}": value for statistic, value in summary._asdict().items()}
