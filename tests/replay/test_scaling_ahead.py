"""Pools of workers that look one pass ahead, and scale: watched or not, in runs or pass by pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from aisimulate.replay.observe.telemetry import Telemetry
from aisimulate.replay.observe.timeline import Timeline

from .observed import simulated_part
from .test_planner_loop import conversation, direct, steady
from .test_timeline import stages
from .test_watching_ahead import pass_by_pass
from .test_watching_scaled import random_payload


def roles_of(asked: dict[str, Any]) -> list[dict[str, Any]]:
    engine = asked.get("spec", asked).setdefault("engine", {"rank": {}})
    return [engine] if "rank" in engine else list(engine.values())


def ahead(asked: dict[str, Any]) -> dict[str, Any]:
    """The same, one pass ahead."""
    for role in roles_of(asked):
        role["rank"] = role["rank"] | {"scheduling_look_ahead": 1}
    return asked


def in_passes(asked: dict[str, Any]) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        pass_by_pass(monkeypatch)
        return execute(asked)


@pytest.mark.parametrize("seed", range(60))
def test_scripts_scale_them(seed: int) -> None:
    asked = ahead(random_payload(seed))
    samples: list[dict[str, Any]] = []
    timeline = Timeline()
    watchers = [Telemetry(4.0, samples.append), timeline, InvariantChecker(thorough=True)]
    watched = simulated_part(execute(asked, observers=watchers))
    assert watched == simulated_part(execute(asked)) == simulated_part(in_passes(asked))
    assert watched["scheduling_look_ahead"] == 1
    traffic = [sample["traffic"] for sample in samples]
    assert sum(item["arriving_requests"] for item in traffic) == watched["num_requests"]
    assert sum(item["completed_requests"] for item in traffic) == watched["completed_requests"]
    stages(timeline.document())


@pytest.mark.parametrize("pair", [False, True])
def test_a_planner_decides_the_same_in_runs_and_pass_by_pass(pair: bool) -> None:
    asked = ahead(steady(20.0, 90.0, direct(), pair=pair, startup_s=5.0))
    report = execute(asked)
    assert simulated_part(report) == simulated_part(in_passes(asked))
    assert report["completed_requests"] == 1800
    assert any(row["applied"] for row in report["scaling_decisions"])


def test_a_planner_sees_a_look_ahead(tmp_path: Path) -> None:
    """It costs about a pass before the first token, and the load is what it was."""
    config = {"optimization_target": "latency"}
    plain, early = (
        execute(make(conversation(tmp_path, 0, config, 60.0))) for make in (lambda asked: asked, ahead)
    )
    assert plain["scaling_decisions"] != []
    assert plain["mean_ttft_ms"] < early["mean_ttft_ms"]
    assert early["planner_total_ticks"] == plain["planner_total_ticks"]


def test_a_worker_is_gone_when_the_pass_in_flight_has_ended() -> None:
    """Prefill to 10 and decodes of 5 ms to 30; asked to go at 20, it holds its request until then."""
    pool = {"initial_workers": 2}
    script = {"first_tick_ms": 20.0, "step_ms": 20.0, "decisions": [{"target_decode": 1}]}
    rank = {"num_gpu_blocks": 64, "block_size": 4, "scheduling_look_ahead": 1}
    rank |= {"timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}}
    requests = [
        {"id": f"r{n}", "arrival_time_ms": 5.0 * n, "input_tokens": 8, "output_tokens": 4} for n in range(2)
    ]
    asked = {
        "topology": {"kind": "aggregated", "workers": pool},
        "engine": {"rank": rank},
        "adapters": {"scaling": {"provider": "scripted", "config": script}},
        "requests": requests,
    }
    report = execute(asked)
    assert [row["last_token_ms"] for row in report["per_request"]] == [25.0, 30.0]
    gone = [
        row["at_ms"]
        for row in report["lifecycle_operations"]
        for item in row["transitions"]
        if item["transition"] == "worker_removed"
    ]
    assert gone == [30.0]
