"""Production replay against the step-by-step oracle: random payloads, every request, every ns.

`AISIMULATE_FUZZ=5000 pytest tests/engine/test_differential.py` runs that many instances with fresh seeds.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from aisimulate.replay.execute import execute
from oracle.fleet import replay
from oracle.graph_strategies import graph_scenarios
from oracle.records import oracle_records, report_records
from oracle.strategies import (
    ROUND_TIMES,
    Scenario,
    cadence_scenarios,
    echo_scenarios,
    long_prompt_scenarios,
    outgrowing_scenarios,
    scenarios,
    turnstile_scenarios,
)
from oracle.summary import summary

from .test_oracle_examples import EXAMPLES, payload_of

FUZZ = int(os.environ.get("AISIMULATE_FUZZ", "0"))


def assert_same(payload: dict) -> None:
    """Equal records at 1 ns; figures equal to 1e-9 relative (or 1e-6 ms, where they are a rest of 0)."""
    spec = payload["spec"]
    outcome = replay(payload)
    report = execute(payload)

    assert report_records(report) == oracle_records(outcome)
    figures = summary(outcome, spec["topology"]["workers"]["initial_workers"], spec["engine"]["dp_size"])
    assert {key: report[key] for key in figures} == pytest.approx(figures, rel=1e-9, abs=1e-6)


def budget(examples: int) -> settings:
    """How many instances to try: always the same ones, or fresh ones when fuzzing."""
    return settings(
        max_examples=FUZZ or examples,
        derandomize=not FUZZ,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def check(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_same(scenario.materialise(Path(folder)))


@budget(300)
@given(scenarios())
def test_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


@budget(100)
@given(scenarios(trace_format="mooncake-delta"))
def test_equals_the_oracle_where_prompts_are_deltas(scenario: Scenario) -> None:
    check(scenario)


@budget(100)
@given(echo_scenarios())
def test_equals_the_oracle_where_outputs_are_prompts(scenario: Scenario) -> None:
    check(scenario)


@budget(100)
@given(turnstile_scenarios())
def test_equals_the_oracle_where_requests_end_at_once(scenario: Scenario) -> None:
    check(scenario)


@budget(100)
@given(outgrowing_scenarios())
def test_equals_the_oracle_where_sessions_outgrow_the_pool(scenario: Scenario) -> None:
    check(scenario)


@budget(100)
@given(long_prompt_scenarios())
def test_equals_the_oracle_where_prompts_take_many_passes(scenario: Scenario) -> None:
    check(scenario)


@budget(150)
@given(graph_scenarios())
def test_equals_the_oracle_where_requests_wait_for_one_another(scenario: Scenario) -> None:
    check(scenario)


@budget(150)
@given(cadence_scenarios())
def test_equals_the_oracle_where_prefills_keep_a_cadence(scenario: Scenario) -> None:
    check(scenario)


ROUND_RANK = {
    "backend": "vllm",
    "block_size": 2,
    "max_num_seqs": 4,
    "enable_prefix_caching": True,
    "enable_chunked_prefill": True,
    "timing_model": ROUND_TIMES,
}


@pytest.mark.parametrize(
    ("rank", "requests"),
    [
        pytest.param(
            {"num_gpu_blocks": 100, "max_num_batched_tokens": 8},
            [(0.0, 43, 60), (20.0, 40, 60)],
            id="an arrival at the end of a middle chunk joins the pass after it",
        ),
        pytest.param(
            {"num_gpu_blocks": 20, "max_num_batched_tokens": 3},
            [(0.0, 4, 60), (4.0, 30, 4)],
            id="a decoding request leaves no blocks for a middle chunk",
        ),
    ],
)
def test_long_prompt_meets_another_request(rank: dict, requests: list, tmp_path: Path) -> None:
    rows = [
        {"t": now_ms, "isl": isl, "osl": osl, "h": [1000 * number + k for k in range(-(-isl // 2))]}
        for number, (now_ms, isl, osl) in enumerate(requests)
    ]
    assert_same(payload_of({"rank": ROUND_RANK | rank, "dp_size": 1, "requests": rows}, tmp_path))


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case["name"][:3])
def test_worked_examples(case: dict, tmp_path: Path) -> None:
    assert_same(payload_of(case, tmp_path))
