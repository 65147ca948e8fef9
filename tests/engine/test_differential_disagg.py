"""Production replay of disaggregated fleets against the step-by-step oracle: every request, every ns.

`AISIMULATE_FUZZ=5000 pytest tests/engine/test_differential_disagg.py` runs that many fresh instances.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from aisimulate.replay.execute import execute
from oracle.disagg import replay_disaggregated
from oracle.disagg_strategies import crowded_disagg_scenarios, disagg_scenarios, sglang_pair_scenarios
from oracle.handoff_records import handoff_records, merged, report_handoffs
from oracle.sglang_handoff import replay_sglang_pools
from oracle.strategies import Scenario
from oracle.summary import summary

from .test_differential import budget


def check(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        payload = scenario.materialise(Path(folder))
        is_sglang = payload["spec"]["engine"]["decode"]["rank"]["backend"] == "sglang"
        replay = replay_sglang_pools if is_sglang else replay_disaggregated
        fleet, report = replay(payload), execute(payload)
    assert report_handoffs(report) == handoff_records(fleet)
    figures = summary(merged(fleet), len(fleet.decode), 1)
    prefill_s = len(fleet.prefill) * fleet.now_ns / 1e9
    del figures["gpu_hours"]
    figures["prefill_worker_seconds"] = prefill_s
    assert {key: report[key] for key in figures} == pytest.approx(figures, rel=1e-9, abs=1e-6)
    if scenario.payload["spec"].get("max_sim_time_ms") is None:
        assert report["unfinished_requests"] == 0


@budget(300)
@given(disagg_scenarios())
def test_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


@budget(300)
@given(crowded_disagg_scenarios())
def test_equals_the_oracle_where_destinations_wait(scenario: Scenario) -> None:
    check(scenario)


@budget(200)
@given(sglang_pair_scenarios())
def test_equals_the_oracle_where_destinations_are_reserved_first(scenario: Scenario) -> None:
    check(scenario)
