"""Pools that scale by random scripts: all requests, and what the policy is shown, as recorded."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from aisimulate.replay.scaling import ScriptedPolicy

from .test_scaling import same, theirs

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/replay/scaled_scripts.jsonl").read_text().splitlines()
]
COLUMNS = (
    "arrival_time_ms",
    "first_token_ms",
    "last_token_ms",
    "terminal_time_ms",
    "prefill_worker_idx",
    "decode_worker_idx",
    "terminal_status",
    "input_length",
    "output_length",
)


def payload_of(item: dict[str, Any], folder: Path) -> dict[str, Any]:
    trace = folder / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in item["rows"]))
    pools = [{"initial_workers": count, "startup_delay_ms": item["startup_ms"]} for count in item["workers"]]
    role = {"rank": item["rank"]}
    topology: dict[str, Any] = {"kind": "aggregated", "workers": pools[1]}
    engine: dict[str, Any] = role
    if item["is_pair"]:
        topology = {"kind": "disaggregated", "prefill": pools[0], "decode": pools[1]}
        engine = {"prefill": role, "decode": role}
    spec = {"version": 1, "topology": topology, "engine": engine}
    traffic = {"source_type": "trace", "trace_paths": [str(trace)], "trace_block_size": 4}
    return {"spec": spec, "traffic": traffic}


def outcome(values: list[Any]) -> tuple[Any, ...]:
    return tuple(round(value * 1e6) if isinstance(value, float) else value for value in values)


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_equals_the_reference(case: dict[str, Any], tmp_path: Path) -> None:
    item = case["instance"]
    policy = ScriptedPolicy(item["first_tick_ms"], item["step_ms"], item["decisions"])
    payload = payload_of(item, tmp_path)
    report = execute(payload, scaling=policy, observers=[InvariantChecker(thorough=True)])

    rows = [[record[name] for name in COLUMNS] for record in report["per_request"]]
    assert Counter(map(outcome, rows)) == Counter(map(outcome, case["records"]))
    assert len(policy.snapshots) >= len(case["snapshots"])
    for want, got in zip(case["snapshots"], policy.snapshots, strict=False):
        assert same(want, theirs(got)), want["now_ms"]
