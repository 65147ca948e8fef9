"""What results look like, without a search."""

from __future__ import annotations

from typing import Any

import pytest

from aisimulate.replay.execute import execute
from aisimulate.report.envelope import envelope_text
from aisimulate.report.folding import fold
from aisimulate.report.launch import launch_lines, surrounding_lines
from aisimulate.report.numbers import number_text, share_text
from aisimulate.report.ranking import ranking_lines, ranking_text
from aisimulate.report.replay_table import replay_text
from aisimulate.report.shapes import (
    gpus_text,
    knobs_text,
    replicas_text,
    shape_text,
    telling_fields,
)
from aisimulate.report.winner import served_text
from aisimulate.spica.config import Candidate, OptimizationGoal

AGG = {
    "deployment_mode": "agg",
    "backend": "vllm",
    "model_name": "acme/moe",
    "tp": 1,
    "pp": 1,
    "attention_dp": 8,
    "moe_tp": 1,
    "moe_ep": 8,
    "strategy": "dep",
    "replicas": 2,
    "used_gpus": 16,
    "agg_max_num_batched_tokens": 8192,
    "agg_max_num_seqs": 256,
    "agg_block_size": 64,
    "agg_gpu_memory_utilization": 0.85,
    "agg_enable_prefix_caching": False,
    "context_length": 4096,
    "router_mode": "round_robin",
}
DISAGG = {
    "deployment_mode": "disagg",
    "backend": "sglang",
    "prefill_tp": 4,
    "prefill_pp": 1,
    "prefill_attention_dp": 1,
    "prefill_strategy": "tep",
    "prefill_replicas": 3,
    "decode_tp": 1,
    "decode_pp": 1,
    "decode_attention_dp": 8,
    "decode_strategy": "dep",
    "decode_replicas": 1,
    "prefill_max_num_batched_tokens": 16384,
    "prefill_max_num_seqs": 4,
    "decode_max_num_batched_tokens": 8192,
    "decode_max_num_seqs": 512,
    "router_mode": "kv_router",
    "enable_load_scaling": True,
    "planner_scaling_policy": "load_180_5",
    "kv_load_ratio": 0.5,
    "concurrency": 77,
}


def candidate(score=1.0, config=AGG, **metrics) -> Candidate:
    return Candidate(config=config, used_gpus=16, score=score, metrics=metrics)


def test_shapes_are_named_by_strategy_and_size():
    assert (shape_text(AGG), replicas_text(AGG)) == ("DEP8", "2")
    assert (shape_text(DISAGG), replicas_text(DISAGG)) == ("TEP4 | DEP8", "3 | 1")


def test_rows_that_would_look_alike_name_the_router_and_planner_settings_that_differ():
    goal = OptimizationGoal()
    routed = AGG | {"router_mode": "kv_router", "overlap_score_credit": 1.0, "prefill_load_scale": 1.0}
    rows = [candidate(2.0, routed), candidate(1.0, routed | {"prefill_load_scale": 4.0}, mean_itl_ms=1.0)]
    assert telling_fields(rows) == ("prefill_load_scale",)
    text = ranking_text(goal, rows, 10)
    assert "vllm kv_router prefill_load_scale=1.0 " in text
    assert "vllm kv_router prefill_load_scale=4.0 " in text
    assert "prefill_load_scale=" not in ranking_text(goal, rows[:1], 10)
    assert telling_fields([rows[0], candidate(1.0, AGG)]) == ()  # the router is named already


def test_a_scaled_deployment_tells_the_gpus_it_had_on_average():
    scaled = AGG | {"enable_load_scaling": True, "planner_scaling_policy": "load_180_5"}
    assert gpus_text(candidate(1.0, scaled, avg_gpu=20.04)) == "16, avg 20.0"
    assert gpus_text(candidate(1.0, AGG, avg_gpu=16.0)) == "16"


def test_launch_names_the_router_and_the_planner_that_the_command_does_not_start():
    assert surrounding_lines(AGG) == []
    config = AGG | {
        "router_mode": "kv_router",
        "prefill_load_scale": 4.0,
        "router_temperature": 0.2,
        "enable_load_scaling": True,
        "planner_scaling_policy": "load_180_5",
        "load_adjustment_interval_seconds": 5,
    }
    assert surrounding_lines(config) == [
        "# in front of them: kv_router, prefill_load_scale 4.0, router_temperature 0.2",
        "# beside them: a planner, load_180_5, load_adjustment_interval_seconds 5",
    ]
    full = {"moe_ep": 1, "num_g2_blocks": 0} | config
    assert "  # beside them: a planner, load_180_5" in ranking_text(
        OptimizationGoal(), [candidate(1.0, full)], 1
    )


