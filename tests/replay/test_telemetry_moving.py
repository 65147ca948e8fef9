"""Telemetry where workers come and go, and where requests wait at a router, against the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from aisimulate.replay.observe.telemetry import Telemetry

from .observed import RANK, simulated_part

RECORDED = json.loads((Path(__file__).parents[1] / "data/replay/telemetry_moving.json").read_text())
GAUGES = ("worker_id", "active_blocks", "inactive_blocks", "running_requests", "waiting_requests")


def payload_of(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    path = folder / "trace.jsonl"
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    rows = [dict(zip(names, row, strict=True)) for row in case["requests"]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    adapters: dict[str, Any] = {}
    if case["scaling"]:
        adapters["scaling"] = {"provider": "scripted", "config": case["scaling"]}
    if case["queue_threshold"]:
        config = {"router_queue_threshold": case["queue_threshold"]}
        adapters["placement"] = {"provider": "kv_router", "config": config}
    engine: dict[str, Any] = {"rank": RANK}
    if case["topology"]["kind"] == "disaggregated":
        engine = {"prefill": engine, "decode": engine}
    spec = {"version": 1, "topology": case["topology"], "engine": engine, "adapters": adapters}
    traffic = {"source_type": "trace", "trace_paths": [str(path)], "trace_block_size": RANK["block_size"]}
    return {"spec": spec, "traffic": traffic}


def compact(sample: dict[str, Any]) -> dict[str, Any]:
    """A sample as the recordings have it; cache lookups are left out, the reference reports none for vLLM."""
    gauges = {
        side: [[rank[name] for name in GAUGES] for rank in sample[f"{side}_scheduler_metrics"]]
        for side in ("prefill", "decode")
    }
    return {
        "kind": sample["kind"],
        "at_ms": sample["sampled_at_ms"],
        "traffic": {key: value for key, value in sample["traffic"].items() if value},
        **gauges,
        "pending": [sample[f"router_pending_{side}_requests"] for side in gauges],
        "ids": [
            sample[f"{state}_{side}_ids"] for state in ("active", "starting", "draining") for side in gauges
        ],
    }


def watched(case: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    samples: list[dict[str, Any]] = []
    observers = [Telemetry(case["interval_ms"], samples.append), InvariantChecker(thorough=True)]
    return execute(payload_of(case, folder), observers=observers), samples


@pytest.mark.parametrize("name", RECORDED)
def test_samples_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    case = RECORDED[name]
    _, samples = watched(case, tmp_path)
    assert len(samples) == len(case["samples"])
    for got, want in zip(map(compact, samples), case["samples"], strict=True):
        for key in ("traffic", "at_ms"):
            assert got.pop(key) == pytest.approx(want[key]), want["at_ms"]
        assert got == {key: want[key] for key in got}, want["at_ms"]


@pytest.mark.parametrize("name", RECORDED)
def test_watching_changes_nothing(name: str, tmp_path: Path) -> None:
    report, _ = watched(RECORDED[name], tmp_path)
    assert simulated_part(report) == simulated_part(execute(payload_of(RECORDED[name], tmp_path)))
