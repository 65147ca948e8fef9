"""The same few requests as each tool would write them down, by its own units and definitions."""

from __future__ import annotations

import json

import numpy as np

# Arrival (ms), prompt tokens, and the instants of the tokens after arrival (ms); one token per chunk.
REQUESTS = [
    (0.0, 512, [120.0, 140.0, 165.0, 180.0]),
    (50.0, 256, [90.0, 130.0, 150.0]),
    (110.0, 1024, [400.0, 420.0, 445.0, 460.0, 480.0, 505.0]),
    (300.0, 128, [60.0, 95.0]),
    (330.0, 700, [210.0, 240.0, 250.0, 275.0, 300.0]),
]
TTFT = [tokens[0] for _, _, tokens in REQUESTS]
E2E = [tokens[-1] for _, _, tokens in REQUESTS]
TPOT = [(tokens[-1] - tokens[0]) / (len(tokens) - 1) for _, _, tokens in REQUESTS]
GAPS = [list(np.diff(tokens)) for _, _, tokens in REQUESTS]
INPUTS = [float(inputs) for _, inputs, _ in REQUESTS]
OUTPUTS = [float(len(tokens)) for _, _, tokens in REQUESTS]
DURATION_S = max(arrival + tokens[-1] for arrival, _, tokens in REQUESTS) / 1000.0
FLAT_GAPS = [gap for gaps in GAPS for gap in gaps]
SAMPLES = {"ttft": TTFT, "tpot": TPOT, "itl": FLAT_GAPS, "e2e": E2E}
# An instant that no clock of a test could be confused with.
EPOCH_S = 1_700_000_000.0


def interpolated(values, percent):
    return float(np.percentile(values, percent))


def flat_statistics(names):
    found = {}
    for sample, theirs in names.items():
        values = SAMPLES[sample]
        found |= {
            f"mean_{theirs}_ms": float(np.mean(values)),
            f"median_{theirs}_ms": interpolated(values, 50),
            f"std_{theirs}_ms": float(np.std(values)),
            f"p99_{theirs}_ms": interpolated(values, 99),
        }
    return found


def flat_totals():
    return {
        "duration": DURATION_S,
        "completed": len(REQUESTS),
        "total_input_tokens": int(sum(INPUTS)),
        "total_output_tokens": int(sum(OUTPUTS)),
        "request_throughput": len(REQUESTS) / DURATION_S,
        "output_throughput": sum(OUTPUTS) / DURATION_S,
    }


def flat_details():
    """Seconds, with a failed request in the middle."""
    lists = {
        "input_lens": [int(value) for value in INPUTS],
        "output_lens": [int(value) for value in OUTPUTS],
        "ttfts": [value / 1000.0 for value in TTFT],
        "itls": [[gap / 1000.0 for gap in gaps] for gaps in GAPS],
        "generated_texts": ["..."] * len(REQUESTS),
        "errors": [""] * len(REQUESTS),
    }
    failed = {
        "input_lens": 9,
        "output_lens": 0,
        "ttfts": 0.0,
        "itls": [],
        "generated_texts": "",
        "errors": "gone",
    }
    return {name: [*values[:2], failed[name], *values[2:]] for name, values in lists.items()}


def vllm(*, detailed=True):
    names = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
    starts = [EPOCH_S + arrival / 1000.0 for arrival, _, _ in REQUESTS]
    result = {
        "date": "20260101-000000",
        "endpoint_type": "openai",
        "request_rate": "inf",
        "max_concurrency": 8,
        "failed": 1,
        "total_token_throughput": (sum(INPUTS) + sum(OUTPUTS)) / DURATION_S,
        "request_goodput": None,
        **flat_totals(),
        **flat_statistics(names),
    }
    if not detailed:
        return json.dumps(result)
    details = flat_details()
    details["start_times"] = [*starts[:2], EPOCH_S, *starts[2:]]
    return json.dumps(result | details)


def sglang(*, detailed=True):
    names = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2e_latency"}
    result = {
        "backend": "sglang",
        "request_rate": float("inf"),  # json writes Infinity
        "max_concurrency": 8,
        "input_throughput": sum(INPUTS) / DURATION_S,
        "accept_length": None,
        **flat_totals(),
        **flat_statistics(names),
    }
    return json.dumps(result | flat_details() if detailed else result) + "\n"


