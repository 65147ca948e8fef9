"""Hypothesis strategies of small SGLang replays: tiny pools, shared prefixes, retraction, pauses."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .strategies import (
    GAPS_MS,
    ROUND_TIMES,
    TRACE,
    Scenario,
    echo_scenarios,
    outgrowing_scenarios,
    scenarios,
    speculation,
    timing_models,
    turnstile_scenarios,
)

# Settings of a vLLM rank that have no counterpart.
VLLM_ONLY = ("max_num_batched_tokens", "preemption_mode", "enable_chunked_prefill", "timing_mode")


@st.composite
def sglang_settings(draw: st.DrawFn) -> dict[str, Any]:
    """The `sglang` object and what else only this backend has."""
    return {
        "backend": "sglang",
        "prefill_decode_interval": draw(st.sampled_from([0, 0, 0, 1, 2, 7])),
        "sglang": {
            "schedule_policy": draw(st.sampled_from(["fifo", "lpm"])),
            "chunked_prefill_size": draw(st.sampled_from([128, 64, 24, 16, 8])),
            "max_prefill_tokens": draw(st.sampled_from([256, 64, 16])),
            "clip_max_new_tokens": draw(st.sampled_from([4096, 16, 4, 0])),
            "schedule_conservativeness": draw(st.sampled_from([1.0, 0.3, 0.1, 0.0])),
        },
    }


@st.composite
def as_sglang(draw: st.DrawFn, made: st.SearchStrategy[Scenario]) -> Scenario:
    """A scenario of another strategy, on the same pool with SGLang's rules."""
    scenario = draw(made)
    spec = scenario.payload["spec"]
    rank = {name: value for name, value in spec["engine"]["rank"].items() if name not in VLLM_ONLY}
    rank |= draw(sglang_settings())
    engine = spec["engine"] | {"rank": rank}
    return Scenario(scenario.payload | {"spec": spec | {"engine": engine}}, scenario.rows)


def sglang_scenarios() -> st.SearchStrategy[Scenario]:
    """Whole payloads of any kind."""
    return as_sglang(scenarios())


def sglang_echo_scenarios() -> st.SearchStrategy[Scenario]:
    """Planned outputs that are others' prompts."""
    return as_sglang(echo_scenarios())


def sglang_turnstile_scenarios() -> st.SearchStrategy[Scenario]:
    """Closed loops in which many requests are rejected at once."""
    return as_sglang(turnstile_scenarios())


def sglang_outgrowing_scenarios() -> st.SearchStrategy[Scenario]:
    """Sessions that outgrow the pool."""
    return as_sglang(outgrowing_scenarios())


@st.composite
def crowded_scenarios(draw: st.DrawFn) -> Scenario:
    """Long outputs that were admitted carelessly: decoders are retracted, first tokens wait for a page."""
    block = draw(st.sampled_from([1, 1, 2, 4, 8]))
    pool_tokens = draw(st.sampled_from([100, 140, 200]))
    rank = draw(sglang_settings()) | {
        "block_size": block,
        "num_gpu_blocks": pool_tokens // block,
        "max_num_seqs": draw(st.sampled_from([16, 8, 4, 2])),
        "enable_prefix_caching": draw(st.sampled_from([True, True, True, False])),
        "timing_model": draw(st.one_of(timing_models(), st.just(ROUND_TIMES))),
    }
    if draw(st.integers(0, 6)) == 6:
        rank["max_model_len"] = draw(st.sampled_from([60, 40]))
    trace_block = block * draw(st.sampled_from([1, 1, 2, 4]))
    rows: list[dict[str, Any]] = []
    now_ms = 0.0
    for line in range(1, draw(st.integers(3, 16)) + 1):
        length = draw(st.integers(1, min(70, pool_tokens // 2)))
        blocks = -(-length // trace_block)
        shared, family = draw(st.integers(0, blocks)), 100 * draw(st.integers(0, 2))
        ids = [family + k for k in range(shared)] + [1000 * line + k for k in range(blocks - shared)]
        output = draw(st.sampled_from([0, 1, 2, 5, 10, 20, 20, 30]))
        rows.append({"timestamp": now_ms, "input_length": length, "output_length": output, "hash_ids": ids})
        now_ms += draw(st.sampled_from(GAPS_MS))
    traffic = {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": trace_block}
    if cap := draw(st.sampled_from([None, None, 3, 8])):
        traffic["replay_concurrency"] = cap
    spec = {
        "version": 1,
        "topology": {"kind": "aggregated", "workers": {"initial_workers": draw(st.sampled_from([1, 1, 2]))}},
        "engine": {
            "dp_size": draw(st.sampled_from([1, 1, 1, 2, 3])),
            "tensor_parallel_size": 1,
            "rank": rank,
        },
        "record_per_request": True,
        "requests": [],
    }
    return Scenario({"spec": spec, "traffic": traffic}, rows)


@st.composite
def crowded_draft_scenarios(draw: st.DrawFn) -> Scenario:
    """The same with drafts, whose bursts open several pages at once."""
    scenario = draw(crowded_scenarios())
    scenario.payload["spec"]["engine"]["rank"] |= draw(speculation())
    return scenario
