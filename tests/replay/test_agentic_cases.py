"""Agentic traces replayed by the reference, digests and all: equal (spec 02 sections 4.4 and 8)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from aisimulate._runtime import run_replay_json

from .case_files import materialise

CASES: dict[str, dict[str, Any]] = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "data/replay/agentic.json").read_text())
}


def equal(want: Any, got: Any) -> bool:
    if isinstance(want, dict):
        return isinstance(got, dict) and all(equal(value, got.get(key)) for key, value in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(map(equal, want, got))
    if isinstance(want, float):
        return isinstance(got, float) and math.isclose(want, got, rel_tol=1e-9, abs_tol=1e-6)
    return bool(want == got)


def replayed(name: str, folder: Path) -> dict[str, Any]:
    case = CASES[name]
    payload = materialise(case["payload"], case["trace_files"], folder)
    return json.loads(run_replay_json(json.dumps(payload)))


@pytest.mark.parametrize("name", CASES)
def test_a_replay_equals_the_reference(name: str, tmp_path: Path) -> None:
    report = replayed(name, tmp_path)

    wanted = CASES[name]["summary"]
    assert {key: report.get(key) for key in wanted if not equal(wanted[key], report.get(key))} == {}
    # Same plays, same keys: what does not apply is left out.
    for ours, theirs in zip(report["agentic_play_outcomes"], wanted["agentic_play_outcomes"], strict=True):
        assert list(ours) == list(theirs)
    records = report.get("per_request", [])
    assert len(records) == len(CASES[name]["per_request"])
    for record, want in zip(records, CASES[name]["per_request"], strict=True):
        assert {key: record.get(key) for key in want if not equal(want[key], record.get(key))} == {}
        assert list(record["agentic"]) == list(want["agentic"])


def test_the_cases_cover_what_can_happen() -> None:
    text = json.dumps(list(CASES.values()))
    for word in ('"failed"', '"lane:1"', '"replay_barrier"', '"dispatch"', '"tool_error"', '"relative"'):
        assert word in text


def test_an_unfinished_play_says_what_it_reached(tmp_path: Path) -> None:
    case = CASES["c22-agentic-dag"]
    payload = materialise(case["payload"], case["trace_files"], tmp_path)
    payload["spec"]["max_sim_time_ms"] = 1026.0
    report = json.loads(run_replay_json(json.dumps(payload)))

    assert report["agentic_play_outcomes"] == [
        {"play_id": "p", "status": "incomplete", "causal_terminal_ms": 1025.0}
    ]
    assert (report["completed_trajectories"], report["incomplete_trajectories"]) == (0, 1)
    assert report["mean_trajectory_e2e_latency_ms"] == 0.0


REFUSED = {
    "a cap on sessions": (
        "traffic",
        "replay_concurrency",
        2,
        "traffic.replay_concurrency: 2: an agentic trace",
    ),
    "a cap on requests": ("spec", "max_in_flight", 2, "spec.max_in_flight: 2: an agentic trace"),
    "a limit of time": ("traffic", "max_sim_time_ms", 9.5, "traffic.max_sim_time_ms: 9.5: an agentic trace"),
    "no lanes": ("traffic", "agentic_lanes", 0, "traffic.agentic_lanes: 0 is not > 0"),
    "nested times": ("traffic", "weka_nested_timestamp_basis", "relative", "has no effect with trace_format"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_graph_cannot_do_is_refused(what: str, tmp_path: Path) -> None:
    half, field, value, text = REFUSED[what]
    case = CASES["c22-agentic-dag"]
    payload = materialise(case["payload"], case["trace_files"], tmp_path)
    payload[half][field] = value
    if field == "max_sim_time_ms":
        payload["spec"][field] = value
    with pytest.raises(RuntimeError) as caught:
        run_replay_json(json.dumps(payload))
    assert text in str(caught.value)