def aiperf(*, unit="ms"):
    scale = {"ms": 1.0, "sec": 1e-3, "us": 1e3}[unit]
    names = {
        "time_to_first_token": TTFT,
        "time_to_second_token": [gaps[0] for gaps in GAPS],
        "inter_token_latency": TPOT,
        "request_latency": E2E,
    }
    document = {
        name: {
            "unit": unit,
            "avg": float(np.mean(values)) * scale,
            "p50": interpolated(values, 50) * scale,
            "p99": interpolated(values, 99) * scale,
            "min": min(values) * scale,
            "max": max(values) * scale,
            "std": float(np.std(values)) * scale,
        }
        for name, values in names.items()
    }
    document["output_sequence_length"] = {"unit": "tokens", "avg": float(np.mean(OUTPUTS))}
    document["output_token_throughput_per_user"] = {
        "unit": "tokens/sec/user",
        "avg": float(np.mean([1000.0 / value for value in TPOT])),
    }
    document["request_count"] = {"unit": "requests", "avg": float(len(REQUESTS))}
    document["request_throughput"] = {"unit": "requests/sec", "avg": len(REQUESTS) / DURATION_S}
    document["output_token_throughput"] = {"unit": "tokens/sec", "avg": sum(OUTPUTS) / DURATION_S}
    document["benchmark_duration"] = {"unit": "sec", "avg": DURATION_S}
    return json.dumps(document, indent=2)


def _value(value, unit="ms"):
    return {"value": value, "unit": unit}


def aiperf_records():
    rows = [
        {
            "metadata": {"benchmark_phase": "warmup", "request_start_ns": 1},
            "metrics": {"time_to_first_token": _value(9999.0)},
            "error": None,
        },
        {
            "metadata": {"benchmark_phase": "profiling", "request_start_ns": 2, "was_cancelled": True},
            "metrics": {"error_isl": _value(4, "tokens")},
            "error": {"code": 499, "type": "RequestCancellationError", "message": "gone"},
        },
    ]
    for (arrival, inputs, tokens), tpot, gaps in zip(REQUESTS, TPOT, GAPS, strict=True):
        rows.append(
            {
                "metadata": {
                    "benchmark_phase": "profiling",
                    "request_start_ns": int(EPOCH_S * 1e9 + arrival * 1e6),
                    "was_cancelled": False,
                },
                "metrics": {
                    "input_sequence_length": _value(inputs, "tokens"),
                    "output_sequence_length": _value(len(tokens), "tokens"),
                    "time_to_first_token": _value(tokens[0] / 1000.0, "sec"),
                    "time_to_second_token": _value(gaps[0]),
                    "request_latency": _value(tokens[-1]),
                    "inter_token_latency": _value(tpot * 1000.0, "us"),
                    "inter_chunk_latency": _value(gaps),
                },
                "error": None,
            }
        )
    return "".join(json.dumps(row) + "\n" for row in rows)


def _distribution(values, weights=None):
    weights = [1.0] * len(values) if weights is None else weights
    order = np.argsort(values, kind="stable")
    ordered, shares = np.array(values)[order], np.array(weights)[order] / sum(weights)
    reached = np.cumsum(shares)
    mean = float(np.dot(ordered, shares))
    percentiles = {
        name: float(ordered[np.searchsorted(reached, share)])
        for name, share in {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99}.items()
    }
    return {
        "successful": {
            "mean": mean,
            "median": percentiles["p50"],
            "mode": mean,
            "std_dev": 1.0,
            "min": float(ordered[0]),
            "max": float(ordered[-1]),
            "count": len(values),
            "percentiles": percentiles,
        },
        "errored": {"mean": 0.0, "count": 0},
    }


def guidellm_benchmark(*, requests=True, rate=4.0):
    gaps = [value - 1.0 for value in OUTPUTS]
    benchmark = {
        "type_": "generative_benchmark",
        "config": {"strategy": {"type_": "constant", "rate": rate}},
        "metrics": {
            "request_totals": {"successful": len(REQUESTS), "errored": 1, "incomplete": 2, "total": 8},
            "requests_per_second": _distribution([len(REQUESTS) / DURATION_S]),
            "output_tokens_per_second": _distribution([sum(OUTPUTS) / DURATION_S]),
            "request_latency": _distribution([value / 1000.0 for value in E2E]),
            "time_to_first_token_ms": _distribution(TTFT),
            "inter_token_latency_ms": _distribution(TPOT, gaps),
            "time_per_output_token_ms": _distribution(
                [value / count for value, count in zip(E2E, OUTPUTS, strict=True)], OUTPUTS
            ),
            "prompt_token_count": _distribution(INPUTS),
            "output_token_count": _distribution(OUTPUTS),
        },
        "duration": DURATION_S,
    }
    if requests:
        benchmark["requests"] = {
            "successful": [_guidellm_row(*row) for row in zip(REQUESTS, TPOT, strict=True)]
        }
    return benchmark


