"""Where a tool means something else by a name than we do, one line each (docs/metrics.md has them all)."""

from __future__ import annotations

_AIPERF = "aiperf: its inter_token_latency is per request; its inter_chunk_latency is compared as the gaps"
DEFINITIONS = {
    "vllm": (
        "vllm: its ITL is per chunk that arrived, not per token; percentiles are interpolated; "
        "TTFT starts when the request was sent, after any wait for --max-concurrency",
    ),
    "sglang": (
        "sglang: a chunk of several tokens counts as that many equal gaps; percentiles are interpolated",
    ),
    "aiperf": (_AIPERF,),
    "aiperf-records": (_AIPERF,),
    "guidellm": (
        "guidellm: its inter_token_latency weighs each request by its tokens, and is compared as that; "
        "time_per_output_token includes the first token",
    ),
    "inference-perf": (
        "inference-perf: tokens of one chunk count as gaps of 0; its inter_token_latency is per gap",
    ),
    "inference-perf-requests": ("inference-perf: tokens of one chunk count as gaps of 0",),
}
"""By format of `measured/formats.py`."""
