"""The metrics that results of different tools are brought to; docs/metrics.md says who calls them what."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

VALUE = "value"
"""The statistic of a metric that is one number of the whole run."""

STATISTICS = ("mean", "p50", "p75", "p90", "p95", "p99", "min", "max", "std", VALUE)
"""All statistics, in the order in which they are shown."""

_OUR_NAMES = {"avg": "mean", "median": "p50", "std_dev": "std"}

TITLES = {
    "ttft_ms": "Time to first token, ms",
    "ttst_ms": "Time from first to second token, ms",
    "tpot_ms": "Inter-token latency per request, ms",
    "weighted_tpot_ms": "Inter-token latency per request, weighted by tokens, ms",
    "itl_ms": "Inter-token latency per gap, ms",
    "e2e_latency_ms": "Request latency, ms",
    "ntpot_ms": "Request latency per output token, ms",
    "weighted_ntpot_ms": "Request latency per output token, weighted by tokens, ms",
    "user_rate_tok_s": "Output rate of a request after its first token, tok/s",
    "gap_rate_tok_s": "Output rate in a gap, tok/s",
    "input_tokens": "Prompt length, tokens",
    "output_tokens": "Output length, tokens",
    "output_throughput_tok_s": "Output throughput, tok/s",
    "input_throughput_tok_s": "Prompt throughput, tok/s",
    "total_throughput_tok_s": "Throughput of all tokens, tok/s",
    "request_throughput_rps": "Request throughput, 1/s",
    "goodput_request_throughput_rps": "Goodput, requests/s",
    "duration_ms": "Duration, ms",
    "completed_requests": "Completed requests",
    "failed_requests": "Failed requests",
}
"""All metrics by name, of which the unit is a part, in the order in which they are shown."""

LATENCIES = ("ttft_ms", "ttst_ms", "tpot_ms", "itl_ms", "e2e_latency_ms")
"""What is drawn as a distribution."""


def named(told: Mapping[str, float | None], scale: float = 1.0) -> dict[str, float]:
    """Give the statistics that a file tells under our names, multiplied by `scale`."""
    return {_OUR_NAMES.get(name, name): value * scale for name, value in told.items() if value is not None}
