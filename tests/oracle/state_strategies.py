"""Hypothesis strategies of replays whose requests have a recurrent state."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .strategies import Scenario, draw_returning, draw_synthetic, draw_trace, payload_spec, ranks


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
    block = rank["block_size"]
    return draw(draw_returning(rank, 2, rank["num_gpu_blocks"] // 2, [0, 0, 1, block - 1]))
