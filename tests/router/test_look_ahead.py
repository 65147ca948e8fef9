"""Routed replays that look one pass ahead: against the oracle, and in runs against single passes."""

from __future__ import annotations

import json
import tempfile
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.config.payload import parse_payload
from aisimulate.engine import told_worker
from aisimulate.engine.ahead_group import AheadRankGroup, AheadSglangGroup
from aisimulate.engine.ahead_worker import AheadRankWorker
from aisimulate.engine.sglang_ahead import AheadSglangWorker
from aisimulate.replay import placement_policies as policies
from aisimulate.replay.build import build_replay
from aisimulate.replay.execute import execute, run_built
from engine.test_differential import budget
from engine.test_look_ahead import ahead, ahead_scenarios, ahead_sglang, sglang_with_drafts, with_drafts
from oracle.records import oracle_records, report_records
from oracle.routed import Target, choice, replay_routed
from oracle.sglang_strategies import sglang_scenarios, sglang_turnstile_scenarios
from oracle.strategies import Scenario, eviction_scenarios, outgrowing_scenarios, scenarios

from .routed import payload
from .test_replays import CONFIGS, FIXED, ROWS, TINY, row, rows_of, simulated

PROBE = "probe"


class Probe:
    """Places as the oracle does, and keeps what it was told."""

    seen: list[list[Target]]

    def choose(self, request: Any, targets: Any) -> int:
        assert request.number == len(self.seen)
        known = [Target(t.worker, t.rank, t.cached_blocks, t.prefill_tokens, t.requests) for t in targets]
        self.seen.append(known)
        return choice(request.number, known)


@pytest.fixture(scope="module", autouse=True)
def installed() -> Any:
    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        assert group == policies.GROUP
        return [EntryPoint(PROBE, f"{__name__}:Probe", group)] if name in (None, PROBE) else []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policies, "entry_points", entry_points)
        yield


