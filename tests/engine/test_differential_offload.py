"""Ranks with host memory against the step-by-step oracle: random payloads, every request, every ns."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from oracle.offload import replay_offload
from oracle.offload_strategies import crowded_scenarios, offload_scenarios, returning_scenarios
from oracle.records import oracle_records, report_records
from oracle.strategies import Scenario
from oracle.summary import summary

from .test_differential import budget

WALL_CLOCK = ("wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s")


def assert_same(payload: dict[str, Any]) -> None:
    spec = payload["spec"]
    outcome, lower_tokens = replay_offload(payload)
    report = execute(payload)

    assert report_records(report) == oracle_records(outcome)
    assert _lower_tokens(report) == lower_tokens
    workers, dp_size = spec["topology"]["workers"]["initial_workers"], spec["engine"].get("dp_size", 1)
    figures = summary(outcome, workers, dp_size)
    assert {key: report[key] for key in figures} == pytest.approx(figures, rel=1e-9, abs=1e-6)


def _lower_tokens(report: dict[str, Any]) -> dict[tuple[str, int | None], list[int]]:
    return {
        (row["session_id"], row["turn_index"]): [
            row[f"first_admission_{tier}_reused_input_tokens"] for tier in ("host", "disk")
        ]
        for row in report.get("per_request", [])
        if row["admission_history"]
    }


def check(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_same(scenario.materialise(Path(folder)))


def stable(report: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key not in WALL_CLOCK}


@budget(100)
@given(returning_scenarios())
def test_is_the_same_under_observation_and_keeps_all_invariants(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        payload = scenario.materialise(Path(folder))
        checked = execute(payload, observers=[InvariantChecker(thorough=True)])
        assert stable(checked) == stable(execute(payload))


@budget(200)
@given(offload_scenarios())
def test_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


@budget(150)
@given(offload_scenarios(disk=True))
def test_equals_the_oracle_with_a_disk(scenario: Scenario) -> None:
    check(scenario)


@budget(300)
@given(returning_scenarios(disk=True))
def test_equals_the_oracle_where_prompts_come_again_from_a_disk(scenario: Scenario) -> None:
    check(scenario)


@budget(100)
@given(returning_scenarios(disk=True))
def test_is_the_same_under_observation_with_a_disk(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        payload = scenario.materialise(Path(folder))
        checked = execute(payload, observers=[InvariantChecker(thorough=True)])
        assert stable(checked) == stable(execute(payload))


@budget(300)
@given(returning_scenarios())
def test_equals_the_oracle_where_prompts_come_again(scenario: Scenario) -> None:
    check(scenario)


@budget(400)
@given(crowded_scenarios())
def test_equals_the_oracle_where_nothing_has_room(scenario: Scenario) -> None:
    check(scenario)
