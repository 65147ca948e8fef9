"""Worked examples of host memory (spec 01 section 9, E50-E53) and where their reuse comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aisimulate.engine.host_tier import HostTier
from aisimulate.replay.execute import execute

from .test_sglang_handoff import check_equals

# Random groups with a prefill cadence, which the reference was run on.
GROUPS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/engine/offload_group_examples.jsonl").open()
]
BLOCK_MS = {1.0: 1.0, 0.1: 10.0}  # of a block of 1 MB, by GB/s


def serve(requests: list[tuple[float, int, list[int]]], blocks: int, gbps: float = 1.0) -> list[list[Any]]:
    """Per request of two tokens: its admissions, both tokens, and what it found on the GPU and in the host.

    A request is its arrival, prompt length and content ids; blocks hold 4 tokens, passes last 10 + 1 ms.
    """
    rank = {
        "num_gpu_blocks": blocks,
        "block_size": 4,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 64,
        "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
        "kv_cache_bytes_per_token": 250_000,
        "native_host_offload": {
            "num_host_blocks": 16,
            "d2h_bandwidth_gbps": gbps,
            "h2d_bandwidth_gbps": gbps,
        },
    }
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": rank},
        "record_per_request": True,
        "requests": [
            {
                "id": f"r{number}",
                "arrival_time_ms": arrival_ms,
                "input_tokens": length,
                "output_tokens": 2,
                "input_token_ids": [token for token in ids for _ in range(4)][:length],
            }
            for number, (arrival_ms, length, ids) in enumerate(requests)
        ],
    }
    return [
        [
            [(entry["at_ms"], entry["reused_input_tokens"]) for entry in record["admission_history"]],
            record["first_token_ms"],
            record["last_token_ms"],
            record["first_admission_g1_reused_input_tokens"],
            record["first_admission_host_reused_input_tokens"],
        ]
        for record in execute({"spec": spec})["per_request"]
    ]


def test_an_evicted_prefix_is_loaded_again():
    """E50: two blocks in 2 ms."""
    served = serve([(0.0, 9, [1, 2, 3]), (30.0, 10, [4, 5, 6]), (60.0, 11, [1, 2, 7])], blocks=3)
    assert served[1] == [[(30.0, 0)], 40.0, 41.0, 0, 0]
    assert served[2] == [[(62.0, 8)], 72.0, 73.0, 0, 8]


def test_what_is_being_stored_is_not_overwritten():
    """E51: the second prompt takes the blocks of the first at 11 ms, and may write there at 30 ms."""
    served = serve([(0.0, 9, [1, 2, 3]), (11.0, 10, [4, 5, 6])], blocks=3, gbps=0.1)
    assert served == [[[(0.0, 0)], 10.0, 11.0, 0, 0], [[(11.0, 0)], 40.0, 41.0, 0, 0]]


def test_the_gpu_is_looked_up_first():
    """E52."""
    served = serve([(0.0, 9, [1, 2, 3]), (30.0, 10, [1, 2, 7])], blocks=8)
    assert served[1] == [[(30.0, 8)], 40.0, 41.0, 8, 0]


def test_the_last_block_of_a_restored_prompt_is_computed_again():
    """E53: two blocks are loaded, one is used."""
    served = serve([(0.0, 8, [1, 2]), (30.0, 9, [4, 5, 6]), (60.0, 8, [1, 2])], blocks=3)
    assert served[2] == [[(62.0, 4)], 72.0, 73.0, 0, 4]


@pytest.mark.parametrize("gbps", BLOCK_MS)
def test_a_load_takes_as_long_as_its_blocks(gbps):
    served = serve([(0.0, 9, [1, 2, 3]), (100.0, 10, [4, 5, 6]), (200.0, 11, [1, 2, 7])], 3, gbps)
    assert served[2][0] == [(200.0 + 2 * BLOCK_MS[gbps], 8)]


def test_others_pass_a_request_that_is_being_restored():
    requests = [(0.0, 9, [1, 2, 3]), (100.0, 30, list(range(10, 18))), (200.0, 9, [1, 2, 7]), (200.0, 3, [9])]
    served = serve(requests, blocks=8, gbps=0.1)
    assert served[2][0] == [(220.0, 8)]
    assert served[3][0] == [(200.0, 0)]


def test_a_prompt_is_given_up_from_its_end() -> None:
    tier = HostTier(3)
    assert tier.reserve([1, 2, 3]) == [1, 2, 3]
    tier.arrive([1, 2, 3])
    for key, left in ((4, [1, 2]), (5, [1]), (6, [])):
        assert tier.reserve([key]) == [key]
        assert [kept for kept in (1, 2, 3) if tier.holds(kept)] == left


def test_a_rank_without_host_memory_does_not_speak_of_it():
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": {}},
        "record_per_request": True,
        "requests": [{"id": "a", "arrival_time_ms": 0.0, "input_tokens": 9, "output_tokens": 2}],
    }
    record = execute({"spec": spec})["per_request"][0]
    assert not [key for key in record if "host" in key]


@pytest.mark.parametrize("case", GROUPS, ids=range(len(GROUPS)))
def test_the_cadence_of_a_group_goes_on_while_it_waits_for_a_copy(
    case: dict[str, Any], tmp_path: Path
) -> None:
    check_equals(case, tmp_path)