def _guidellm_row(request, tpot):
    arrival, inputs, tokens = request
    start = EPOCH_S + arrival / 1000.0
    return {
        "request_id": "r",
        "info": {
            "timings": {
                "request_start": start,
                "first_token_iteration": start + tokens[0] / 1000.0,
                "last_token_iteration": start + tokens[-1] / 1000.0,
            }
        },
        "prompt_tokens": inputs,
        "output_tokens": len(tokens),
        "request_latency": tokens[-1] / 1000.0,
        "time_to_first_token_ms": tokens[0],
        "inter_token_latency_ms": tpot,
    }


def guidellm(*, requests=True, rates=(4.0,)):
    benchmarks = [guidellm_benchmark(requests=requests, rate=rate) for rate in rates]
    return json.dumps({"metadata": {"version": 2}, "benchmarks": benchmarks})


def _seconds(values):
    values = [value / 1000.0 for value in values]
    percentiles = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99, "p99.9": 99.9}
    return {
        "mean": float(np.mean(values)),
        "min": min(values),
        "max": max(values),
        **{name: interpolated(values, percent) for name, percent in percentiles.items()},
    }


def inference_perf():
    per_token = [value / count for value, count in zip(E2E, OUTPUTS, strict=True)]
    return json.dumps(
        {
            "load_summary": {"count": 6},
            "benchmark_time_seconds": DURATION_S,
            "successes": {
                "count": len(REQUESTS),
                "latency": {
                    "request_latency": _seconds(E2E),
                    "time_to_first_token": _seconds(TTFT),
                    "time_per_output_token": _seconds(TPOT),
                    "inter_token_latency": _seconds(FLAT_GAPS),
                    "normalized_time_per_output_token": _seconds(per_token),
                },
                "throughput": {
                    "requests_per_sec": len(REQUESTS) / DURATION_S,
                    "output_tokens_per_sec": sum(OUTPUTS) / DURATION_S,
                },
                "output_len": {"mean": float(np.mean(OUTPUTS))},
                "goodput_metrics": {"request_goodput": 1.5},
            },
            "failures": {"count": 1, "request_latency": None},
        }
    )


def inference_perf_requests():
    rows = [{"start_time": 1.0, "end_time": 2.0, "info": {}, "error": {"error_type": "x", "error_msg": "y"}}]
    for arrival, inputs, tokens in REQUESTS:
        start = 5000.0 + arrival / 1000.0
        rows.append(
            {
                "start_time": start,
                "end_time": start + tokens[-1] / 1000.0,
                "request": "{}",
                "info": {
                    "input_tokens": inputs,
                    "response_metrics": {
                        "output_tokens": len(tokens),
                        "output_token_times": [start + value / 1000.0 for value in tokens],
                    },
                },
                "error": None,
            }
        )
    return json.dumps(rows)


def own_records(scale=1.0):
    rows = [
        {
            "uuid": str(number),
            "arrival_time_ms": arrival,
            "first_admit_ms": arrival + 1.0,
            "first_token_ms": arrival + tokens[0] * scale,
            "last_token_ms": arrival + tokens[-1] * scale,
            "ttft_ms": tokens[0] * scale,
            "ttst_ms": (tokens[1] - tokens[0]) * scale,
            "itl_ms": tpot * scale,
            "e2e_latency_ms": tokens[-1] * scale,
            "input_length": inputs,
            "output_length": len(tokens),
            "terminal_status": "completed",
        }
        for number, ((arrival, inputs, tokens), tpot) in enumerate(zip(REQUESTS, TPOT, strict=True))
    ]
    rows.append({"uuid": "x", "arrival_time_ms": 1.0, "terminal_status": "rejected"})
    return "".join(json.dumps(row) + "\n" for row in rows)
