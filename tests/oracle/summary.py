"""The figures of the report, computed the plain way from every single token (spec 02 section 8)."""

from __future__ import annotations

import math
from itertools import pairwise

from aisimulate.core.units import to_ms

from .fleet import Outcome
from .request import Request

Figures = dict[str, float]


def summary(outcome: Outcome, workers: int, gpus_per_worker: int) -> Figures:
    """All metrics that do not depend on wall time or on an SLA."""
    counted = [request for request in outcome.requests if request.status == "completed"]
    duration_ms = to_ms(max((request.terminal_ns or 0 for request in counted), default=0))
    worker_s = workers * outcome.end_ns / 1e9
    figures: Figures = {
        "num_requests": len(outcome.requests),
        "completed_requests": len(counted),
        "duration_ms": duration_ms,
        "decode_worker_seconds": worker_s,
        "gpu_hours": worker_s * gpus_per_worker / 3600,
    }
    return figures | _volume(counted, max(duration_ms / 1000, 1e-9)) | _latencies(counted)


def _volume(counted: list[Request], duration_s: float) -> Figures:
    inputs = sum(request.isl for request in counted)
    outputs = sum(request.emitted for request in counted)
    first = sum(request.admissions[0][1] for request in counted)
    best = sum(max(reused for _, reused in request.admissions) for request in counted)
    return {
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "processed_tokens": inputs + outputs,
        "request_throughput_rps": len(counted) / duration_s,
        "input_throughput_tok_s": inputs / duration_s,
        "output_throughput_tok_s": outputs / duration_s,
        "total_throughput_tok_s": (inputs + outputs) / duration_s,
        "prefix_cache_reused_ratio": best / max(1, inputs),
        "first_admission_prefix_cache_reused_ratio": first / max(1, inputs),
    }


def _latencies(counted: list[Request]) -> Figures:
    tokens = [request for request in counted if request.token_ns]
    several = [request for request in tokens if request.emitted > 1]
    gaps = [b - a for request in several for a, b in pairwise(request.token_ns)]
    ttft = [to_ms(request.token_ns[0] - request.arrival_ns) for request in tokens]
    tpot = [to_ms(request.token_ns[-1] - request.token_ns[0]) / (request.emitted - 1) for request in several]
    return {
        "num_ttft_samples": len(tokens),
        "num_tpot_samples": len(several),
        "num_e2e_latency_samples": len(tokens),
        **_nine("ttft_ms", ttft),
        **_nine("ttst_ms", [to_ms(request.token_ns[1] - request.token_ns[0]) for request in several]),
        **_nine("tpot_ms", tpot),
        **_nine("itl_ms", [to_ms(gap) for gap in gaps]),
        **_nine("e2e_latency_ms", [to_ms(request.token_ns[-1] - request.arrival_ns) for request in tokens]),
        **_nine("output_token_throughput_per_user", [1e9 / gap for gap in gaps if gap > 0]),
    }


def _nine(metric: str, samples: list[float]) -> Figures:
    samples = sorted(samples) or [0.0]
    mean = math.fsum(samples) / len(samples)
    figures = {
        "mean": mean,
        "min": samples[0],
        "max": samples[-1],
        "std": math.sqrt(math.fsum((sample - mean) ** 2 for sample in samples) / len(samples)),
    }
    for name, percent in (("median", 50), ("p75", 75), ("p90", 90), ("p95", 95), ("p99", 99)):
        figures[name] = samples[math.floor((len(samples) - 1) * percent / 100 + 0.5)]
    return {f"{name}_{metric}": value for name, value in figures.items()}