def check(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asked = scenario.materialise(Path(folder))
        asked["spec"]["adapters"] = {"placement": {"provider": PROBE}}
        outcome, log = replay_routed(asked)
        Probe.seen = []
        report = execute(asked)
    assert Probe.seen == log
    assert report_records(report) == oracle_records(outcome)


def shared(scenario: Scenario) -> Scenario:
    """The same with two workers at least."""
    spec = scenario.payload["spec"]
    workers = spec["topology"]["workers"] | {"initial_workers": 2}
    topology = spec["topology"] | {"workers": workers}
    return Scenario(scenario.payload | {"spec": spec | {"topology": topology}}, scenario.rows)


def without_drafts(scenario: Scenario) -> Scenario:
    spec = scenario.payload["spec"]
    rank = {key: value for key, value in spec["engine"]["rank"].items() if not key.startswith("aic_")}
    engine = spec["engine"] | {"rank": rank}
    return Scenario(scenario.payload | {"spec": spec | {"engine": engine}}, scenario.rows)


@budget(100)
@given(scenarios().map(without_drafts).map(shared))
def test_the_oracle_knows_what_a_router_without_look_ahead_is_told(scenario: Scenario) -> None:
    check(scenario)


@budget(150)
@given(
    st.one_of(
        st.one_of(scenarios(), outgrowing_scenarios()).map(with_drafts),
        sglang_scenarios().map(sglang_with_drafts),
    ).map(shared)
)
def test_drafts_equal_the_oracle(scenario: Scenario) -> None:
    check(scenario)


@budget(300)
@given(ahead_scenarios().map(shared))
def test_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


SGLANG = st.one_of(sglang_scenarios(), sglang_turnstile_scenarios())


@budget(200)
@given(SGLANG.map(ahead_sglang).map(shared))
def test_sglang_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


@budget(300)
@given(eviction_scenarios().map(ahead).map(shared))
def test_what_was_evicted_is_known_when_the_pass_in_flight_ends(scenario: Scenario) -> None:
    check(scenario)


# In runs and pass by pass ---------------------------------------------------------------------------


def pass_by_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers decide at the end of every pass."""
    for kind in (AheadRankWorker, AheadRankGroup, AheadSglangWorker, AheadSglangGroup):
        twin = told_worker.twin_of(kind)
        monkeypatch.setattr(twin, "start", _one_pass(twin.start))


def _one_pass(start: Any) -> Any:
    def start_one(worker: Any, now_ns: int) -> bool:
        started: bool = start(worker, now_ns)
        if started:
            worker.cut(now_ns)
        return started

    return start_one


AHEAD = {"scheduling_look_ahead": 1}


def _in_both(asked: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    in_runs = simulated(asked)
    with pytest.MonkeyPatch.context() as monkeypatch:
        pass_by_pass(monkeypatch)
        in_passes = simulated(asked)
    assert in_runs["scheduling_look_ahead"] == 1
    for report in (in_runs, in_passes):
        for key in [key for key in report if key.startswith(("plan", "pass"))]:
            del report[key]
    return in_runs, in_passes


@budget(150)
@given(
    ROWS,
    CONFIGS,
    st.sampled_from(["vllm", "trtllm", "sglang"]),
    st.sampled_from([(1, 2), (3, 1), (2, 2)]),
    st.sampled_from([12, 20, 40]),
    st.sampled_from([{}, {}, {"aic_nextn": 2, "aic_nextn_accept_rates": "0.8,0.5"}]),
)
def test_runs_are_routed_like_single_passes(drawn, config, backend, shape, blocks, drafts) -> None:
    workers, dp_size = shape
    with tempfile.TemporaryDirectory() as folder:
        rank = TINY | FIXED | AHEAD | {"backend": backend, "num_gpu_blocks": blocks} | drafts
        launch = {"dp_size": dp_size}
        rows = rows_of(drawn)
        asked = payload(rows, Path(folder), workers=workers, block=4, rank=rank, launch=launch, **config)
        in_runs, in_passes = _in_both(asked)
    assert in_runs == in_passes


@budget(100)
@given(ROWS, CONFIGS, st.sampled_from(["vllm", "trtllm", "sglang"]), st.sampled_from([(1, 2), (2, 2)]))
def test_pairs_are_routed_like_single_passes(drawn, config, backend, pools) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rank = TINY | FIXED | AHEAD | {"backend": backend}
        asked = payload(rows_of(drawn), Path(folder), pools=pools, block=4, rank=rank, **config)
        in_runs, in_passes = _in_both(asked)
    assert in_runs == in_passes


def test_blocks_are_known_when_the_pass_in_flight_ends(tmp_path: Path) -> None:
    """The second prompt, with nothing cached, is planned at 10 for 15 ms: its blocks are known from 15 on."""
    rows = [row(0, [1], 4, 9), row(5, [2, 3], 8, 9), row(14, [2, 3, 4], 12, 1), row(16, [2, 3, 5], 12, 1)]
    asked = payload(rows, tmp_path, block=4, workers=1, rank=FIXED | AHEAD)
    by_arrival = sorted(execute(asked)["per_request"], key=lambda record: record["arrival_time_ms"])
    assert by_arrival[1]["scheduled_ms"] == 10.0
    assert by_arrival[1]["first_token_ms"] == 30.0
    overlaps = [record["routing_history"][0]["reported_overlap_tokens"] for record in by_arrival]
    assert overlaps == [0, 0, 0, 8]


def test_runs_are_still_taken_together(tmp_path: Path) -> None:
    rows = [row(0, [1, 2], 8, 500), row(100, [1, 3], 8, 500)]
    asked = payload(rows, tmp_path, block=4, workers=2, rank=FIXED | AHEAD)
    replay = build_replay(parse_payload(asked))
    run_built(replay, 0)
    assert 0 < sum(worker.plans for worker in replay.workers) < 20


def test_reports_of_both_pools_say_so(tmp_path: Path) -> None:
    asked = payload([row(0, [1], 4, 3)], tmp_path, pools=(1, 1), block=4, rank=FIXED | AHEAD)
    report = execute(asked)
    assert json.dumps(report["per_request"][0]["routing_history"]).count('"pool"') == 2
