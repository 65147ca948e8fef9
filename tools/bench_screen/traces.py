"""The screen of traces against replays of the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tools.bench_screen.candidates import estimated, measured, problem
from tools.bench_screen.figures import accuracy
from tools.bench_screen.lines import Line, percent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SLA = {"ttft_ms": 3000, "itl_ms": 40}
_METRICS = {
    "goodput/GPU": ("goodput_output_throughput_tok_s", "goodput_tok_s"),
    "tok/s": ("output_throughput_tok_s", "output_tok_s"),
    "tok/s/user": ("mean_output_token_throughput_per_user", "tok_s_user"),
    "mean TTFT": ("mean_ttft_ms", "ttft_ms"),
    "mean e2e": ("mean_e2e_latency_ms", "e2e_ms"),
}
# Model, GPUs, first row: pools from overload to underload.
_SETS: dict[str, tuple[str, int, int]] = {
    "Qwen3-32B rows 0-1,500": ("Qwen/Qwen3-32B", 16, 0),
    "Qwen3-32B rows 6,000-7,500": ("Qwen/Qwen3-32B", 16, 6000),
    "Llama-70B rows 3,000-4,500": ("meta-llama/Meta-Llama-3.1-70B", 32, 3000),
}
_ROWS = 1500


def trace_lines(trace: Path, folder: Path, each: int, seed: int) -> Iterator[Line]:
    """Compare estimates with replays of the same rows of a Mooncake trace; `folder` takes the cuts."""
    rows = trace.read_text().splitlines()
    for name, (model, gpus, first) in _SETS.items():
        cut = folder / f"rows_{first}.jsonl"
        cut.write_text("\n".join(rows[first : first + _ROWS]))
        yield from _set_lines(name, model, gpus, str(cut), each, seed)


def _set_lines(name: str, model: str, gpus: int, path: str, each: int, seed: int) -> Iterator[Line]:
    space: dict[str, Any] = {
        "model_name": model,
        "hardware_sku": "h200_sxm",
        "gpu_budget": gpus,
        "backend": ["vllm", "sglang"],
        "deployment_mode": ["agg", "disagg"],
    }
    goal = {"target": "goodput_per_gpu", "sla": _SLA}
    asked = problem(name, space, {"trace_path": path}, goal)
    done = measured(asked, each, seed)
    estimates = estimated(asked, done)
    gpus_used = np.array([each.prepared.config["used_gpus"] for each in done])
    for metric, (key, field) in _METRICS.items():
        truth = np.array([each.metrics[key] for each in done])
        guess = getattr(estimates, field)
        per = gpus_used if metric == "goodput/GPU" else 1
        found_accuracy = accuracy(truth / per, guess / per)
        yield Line(
            f"{name}, {metric} ({len(done)})",
            f"rank {found_accuracy.spearman:.4f}, median {percent(found_accuracy.median)}, "
            f"p90 {percent(found_accuracy.p90)}",
            "rank >= .97",
            found_accuracy.spearman >= 0.97,
        )
