"""Small replays for the tests of observers, and what of their reports is simulated."""

from __future__ import annotations

from typing import Any

RANK: dict[str, Any] = {
    "backend": "vllm",
    "num_gpu_blocks": 64,
    "block_size": 4,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 64,
    "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0},
}

_OF_REAL_TIME = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}


def payload(
    requests: list[tuple[float, int, int]], *, workers: int = 1, dp_size: int = 1, **rank: Any
) -> dict[str, Any]:
    """A replay of requests given as (arrival in ms, input tokens, output tokens)."""
    return {
        "version": 1,
        "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
        "engine": {"dp_size": dp_size, "tensor_parallel_size": 1, "rank": RANK | rank},
        "record_per_request": True,
        "requests": [
            {"id": f"r{number}", "arrival_time_ms": now_ms, "input_tokens": isl, "output_tokens": osl}
            for number, (now_ms, isl, osl) in enumerate(requests)
        ],
    }


BASE = payload([(0.0, 8, 3)])


def simulated_part(report: dict[str, Any]) -> dict[str, Any]:
    """A report without what depends on the machine, nor on the order in which the gaps are summed up."""
    return {
        key: float(f"{value:.12g}") if key.startswith("std_") or key.endswith("_per_user") else value
        for key, value in report.items()
        if key not in _OF_REAL_TIME
    }
