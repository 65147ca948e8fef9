"""Replays whose pools scale, and those with a queue at the router, seen by all observers at once."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from aisimulate.replay.observe.telemetry import Telemetry
from aisimulate.replay.observe.timeline import Timeline

from .observed import RANK, simulated_part
from .test_timeline import stages

QUEUE = {"provider": "kv_router", "config": {"router_queue_threshold": 0.1}}
STATES = ("starting", "active", "draining")


def random_payload(seed: int) -> dict[str, Any]:
    """Bursts of requests on one pool or two, of any backend, that grow and shrink at random."""
    draw = Random(seed)
    backend = draw.choice(["vllm", "vllm", "trtllm", "sglang"])
    paired = draw.random() < 0.5
    rank = RANK | {"backend": backend, "num_gpu_blocks": draw.choice([12, 24, 64])}
    pool = {"initial_workers": draw.randint(1, 2), "startup_delay_ms": draw.choice([0.0, 12.0, 30.0])}
    role = {"dp_size": draw.choice([1, 1, 2]), "rank": rank}
    topology: dict[str, Any] = {"kind": "aggregated", "workers": pool}
    if paired:
        topology = {"kind": "disaggregated", "prefill": pool, "decode": pool, "handoff_latency_ms": 3.5}
    decisions = [
        {
            "target_decode": draw.choice([None, 1, 2, 4]),
            "target_prefill": draw.choice([None, 1, 3]) if paired else None,
        }
        for _ in range(draw.randint(1, 8))
    ]
    scripted = {"first_tick_ms": draw.choice([5.0, 8.0, 15.0]), "step_ms": draw.choice([5.0, 20.0])}
    adapters: dict[str, Any] = {
        "scaling": {"provider": "scripted", "config": scripted | {"decisions": decisions}}
    }
    if draw.random() < 0.4:
        adapters["placement"] = QUEUE if draw.random() < 0.5 else {"provider": "kv_router", "config": {}}
    requests = [
        {
            "id": f"r{number:02}",
            "arrival_time_ms": draw.choice([0.0, 5.0, 10.0, 33.0, 60.0]),
            "input_tokens": draw.randint(1, 40),
            "output_tokens": draw.choice([0, 1, 2, 5, 12]),
        }
        for number in range(draw.randint(1, 20))
    ]
    engine = {"prefill": role, "decode": role} if paired else role
    return {"version": 1, "topology": topology, "engine": engine, "adapters": adapters, "requests": requests}


@pytest.mark.parametrize("seed", range(60))
def test_watching_changes_nothing_and_all_rules_hold(seed: int) -> None:
    asked = random_payload(seed)
    samples: list[dict[str, Any]] = []
    timeline = Timeline()
    watched = execute(
        asked, observers=[Telemetry(4.0, samples.append), timeline, InvariantChecker(thorough=True)]
    )

    assert simulated_part(watched) == simulated_part(execute(asked))
    traffic = [sample["traffic"] for sample in samples]
    assert sum(item["arriving_requests"] for item in traffic) == watched["num_requests"]
    assert sum(item["completed_requests"] for item in traffic) == watched["completed_requests"]
    stages(timeline.document())


def fleet(decisions: list[dict[str, int]], startup_ms: float) -> dict[str, Any]:
    """One worker, a request every 10 ms, and a decision every 20 ms."""
    pool = {"initial_workers": 1, "startup_delay_ms": startup_ms}
    scripted = {"first_tick_ms": 20.0, "step_ms": 20.0, "decisions": decisions}
    return {
        "topology": {"kind": "aggregated", "workers": pool},
        "engine": {"rank": RANK},
        "adapters": {"scaling": {"provider": "scripted", "config": scripted}},
        "requests": [
            {"id": f"r{number}", "arrival_time_ms": 10.0 * number, "input_tokens": 8, "output_tokens": 4}
            for number in range(10)
        ],
    }


def test_tracks_of_workers_begin_and_end_with_them() -> None:
    timeline = Timeline()
    report = execute(fleet([{"target_decode": 2}, {}, {"target_decode": 1}], 15.0), observers=[timeline])
    events = timeline.document()["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert [*names.values()] == ["requests", "worker 0", "worker 1"]
    stays = [
        (names[event["pid"]], event["name"], event["ts"] / 1000, event["dur"] / 1000)
        for event in events
        if event["ph"] == "X" and event["name"] in STATES
    ]
    left = next(
        operation["at_ms"]
        for operation in report["lifecycle_operations"]
        if operation["cause"] == "drain_settlement"
    )
    end = report["duration_ms"]
    assert sorted(stays) == [
        ("worker 0", "active", 0.0, end),
        ("worker 1", "active", 35.0, 25.0),
        ("worker 1", "draining", 60.0, left - 60.0),
        ("worker 1", "starting", 20.0, 15.0),
    ]
    (pid,) = (pid for pid, name in names.items() if name == "worker 1")
    passes = [e for e in events if e["pid"] == pid and e["ph"] == "X" and e["name"] not in STATES]
    assert passes
    assert all(e["ts"] / 1000 >= 35.0 and (e["ts"] + e["dur"]) / 1000 <= left for e in passes)


def test_a_fleet_that_stays_as_it_is_has_no_track_of_states() -> None:
    timeline = Timeline()
    execute(fleet([{}], 0.0), observers=[timeline])
    names = {event["name"] for event in timeline.document()["traceEvents"]}
    assert names.isdisjoint(STATES)


def test_who_waits_at_a_router_is_drawn_as_unplaced() -> None:
    asked = fleet([{}], 0.0) | {"adapters": {"placement": QUEUE}}
    for request in asked["requests"]:
        request["arrival_time_ms"] = 0.0
    timeline = Timeline()
    report = execute(asked, observers=[timeline])
    drawn = stages(timeline.document())
    waited = {
        int(record["uuid"]): record["routing_history"][0]["queue_wait_ms"]
        for record in report["per_request"]
        if record["routing_history"][0]["queue_wait_ms"]
    }
    assert waited
    for number, found in drawn.items():
        unplaced = [(since, until) for name, since, until in found if name == "unplaced"]
        assert unplaced == ([(0.0, pytest.approx(waited[number]))] if number in waited else [])
