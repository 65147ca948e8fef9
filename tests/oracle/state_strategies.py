"""Hypothesis strategies of replays whose requests have a recurrent state."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .strategies import GAPS_MS, OUTPUTS, TRACE, Scenario, draw_synthetic, draw_trace, payload_spec, ranks


@st.composite
def state_caches(draw: st.DrawFn, rank: dict[str, Any]) -> dict[str, Any]:
    """A state of a few blocks beside those of the tokens of every request."""
    blocks = draw(st.sampled_from([1, 1, 2, 3]))
    size = 100 * rank["block_size"] * blocks - draw(st.sampled_from([0, 99]))
    return {"kv_cache_bytes_per_token": 100, "state_cache": {"bytes_per_request": size}}


@st.composite
def state_scenarios(draw: st.DrawFn) -> Scenario:
    """Whole payloads, as for any other rank."""
    rank = draw(ranks(backends=["vllm"]))
    rank |= draw(state_caches(rank))
    rows: list[dict[str, Any]] | None = None
    if draw(st.integers(0, 3)):
        traffic, rows = draw(draw_trace(rank, "mooncake", planned=draw(st.booleans())))
    else:
        traffic = draw(draw_synthetic(rank))
    spec = payload_spec(rank, draw(st.integers(1, 2)), draw(st.sampled_from([1, 1, 2])))
    if draw(st.integers(0, 5)) == 5:
        spec["max_sim_time_ms"] = draw(st.sampled_from([0.0, 10.0, 22.0, 60.0, 150.0]))
    return Scenario({"spec": spec, "traffic": traffic}, rows)


@st.composite
def resuming_scenarios(draw: st.DrawFn) -> Scenario:
    """Prompts that begin alike and mostly end with a block, in pools that hold a few of them."""
    rank = draw(ranks(backends=["vllm"]))
    rank |= {"enable_prefix_caching": True, "num_gpu_blocks": draw(st.sampled_from([10, 14, 20, 40]))}
    rank |= draw(state_caches(rank))
    block, rows, now_ms = rank["block_size"], [], 0.0
    for line in range(draw(st.integers(2, 20))):
        blocks = draw(st.integers(1, rank["num_gpu_blocks"] // 2))
        shared = draw(st.sampled_from([blocks, blocks, 1, 2, 3]))
        family = 100 * draw(st.integers(0, 1))
        ids = [family + k if k < shared else 1000 * (line + 1) + k for k in range(blocks)]
        length = blocks * block - draw(st.sampled_from([0, 0, 1, block - 1]))
        output = draw(st.sampled_from(OUTPUTS))
        rows.append({"timestamp": now_ms, "input_length": length, "output_length": output, "hash_ids": ids})
        now_ms += draw(st.sampled_from(GAPS_MS))
    traffic: dict[str, Any] = {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": block}
    cap = draw(st.sampled_from([None, 1, 2, 3, 8]))
    if cap:
        traffic["replay_concurrency"] = cap
    return Scenario({"spec": payload_spec(rank, draw(st.integers(1, 2))), "traffic": traffic}, rows)
