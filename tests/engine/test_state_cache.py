"""Ranks whose requests have a recurrent state: recorded outcomes, and random payloads against the oracle."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given

from aisimulate.engine import state_scheduler
from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from oracle.fleet import replay
from oracle.records import oracle_records, report_records
from oracle.state_strategies import resuming_scenarios, state_scenarios
from oracle.summary import summary

from .test_differential import budget
from .test_sglang_handoff import check_equals

if TYPE_CHECKING:
    from oracle.strategies import Scenario

# Random replays that the reference was run on.
RECORDED = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data/engine/state_examples.jsonl").open()
]
WALL_CLOCK = ("wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s")


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_equals_the_reference(case: dict[str, Any], tmp_path: Path) -> None:
    check_equals(case, tmp_path)


def serve(requests: list[tuple[float, int, int, list[int]]], **rank: Any) -> list[list[Any]]:
    """Per request: its admissions with what each reused, last token, end, status and tokens.

    A request is its arrival, prompt and output length and content ids; blocks hold 4 tokens or 400 bytes, and
    a state fills `blocks`. Passes last 10 + 1 ms.
    """
    blocks = rank.pop("blocks", 1)
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {
            "rank": {
                "num_gpu_blocks": 16,
                "block_size": 4,
                "max_num_batched_tokens": 64,
                "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
                "kv_cache_bytes_per_token": 100,
                "state_cache": {"bytes_per_request": 400 * blocks - 1},
                **rank,
            }
        },
        "record_per_request": True,
        "requests": [
            {
                "id": f"r{number}",
                "arrival_time_ms": arrival_ms,
                "input_tokens": length,
                "output_tokens": output,
                "input_token_ids": [token for token in ids for _ in range(4)][:length],
            }
            for number, (arrival_ms, length, output, ids) in enumerate(requests)
        ],
    }
    keys = ("last_token_ms", "terminal_time_ms", "terminal_status", "output_length")
    return [
        [
            [(entry["at_ms"], entry["reused_input_tokens"]) for entry in record["admission_history"]],
            *(record[key] for key in keys),
        ]
        for record in sorted(execute({"spec": spec})["per_request"], key=lambda record: record["request_id"])
    ]


@pytest.mark.parametrize(
    ("first", "reused"),
    [
        ((8, 2, [1, 2]), 8),  # its prompt ends with a block
        ((10, 2, [1, 2, 3]), 0),  # within one
        ((8, 5, [1, 2]), 0),  # it goes on to the end of a block of its own, and its last copy is that one
    ],
)
def test_a_prefix_is_reused_up_to_where_a_state_was_kept(
    first: tuple[int, int, list[int]], reused: int
) -> None:
    served = serve([(0.0, *first), (50.0, 12, 2, [1, 2, 9])])
    assert served[1][0] == [(50.0, reused)]


def test_a_state_can_be_resumed_from_the_second_pass_after_it_was_written() -> None:
    """The first pass writes it, the next one copies it before its own request goes on."""
    readers = [(at_ms, 12, 2, [1, 2, 9]) for at_ms in (1.0, 10.5)]
    for reader, admitted in zip(readers, ((10.0, 0), (11.0, 8)), strict=True):
        assert serve([(0.0, 8, 9, [1, 2]), reader])[1][0] == [admitted]


@pytest.mark.parametrize(("pool", "tokens", "end_ms"), [(4, 1, 10.0), (5, 2, 11.0)])
def test_one_that_outgrows_the_pool_is_rejected_when_it_is_to_go_on(
    pool: int, tokens: int, end_ms: float
) -> None:
    """The ninth token needs a third block, its state one, and the copy of the state before it another."""
    status = "completed" if tokens == 2 else "rejected"
    assert serve([(0.0, 8, 2, [1, 2])], num_gpu_blocks=pool) == [[[(0.0, 0)], end_ms, end_ms, status, tokens]]


def test_one_that_could_resume_needs_room_for_the_copy_though_it_would_fit_without() -> None:
    requests = [(0.0, 8, 1, [1, 2]), (50.0, 12, 1, [1, 2, 3])]
    assert serve(requests[1:], num_gpu_blocks=6, blocks=2)[0][3] == "completed"
    assert serve(requests, num_gpu_blocks=6, blocks=2)[1] == [[], None, 50.0, "rejected", 0]
    assert serve(requests, num_gpu_blocks=7, blocks=2)[1][:2] == [[(50.0, 8)], 60.0]


def test_a_state_that_was_evicted_is_not_found_beside_a_prefix_that_is_held() -> None:
    """The second comes back when the first has taken the space of its state, and holds its block."""
    requests = [(0.0, 25, 6, [1, 2, 3, 4, 5, 6, 7]), (0.0, 4, 2, [1])]
    limits = {"num_gpu_blocks": 16, "max_num_batched_tokens": 4, "max_num_seqs": 2}
    assert serve(requests, blocks=3, **limits)[1][:2] == [[(60.0, 0), (83.0, 0)], 105.0]


def check(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        payload = scenario.materialise(Path(folder))
        spec, outcome, report = payload["spec"], replay(payload), execute(payload)
    assert report_records(report) == oracle_records(outcome)
    workers, dp_size = spec["topology"]["workers"]["initial_workers"], spec["engine"].get("dp_size", 1)
    figures = summary(outcome, workers, dp_size)
    assert {key: report[key] for key in figures} == pytest.approx(figures, rel=1e-9, abs=1e-6)


def stable(report: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key not in WALL_CLOCK}


@budget(200)
@given(state_scenarios())
def test_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


@budget(200)
@given(resuming_scenarios())
def test_equals_the_oracle_where_prompts_begin_alike(scenario: Scenario) -> None:
    check(scenario)


@budget(100)
@given(resuming_scenarios())
def test_is_the_same_under_observation_and_keeps_all_invariants(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        payload = scenario.materialise(Path(folder))
        checked = execute(payload, observers=[InvariantChecker(thorough=True)])
        plain = stable(execute(payload))
    checked = stable(checked)
    sums = [name for name in plain if isinstance(plain[name], float)]
    for name in sums:  # runs are cut, so sums have other orders
        assert checked.pop(name) == pytest.approx(plain.pop(name), rel=1e-12)
    assert checked == plain


@budget(100)
@given(resuming_scenarios())
def test_runs_are_passes_one_by_one(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        payload = scenario.materialise(Path(folder))
        runs = execute(payload)
        with patch.object(state_scheduler.StateScheduler, "_plan_decoding", lambda rank: 0):
            steps = execute(payload)
    assert runs["per_request"] == steps["per_request"]
