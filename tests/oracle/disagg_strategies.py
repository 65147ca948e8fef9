"""Hypothesis strategies of small, nasty disaggregated replays."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .sglang_strategies import VLLM_ONLY, sglang_settings
from .strategies import ROUND_TIMES, TRACE, Scenario, draw_synthetic, draw_trace, ranks

ADDITIVE = {"timing_mode": "additive"}  # no worker has passes to fuse


@st.composite
def disagg_scenarios(draw: st.DrawFn) -> Scenario:
    """Whole payloads: pools of different size and shape, all kinds of transfer, sometimes cut short."""
    rank = draw(_pair_ranks())
    link = draw(_links())
    prefill = {**rank, **link, "preemption_mode": "lifo"}
    decode = {**rank, **link, **draw(_decode_settings(rank["backend"]))}
    rows: list[dict[str, Any]] | None = None
    if draw(st.integers(0, 3)):
        traffic, rows = draw(draw_trace(rank, "mooncake", True))
    else:
        traffic = draw(draw_synthetic(decode))
    spec = _spec(draw, prefill, decode)
    if draw(st.integers(0, 5)) == 5:
        spec["max_sim_time_ms"] = draw(st.sampled_from([0.0, 10.0, 22.0, 60.0, 150.0]))
    return Scenario({"spec": spec, "traffic": traffic}, rows)


@st.composite
def crowded_disagg_scenarios(draw: st.DrawFn) -> Scenario:
    """Decode pools with hardly any room, where destinations wait, and instants that coincide."""
    blocks = draw(st.sampled_from([4, 6, 8, 12]))
    rank = draw(_pair_ranks()) | {"num_gpu_blocks": 24, "block_size": 4, "max_model_len": None}
    rank["timing_model"] = draw(st.sampled_from([ROUND_TIMES, {"type": "polynomial"}]))
    rank |= {"enable_chunked_prefill": True, "max_num_batched_tokens": draw(st.sampled_from([8, 16, 64]))}
    link = draw(_links())
    decode = {**rank, **link, "num_gpu_blocks": blocks, "max_num_seqs": draw(st.sampled_from([1, 2, 3, 8]))}
    decode["max_num_batched_tokens"] = draw(st.sampled_from([4, 8, 64]))
    rows, now_ms = [], 0.0
    for line in range(1, draw(st.integers(3, 12)) + 1):
        length, output = draw(st.integers(1, 4 * blocks + 2)), draw(st.sampled_from([0, 0, 1, 3, 8, 20]))
        stem = draw(st.integers(0, 3)) or line  # equal stems share their prompts
        ids = [1000 * stem + k for k in range(-(-length // 4))]
        rows.append({"timestamp": now_ms, "input_length": length, "output_length": output, "hash_ids": ids})
        now_ms += draw(st.sampled_from([0.0, 0.0, 1.5, 4.0, 8.0, 40.0]))
    traffic: dict[str, Any] = {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": 4}
    if cap := draw(st.sampled_from([None, None, 2, 5])):
        traffic["replay_concurrency"] = cap
    return Scenario({"spec": _spec(draw, {**rank, **link}, decode), "traffic": traffic}, rows)


@st.composite
def sglang_pair_scenarios(draw: st.DrawFn) -> Scenario:
    """The same pools with the rules of SGLang, where destinations are reserved first."""
    scenario = draw(st.one_of(disagg_scenarios(), crowded_disagg_scenarios()))
    spec = scenario.payload["spec"]
    settings, size = draw(sglang_settings()), draw(st.sampled_from([1, 2, 4]))
    roles = {}
    for stage, role in spec["engine"].items():
        rank = {name: value for name, value in role["rank"].items() if name not in VLLM_ONLY}
        rank.pop("prefill_schedule_interval", None)
        rank["num_gpu_blocks"] = rank["num_gpu_blocks"] * rank["block_size"] // size
        roles[stage] = role | {"rank": rank | settings | {"block_size": size}}
    return Scenario(scenario.payload | {"spec": spec | {"engine": roles}}, scenario.rows)


@st.composite
def _pair_ranks(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(ranks()) | ADDITIVE
    if rank["backend"] == "vllm" and draw(st.integers(0, 3)) == 3:
        rank["prefill_schedule_interval"] = draw(st.sampled_from([2, 3, 7]))
    return rank


def _spec(draw: st.DrawFn, prefill: dict[str, Any], decode: dict[str, Any]) -> dict[str, Any]:
    pools = {role: {"initial_workers": draw(st.integers(1, 3))} for role in ("prefill", "decode")}
    dp_sizes = draw(st.sampled_from([(1, 1), (1, 1), (1, 1), (2, 1), (1, 2), (2, 2)]))
    return {
        "version": 1,
        "topology": {
            "kind": "disaggregated",
            **pools,
            "handoff_latency_ms": draw(st.sampled_from([0.0, 0.0, 4.0, 3.25])),
        },
        "engine": {
            "prefill": {"dp_size": dp_sizes[0], "tensor_parallel_size": 1, "rank": prefill},
            "decode": {"dp_size": dp_sizes[1], "tensor_parallel_size": 1, "rank": decode},
        },
        "record_per_request": True,
        "requests": [],
    }


@st.composite
def _links(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        return {}
    return {
        "kv_transfer_bytes_per_token": draw(st.sampled_from([1_000_000, 250_000])),
        "kv_transfer_bandwidth": draw(st.sampled_from([0.5, 1.0, 4.0, 0.0])),
        "kv_transfer_timing_mode": draw(st.sampled_from(["full_prompt", "destination_missing"])),
    }


@st.composite
def _decode_settings(draw: st.DrawFn, backend: str) -> dict[str, Any]:
    if draw(st.booleans()):
        return {}
    return {
        "num_gpu_blocks": draw(st.sampled_from([64, 24, 12, 8, 4])),
        "max_num_seqs": draw(st.sampled_from([16, 4, 2, 1])),
        "max_num_batched_tokens": draw(st.sampled_from([64, 16, 8, 4])),
        "enable_prefix_caching": draw(st.booleans()),
        "preemption_mode": draw(st.sampled_from(["lifo", "fifo"])) if backend == "vllm" else "lifo",
        "max_model_len": draw(st.sampled_from([None, None, 40, 20])),
    }