def test_knobs_name_only_what_was_chosen():
    assert knobs_text(AGG) == "8192/256 vllm"
    assert knobs_text(DISAGG) == "16384/4 | 8192/512 sglang kv_router policy load_180_5 c=77"


def test_launch_arguments():
    assert launch_lines(AGG) == [
        "# agg: 2 replicas of\n"
        "vllm serve acme/moe --tensor-parallel-size 1 --data-parallel-size 8 --enable-expert-parallel "
        "--max-num-batched-tokens 8192 --max-num-seqs 256 --block-size 64 --gpu-memory-utilization 0.85 "
        "--no-enable-prefix-caching --max-model-len 4096"
    ]


def test_launch_arguments_of_sglang():
    assert launch_lines(AGG | {"backend": "sglang"}) == [
        "# agg: 2 replicas of\n"
        "python -m sglang.launch_server --model-path acme/moe --tp-size 8 --dp-size 8 --enable-dp-attention "
        "--ep-size 8 --chunked-prefill-size 8192 --max-prefill-tokens 16384 --schedule-policy fcfs "
        "--max-running-requests 2048 --page-size 64 --mem-fraction-static 0.85 "
        "--disable-radix-cache --context-length 4096"
    ]


def test_launch_arguments_of_both_roles_of_sglang_with_drafts():
    rest: dict[str, Any] = {"backend": "sglang", "model_name": "acme/moe", "aic_nextn": 2}
    for role in ("prefill", "decode"):
        rest |= {f"{role}_block_size": 1, f"{role}_gpu_memory_utilization": 0.9, f"{role}_moe_ep": 1}
        rest[f"{role}_enable_prefix_caching"] = role == "prefill"
    prefill, decode = launch_lines(DISAGG | rest)
    assert prefill == (
        "# prefill: 3 replicas of\n"
        "python -m sglang.launch_server --model-path acme/moe --tp-size 4 --chunked-prefill-size 8192 "
        "--max-prefill-tokens 16384 --schedule-policy fcfs --max-running-requests 4 --page-size 1 "
        "--mem-fraction-static 0.9 --speculative-algorithm EAGLE --speculative-num-steps 2 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 3 "
        "--disaggregation-mode prefill --disaggregation-transfer-backend nixl"
    )
    assert "--disable-radix-cache" in decode
    assert decode.endswith("--disaggregation-mode decode --disaggregation-transfer-backend nixl")


def test_launch_arguments_of_host_memory():
    offload = {"num_g2_blocks": 1024, "kv_bytes_per_token": 65_536, "tp": 2}
    [command] = launch_lines(AGG | offload)
    assert "--kv-offloading-backend native --kv-offloading-size 8" in command


def test_launch_arguments_of_both_roles():
    rest: dict[str, Any] = {"prefill_enable_prefix_caching": True, "decode_enable_prefix_caching": False}
    for role in ("prefill", "decode"):
        rest |= {f"{role}_block_size": 64, f"{role}_gpu_memory_utilization": 0.9, f"{role}_moe_ep": 1}
    prefill, decode = launch_lines(DISAGG | rest | {"backend": "vllm", "model_name": "acme/moe"})
    assert prefill == (
        "# prefill: 3 replicas of\n"
        "vllm serve acme/moe --tensor-parallel-size 4 --max-num-batched-tokens 16384 --max-num-seqs 4 "
        "--block-size 64 --gpu-memory-utilization 0.9 --enable-prefix-caching "
        """--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_producer"}'"""
    )
    assert decode.startswith("# decode: 1 replica of\nvllm serve acme/moe --tensor-parallel-size 1 ")
    assert decode.endswith(
        """--no-enable-prefix-caching --kv-transfer-config """
        """'{"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}'"""
    )


