"""Prefill workers with host memory in a pair of pools."""

from __future__ import annotations

from typing import Any

import pytest

from aisimulate.core.errors import UnsupportedError
from aisimulate.replay.execute import execute

HOST = {"num_host_blocks": 16, "d2h_bandwidth_gbps": 1.0, "h2d_bandwidth_gbps": 1.0}
RANK: dict[str, Any] = {
    "num_gpu_blocks": 4,
    "block_size": 4,
    "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
    "kv_cache_bytes_per_token": 250_000,
}


def serve(prefill: dict[str, Any], dp_size: int = 1, requests: int = 3) -> dict[str, Any]:
    """Two prompts of three full blocks by turns, on a GPU that holds one; copies take 1 ms for a block."""
    decode = {key: value for key, value in RANK.items() if key != "kv_cache_bytes_per_token"}
    spec = {
        "topology": {
            "kind": "disaggregated",
            "prefill": {"initial_workers": 1},
            "decode": {"initial_workers": 1},
        },
        "engine": {
            "prefill": {"rank": RANK | prefill, "dp_size": dp_size},
            "decode": {"rank": decode | {"num_gpu_blocks": 64}},
        },
        "record_per_request": True,
        "requests": [
            {
                "id": f"r{number}",
                "arrival_time_ms": 100.0 * number,
                "input_tokens": 13,
                "input_token_ids": list(
                    range(1000 * (number // dp_size % 2), 1000 * (number // dp_size % 2) + 13)
                ),
                "output_tokens": 2,
            }
            for number in range(requests)
        ],
    }
    return execute({"spec": spec})


def test_a_prefill_worker_restores_a_prompt_and_hands_it_over():
    report = serve({"native_host_offload": HOST})
    third = report["per_request"][2]
    assert third["prefill_admit_ms"] == 203.0  # three blocks in 3 ms
    assert third["source_held_ms"] == 213.0
    assert (third["reused_input_tokens"], third["first_admission_host_reused_input_tokens"]) == (12, 12)
    assert report["first_admission_reused_tokens_by_tier"] == {"device": 0, "host": 12, "disk": 0}


def test_every_rank_of_a_group_has_its_own():
    """Requests go to the ranks by turns: the fifth and sixth come back to where the first two were."""
    report = serve({"native_host_offload": HOST}, dp_size=2, requests=6)
    reused = [row["first_admission_host_reused_input_tokens"] for row in report["per_request"]]
    assert reused == [0, 0, 0, 0, 12, 12]


def test_without_host_memory_nothing_comes_back():
    assert [row["reused_input_tokens"] for row in serve({})["per_request"]] == [0, 0, 0]


@pytest.mark.parametrize(
    ("stage", "tiers", "text"),
    [
        (
            "decode",
            {"native_host_offload": HOST, "prefill_schedule_interval": 2},
            "native_host_offload: .* not supported with dp_size 2 and prefill_schedule_interval 2 on decode",
        ),
        (
            "prefill",
            {"native_host_offload": HOST, "g3_offload": {"scope": "worker_local", "num_g3_blocks": 9}},
            "g3_offload: .* not supported in a disaggregated topology",
        ),
    ],
)
def test_what_has_no_rule_is_refused(stage, tiers, text):
    roles = {role: tiers if role == stage else {} for role in ("prefill", "decode")}
    engine = {role: {"dp_size": 1 + (role == "decode"), "rank": RANK | more} for role, more in roles.items()}
    pools = {role: {"initial_workers": 1} for role in engine}
    requests = [{"id": "a", "arrival_time_ms": 0.0, "input_tokens": 9, "output_tokens": 2}]
    spec = {"topology": {"kind": "disaggregated", **pools}, "engine": engine, "requests": requests}
    with pytest.raises(UnsupportedError, match=text):
        execute({"spec": spec})
