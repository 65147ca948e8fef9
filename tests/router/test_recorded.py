"""Runs of the reference with its choices forced on us: costs, overlaps and times are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .routed import Forced, payload, run_forced

DATA = Path(__file__).parents[1] / "data" / "router"
AGGREGATED = json.loads((DATA / "golden_aggregated.json").read_text())
DISAGGREGATED = json.loads((DATA / "golden_disaggregated.json").read_text())
FILES = ("recorded_runs.json", "recorded_queues.json")
RUNS = {name: run for file in FILES for name, run in json.loads((DATA / file).read_text()).items()}
# The engine of the two golden sets, whose chunks show in the times.
RANK = {"max_num_batched_tokens": 1024}
SEEN = (
    "arrival_time_ms",
    "input_length",
    "requested_output_length",
    "first_token_ms",
    "terminal_time_ms",
    "reused_input_tokens",
)


def holds(forced: Forced, logits: list[float], *, greedy: bool = True) -> None:
    """The chosen costs are those recorded, and at temperature 0 nothing would have been cheaper."""
    assert [cost for cost, _ in forced.log] == pytest.approx(logits, abs=1e-9, rel=0)
    assert not greedy or all(cost <= least + 1e-9 for cost, least in forced.log)


def in_order(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Bring the recorded decisions into the order of the requests, lost where several arrive at once."""
    left = list(case["trace"])
    decisions = []
    for row in case["requests"]:
        key = (row["timestamp"], row["input_length"], row["output_length"])
        found = next(item for item in left if (item["arrival_ms"], item["isl"], item["osl"]) == key)
        left.remove(found)
        decisions.append(found)
    return decisions


@pytest.mark.parametrize("name", AGGREGATED)
def test_every_logit_of_an_aggregated_pool(name: str, tmp_path: Path) -> None:
    case = AGGREGATED[name]
    decisions = in_order(case)
    asked = payload(case["requests"], tmp_path, workers=3, rank=RANK, **case["cfg"])
    report, forced = run_forced(asked, {"agg": [(item["worker"], 0) for item in decisions]})
    holds(forced["agg"], [item["logit"] for item in decisions])
    by_dispatch = sorted(report["per_request"], key=lambda record: int(record["uuid"]))
    for record, item in zip(by_dispatch, decisions, strict=True):
        assert record["first_token_ms"] == pytest.approx(item["first_token_ms"], abs=1e-5)
        assert record["terminal_time_ms"] == pytest.approx(item["terminal_ms"], abs=1e-4)


def test_every_logit_of_a_pair(tmp_path: Path) -> None:
    stages = {
        stage: [item for item in DISAGGREGATED["decisions"] if item["stage"] == stage]
        for stage in ("prefill", "decode")
    }
    asked = payload(DISAGGREGATED["rows"], tmp_path, pools=(2, 2), rank=RANK)
    choices = {stage: [(item["worker"], 0) for item in items] for stage, items in stages.items()}
    _, forced = run_forced(asked, choices)
    for stage, items in stages.items():
        assert len(items) == 20
        holds(forced[stage], [item["logit"] for item in items])


@pytest.mark.parametrize("name", RUNS)
def test_recorded_runs(name: str, tmp_path: Path) -> None:
    """Evictions, chunks, several ranks, a lag of events, a queue: each engine has its own runs."""
    run = RUNS[name]
    config = run["router"] | ({"kv_event_lag_ms": run["lag_ms"]} if run["lag_ms"] else {})
    asked = payload(
        run["rows"],
        tmp_path,
        workers=run["workers"],
        pools=run["pools"],
        rank=run["engine"],
        launch=run["launch"],
        block=run["block"],
        **config,
    )
    asked["spec"]["engine"]["rank"] = run["engine"]
    choices = {pool: [item[:2] for item in items] for pool, items in run["decisions"].items()}
    report, forced = run_forced(asked, choices)
    for pool, items in run["decisions"].items():
        if forced[pool].log:  # nobody asks where there is one target
            greedy = not config.get("router_temperature")
            holds(forced[pool], [item[2] for item in items], greedy=greedy)
    got = sorted(seen(record) for record in report["per_request"])
    for ours, theirs in zip(got, sorted(map(flat, run["requests"])), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-3)


def flat(want: list[Any]) -> list[Any]:
    return [*want[:6], *(value for route in want[6] for value in route[1:])]


def seen(record: dict[str, Any]) -> list[Any]:
    """What a recorded run has of a request."""
    routes = [
        (
            route["logical_worker_id"],
            route["dp_rank"],
            route["selected_overlap_blocks"],
            route["best_available_overlap_blocks"],
            route["queue_wait_ms"],
        )
        for route in record["routing_history"]
    ]
    values = [record[key] for key in SEEN]
    return values + [value for route in routes for value in route]