def test_launch_arguments_of_both_roles_of_tensorrt_llm():
    rest: dict[str, Any] = {"backend": "trtllm", "model_name": "acme/moe"}
    for role in ("prefill", "decode"):
        rest |= {f"{role}_block_size": 32, f"{role}_gpu_memory_utilization": 0.9, f"{role}_moe_ep": 1}
        rest[f"{role}_enable_prefix_caching"] = role == "prefill"
    prefill, decode = launch_lines(DISAGG | rest)
    assert prefill == (
        "# prefill: 3 replicas of\n"
        "trtllm-serve acme/moe --tp_size 4 --max_num_tokens 16384 --max_batch_size 4 "
        "--kv_cache_free_gpu_memory_fraction 0.9 --extra_llm_api_options trtllm-prefill.yaml\n"
        "# trtllm-prefill.yaml:\n"
        "#   enable_attention_dp: false\n"
        "#   enable_chunked_prefill: true\n"
        "#   kv_cache_config: {enable_block_reuse: true, tokens_per_block: 32, "
        "free_gpu_memory_fraction: 0.9}\n"
        "#   scheduler_config: {capacity_scheduler_policy: GUARANTEED_NO_EVICT}\n"
        "#   cache_transceiver_config: {backend: DEFAULT}\n"
        "#   disable_overlap_scheduler: true"
    )
    assert decode.startswith("# decode: 1 replica of\ntrtllm-serve acme/moe --tp_size 8 ")
    assert decode.endswith(
        "# trtllm-decode.yaml:\n"
        "#   enable_attention_dp: true\n"
        "#   enable_chunked_prefill: true\n"
        "#   kv_cache_config: {enable_block_reuse: false, tokens_per_block: 32, "
        "free_gpu_memory_fraction: 0.9}\n"
        "#   scheduler_config: {capacity_scheduler_policy: GUARANTEED_NO_EVICT}\n"
        "#   cache_transceiver_config: {backend: DEFAULT}"
    )


def test_launch_arguments_of_tensorrt_llm():
    config = AGG | {"backend": "trtllm", "agg_block_size": 32, "aic_nextn": 1}
    assert launch_lines(config) == [
        "# agg: 2 replicas of\n"
        "trtllm-serve acme/moe --tp_size 8 --max_num_tokens 8192 --max_batch_size 256 "
        "--kv_cache_free_gpu_memory_fraction 0.85 --ep_size 8 --max_seq_len 4096 "
        "--extra_llm_api_options trtllm.yaml\n"
        "# trtllm.yaml:\n"
        "#   enable_attention_dp: true\n"
        "#   enable_chunked_prefill: true\n"
        "#   kv_cache_config: {enable_block_reuse: false, tokens_per_block: 32, "
        "free_gpu_memory_fraction: 0.85}\n"
        "#   scheduler_config: {capacity_scheduler_policy: GUARANTEED_NO_EVICT}\n"
        "#   speculative_config: {decoding_type: MTP, num_nextn_predict_layers: 1}"
    ]


def test_launch_arguments_of_drafts():
    [line] = launch_lines(AGG | {"aic_nextn": 2})
    assert line.endswith(""" --speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'""")


def test_only_equal_measurements_of_equal_workers_are_folded():
    other = AGG | {"replicas": 1}
    folds = fold([candidate(x=1.0), candidate(x=2.0), candidate(x=1.0), candidate(config=other, x=1.0)])
    assert [(item.candidate.metrics["x"], item.others) for item in folds] == [(1.0, 1), (2.0, 0), (1.0, 0)]


def test_the_table_shows_latency_in_natural_units_and_every_share():
    goal = OptimizationGoal.model_validate({"target": "e2e_latency", "sla": {"e2e_ms": 9000}})
    metrics = {
        "mean_e2e_latency_ms": 1234.0,
        "goodput_completed_requests": 3.0,
        "num_requests": 8.0,
        "completed_requests": 4.0,
        "median_ttft_ms": 10.0,
        "p99_ttft_ms": 20.0,
        "mean_output_token_throughput_per_user": 50.0,
        "prefix_cache_reused_ratio": 0.25,
    }
    out = ranking_text(goal, [candidate(-1234.0, **metrics)], 5)
    row = next(line for line in out.splitlines() if "DEP8" in line)
    assert (
        " ".join(row.split())
        == "1 DEP8 2 16 8192/256 vllm 1,234.0 0.0 50.0 37.5% 10.0 / 20.0 - / - / - 25.0%"
    )
    assert "requests: 4 of 8 completed, 3 within the SLA" in out


