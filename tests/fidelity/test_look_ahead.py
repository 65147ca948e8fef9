"""Uncalibrated, with measured pass times: how long a real vLLM took from scheduling to the first token."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from aisimulate.replay.execute import execute

LOG = Path(__file__).parents[1] / "data" / "fidelity" / "llama-8b-rtx-pro-6000.requests.jsonl"
AIC = {"model": "meta-llama/Meta-Llama-3.1-8B", "backend": "vllm", "system": "rtx_pro_6000_server", "tp": 1}
RANK = {
    "backend": "vllm",
    "block_size": 16,
    "max_num_seqs": 128,
    "max_num_batched_tokens": 2048,
    "timing_model": {"type": "external", "provider": "aic", "config": AIC},
}


def median_error(look_ahead: int) -> float:
    """Median of |simulated / measured - 1| over the requests of the log."""
    logged = {row["request_id"]: row for row in map(json.loads, LOG.read_text().splitlines())}
    first = min(row["arrival_time"] for row in logged.values())
    requests = [
        {
            "id": name,
            "arrival_time_ms": (row["arrival_time"] - first) * 1e3,
            "input_tokens": row["input_toks"],
            "output_tokens": row["output_toks"],
        }
        for name, row in logged.items()
    ]
    topology = {"kind": "aggregated", "workers": {"initial_workers": 1}}
    engine = {"rank": RANK | {"scheduling_look_ahead": look_ahead}}
    report = execute({"spec": {"topology": topology, "engine": engine, "requests": requests}})
    assert report["completed_requests"] == len(logged) == 300
    errors = []
    for record in report["per_request"]:
        row = logged[record["request_id"]]
        measured_ms = (row["first_token_ts"] - row["scheduled_ts"]) * 1e3
        errors.append(abs((record["first_token_ms"] - record["first_admit_ms"]) / measured_ms - 1))
    return median(errors)


def test_look_ahead_is_most_of_the_time_from_scheduling_to_the_first_token() -> None:
    assert median_error(0) > 0.3
    assert median_error(1) <= 0.15
