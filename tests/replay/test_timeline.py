"""The timeline of a replay is a sound Trace Event document."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aisimulate.replay.execute import execute
from aisimulate.replay.observe.timeline import Timeline
from oracle.sglang_strategies import crowded_draft_scenarios, sglang_scenarios
from oracle.strategies import Scenario, scenarios

from .case_files import payload_of
from .observed import BASE, payload, simulated_part


def drawn(asked: dict[str, Any], **options: int) -> tuple[dict[str, Any], dict[str, Any]]:
    timeline = Timeline(**options)
    report = execute(asked, observers=[timeline])
    return report, json.loads(json.dumps(timeline.document(), allow_nan=False))


def stages(document: dict[str, Any]) -> dict[int, list[tuple[str, float, float]]]:
    """(stage, from, to) by request number; begins and ends have to alternate."""
    found: dict[int, list[tuple[str, float, float]]] = defaultdict(list)
    begun: dict[int, dict[str, Any]] = {}
    for event in document["traceEvents"]:
        if event["ph"] == "B":
            assert event["tid"] not in begun
            begun[event["tid"]] = event
        elif event["ph"] == "E":
            begin = begun.pop(event["tid"])
            assert begin["name"] == event["name"]
            found[event["tid"]].append((event["name"], begin["ts"] / 1000, event["ts"] / 1000))
    assert begun == {}
    return found


def check_slices(document: dict[str, Any]) -> None:
    """The slices of a rank do not overlap."""
    ends: dict[tuple[int, int], float] = defaultdict(float)
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            track = event["pid"], event["tid"]
            assert event["ts"] >= ends[track] - 1e-3
            ends[track] = event["ts"] + event["dur"]
            assert event["dur"] >= 0
            assert event["args"]["passes"] >= 1


def check_document(document: dict[str, Any], asked: dict[str, Any]) -> None:
    """Phases, order, pairs, slices and counters."""
    events = document["traceEvents"]
    assert {event["ph"] for event in events} <= {"M", "X", "C", "B", "E"}
    instants = [event["ts"] for event in events]
    assert instants == sorted(instants)
    stages(document)
    check_slices(document)
    rank = asked.get("spec", asked)["engine"]["rank"]
    for event in events:
        if event["ph"] == "C":
            assert all(value >= 0 for value in event["args"].values())
            if event["name"].endswith("KV blocks"):
                assert sum(event["args"].values()) <= rank["num_gpu_blocks"]
            else:
                assert event["args"]["running"] <= rank["max_num_seqs"]


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.one_of(scenarios(), sglang_scenarios(), crowded_draft_scenarios()))
def test_any_replay_can_be_drawn(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asked = scenario.materialise(Path(folder))
        report, document = drawn(asked)
        check_document(document, asked)
        assert simulated_part(report) == simulated_part(execute(asked))


def test_a_request_goes_through_its_stages(tmp_path: Path) -> None:
    report, document = drawn(payload_of("c54-preemption", tmp_path))
    records = sorted(report["per_request"], key=lambda record: int(record["uuid"]))
    for number, record in enumerate(records, start=1):
        track = stages(document)[number]
        names = [name for name, _, _ in track]
        again = ["preempted", "prefill", "decode"] * record["readmission_count"]
        assert names == ["queued", "prefill", "decode", *again]
        assert track[0][1:] == (record["arrival_time_ms"], record["first_admit_ms"])
        assert track[1][2] == record["first_token_ms"]
        assert track[-1][2] == record["terminal_time_ms"]
        readmitted = [start for name, start, _ in track if name == "prefill"]
        assert readmitted == [entry["at_ms"] for entry in record["admission_history"]]


def test_a_rejection_ends_the_queue_with_its_reason() -> None:
    asked = payload([(0.0, 8, 2), (1.0, 400, 2)])
    _, document = drawn(asked)
    assert stages(document)[2] == [("queued", 1.0, 15.0)]  # at the end of the pass that saw it
    ends = [event["args"] for event in document["traceEvents"] if event["ph"] == "E" and event["tid"] == 2]
    assert ends == [{"rejected": "prompt_exceeds_kv_capacity"}]


def test_a_run_of_passes_is_one_slice() -> None:
    _, document = drawn(payload([(0.0, 8, 100)]))
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [(event["name"], event["ts"], event["dur"], event["args"]["passes"]) for event in slices] == [
        ("prefill", 0.0, 10_000.0, 1),
        ("decode", 10_000.0, 495_000.0, 99),
    ]
    assert slices[0]["args"]["prefill_tokens"] == 8
    assert slices[1]["args"]["decode_batch"] == 1
    assert slices[1]["args"]["context_tokens"] == 9


def test_each_rank_of_each_worker_has_a_track() -> None:
    _, document = drawn(payload([(0.0, 8, 3)] * 4, workers=2, dp_size=2))
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in document["traceEvents"]
        if event["name"] == "thread_name" and event["pid"] > 1
    }
    assert names == {(pid, tid): f"rank {tid - 1}" for pid in (2, 3) for tid in (1, 2)}
    busy = {(event["pid"], event["tid"]) for event in document["traceEvents"] if event["ph"] == "X"}
    assert busy == set(names)


@pytest.mark.parametrize(("most", "stride", "kept"), [(256, 1, 20), (20, 1, 20), (19, 2, 10), (4, 8, 3)])
def test_too_many_requests_are_sampled_evenly(most: int, stride: int, kept: int) -> None:
    asked = payload([(float(number), 8, 3) for number in range(20)])
    _, document = drawn(asked, most_requests=most)
    assert document["otherData"] == {"requests": 20, "request_stride": stride}
    assert sorted(stages(document)) == [1 + stride * number for number in range(kept)]
    check_document(document, asked)


def test_the_same_replay_is_drawn_the_same() -> None:
    assert drawn(BASE)[1] == drawn(BASE)[1]