def test_scalar_lines_keep_the_full_score():
    lines = ranking_lines(OptimizationGoal(), [candidate(0.1), candidate(1 / 3)], None)
    assert lines == ["0: score=0.1 used_gpus=16", "1: score=0.3333333333333333 used_gpus=16"]


def test_results_never_hold_a_number_that_is_none():
    assert envelope_text({"b": 1, "a": 2.5}) == '{\n  "a": 2.5,\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        envelope_text({"a": float("nan")})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"),
        (227, "227.0"),
        (12345.678, "12,345.7"),
        (1e15, "1,000,000,000,000,000.0"),
        (10, "10.0"),
        (9.87654, "9.877"),
        (-0.0312345, "-0.03123"),
        (1.23456e-7, "0.0000001235"),
    ],
)
def test_numbers_have_no_exponent(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0%"), (0.0004, "<0.1%"), (0.734, "73.4%"), (0.99, "99.0%"), (0.9999, ">99.9%"), (1, "100.0%")],
)
def test_a_share_never_rounds_to_none_or_all(share, text):
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("rejections", "text"),
    [
        ({}, ""),
        ({"rejected_requests": 61, "rejected_requests.too_long": 61}, ", 61 rejected: too_long"),
        ({"rejected_requests": 3}, ", 3 rejected"),
        (
            {"rejected_requests": 1061, "rejected_requests.b": 1060, "rejected_requests.a": 1},
            ", 1,061 rejected (1,060 b, 1 a)",
        ),
        ({"rejected_requests": 0, "unfinished_requests": 2}, ", 2 unfinished"),
    ],
)
def test_what_was_not_served_is_told(rejections, text):
    served = served_text(candidate(completed_requests=8, num_requests=4000, **rejections))
    assert served == f"requests: 8 of 4,000 completed{text}"


@pytest.mark.parametrize(("rejected", "is_told"), [(0, False), (40, False), (41, True), (3999, True)])
def test_a_winner_that_rejects_much_of_the_work_is_told(rejected, is_told):
    metrics = {"rejected_requests": rejected, "rejected_requests.too_long": rejected}
    one = candidate(completed_requests=4000 - rejected, num_requests=4000, **metrics)
    text = f"note: it rejects {share_text(rejected / 4000)} of the requests: too_long; its figures are of"
    lines = ranking_text(OptimizationGoal(), [one], 5).splitlines()
    assert any(line.startswith(text) for line in lines) is is_told


def test_where_nothing_completed_there_are_no_latencies():
    payload = payload_of_one_request()
    payload["engine"] = {"rank": {"num_gpu_blocks": 1, "block_size": 4}}
    report = execute(payload) | {"confidence": {"grade": "high", "reasons": []}}
    assert report["rejected_requests"] == 1
    text = replay_text(report)
    (reason,) = report["rejection_reasons"]
    assert f"note: all 1 requests were rejected ({reason}): there is nothing to measure" in text
    assert "confidence" not in text
    rows = [line.split() for line in text.splitlines() if "(ms)" in line]
    assert len(rows) == 5
    assert all(row[-7:] == ["N/A"] * 7 for row in rows)


def test_the_itl_column_shows_the_longest_stall():
    metrics = {"median_itl_ms": 18.4, "p99_itl_ms": 9.0, "max_itl_ms": 12345.6}
    out = ranking_text(OptimizationGoal(), [candidate(**metrics)], 5)
    assert "ITL ms p50/p99/max" in out
    assert "18.4 / 9.0 / 12,345.6" in out


def test_a_replay_tells_what_must_be_known_of_its_data_once():
    report = execute(payload_of_one_request()) | {
        "provenance": {"prefill": {"advisories": ["slow"]}, "decode": {"advisories": ["slow", "old"]}}
    }
    *_, first, second, evidence = replay_text(report).splitlines()
    assert [first, second] == ["note: slow", "note: old"]
    assert evidence.startswith("evidence: simulated with ")


def payload_of_one_request() -> dict[str, Any]:
    return {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "requests": [{"id": "a", "arrival_time_ms": 0.0, "input_tokens": 8, "output_tokens": 2}],
    }
