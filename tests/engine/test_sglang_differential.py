"""SGLang in production against the step-by-step oracle: random payloads, every request, every ns.

`AISIMULATE_FUZZ=5000 pytest tests/engine/test_sglang_differential.py` runs that many with fresh seeds.
"""

from __future__ import annotations

from hypothesis import given

from oracle.sglang_strategies import (
    crowded_draft_scenarios,
    crowded_scenarios,
    sglang_echo_scenarios,
    sglang_outgrowing_scenarios,
    sglang_scenarios,
    sglang_turnstile_scenarios,
)
from oracle.strategies import TRACE, Scenario, payload_spec

from .test_differential import budget, check


@budget(200)
@given(crowded_scenarios())
def test_equals_the_oracle_where_decoders_are_retracted(scenario: Scenario) -> None:
    check(scenario)


@budget(150)
@given(crowded_draft_scenarios())
def test_equals_the_oracle_where_drafts_are_verified(scenario: Scenario) -> None:
    check(scenario)


@budget(150)
@given(sglang_scenarios())
def test_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


@budget(75)
@given(sglang_echo_scenarios())
def test_equals_the_oracle_where_outputs_are_prompts(scenario: Scenario) -> None:
    check(scenario)


@budget(75)
@given(sglang_turnstile_scenarios())
def test_equals_the_oracle_where_requests_end_at_once(scenario: Scenario) -> None:
    check(scenario)


@budget(75)
@given(sglang_outgrowing_scenarios())
def test_equals_the_oracle_where_sessions_outgrow_the_pool(scenario: Scenario) -> None:
    check(scenario)


def test_an_eviction_for_a_pass_reorders_the_queue_before_the_next() -> None:
    """The prompt with the longest cached prefix waits; a pass evicts some of it, so another goes first."""
    stem = [2000, 2001, 2002, 2003, 2004, 2005]
    rows = [
        (0.0, 18, 5, [1, 2, 3]),
        (14.12, 33, 60, stem[:5]),
        (17.331, 27, 60, [*stem[:3], 4]),
        (25.608, 33, 5, stem[:5]),
        (35.779, 18, 60, [1, 2, 3]),
        (47.76, 45, 20, stem),
        (131.871, 32, 2, [*stem[:2], 5, 6]),
    ]
    rank = {
        "backend": "sglang",
        "num_gpu_blocks": 48,
        "block_size": 4,
        "max_num_seqs": 64,
        "timing_model": {"type": "fixed", "prefill_ms": 7.0, "decode_ms": 5.0},
        "sglang": {"schedule_policy": "lpm", "max_prefill_tokens": 64, "chunked_prefill_size": 64},
    }
    payload = {
        "spec": payload_spec(rank, 1),
        "traffic": {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": 8},
    }
    keys = ("timestamp", "input_length", "output_length", "hash_ids")
    check(Scenario(payload, [dict(zip(keys, row, strict=True)) for row in rows]))


def test_an_eviction_for_a_pass_lets_in_a_prompt_whose_prefix_it_takes() -> None:
    """With it the whole prompt is computed, so its output is reserved; without it a chunk goes first."""
    rows = [
        (4, 4, [2, 3]),
        (1, 1, [0]),
        (1, 1, [0]),
        (3, 5, [9]),
        (1, 3, [8]),
        (4, 2, [0, 1]),
        (1, 1, [5]),
        (5, 5, [5, 7]),
        (5, 20, [0, 1]),
    ]
    rank = {
        "backend": "sglang",
        "num_gpu_blocks": 8,
        "block_size": 4,
        "max_num_seqs": 64,
        "timing_model": {"type": "fixed", "prefill_ms": 7.0, "decode_ms": 5.0},
        "sglang": {"chunked_prefill_size": 4, "schedule_conservativeness": 0.0},
    }
    payload = {
        "spec": payload_spec(rank, 1),
        "traffic": {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": 3},
    }
    keys = ("timestamp", "input_length", "output_length", "hash_ids")
    check(Scenario(payload, [dict(zip(keys, (0.0, *row), strict=True)) for row in rows]))
