"""The states of a scaled pool and their records, as the reference has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aisimulate.core.units import clock_ns
from aisimulate.replay.worker_pool import LifecycleLog, WorkerPool

RECORDED = json.loads((Path(__file__).parents[1] / "data/replay/lifecycle.json").read_text())


def removed(operation: dict[str, Any]) -> set[int]:
    return {
        item["worker_id"]
        for item in operation["transitions"]
        if (item["prior_state"], item["state"]) == ("draining", "removed")
    }


def replayed(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Apply what the recorded operations came from: decisions, instants, and workers that were idle."""
    log = LifecycleLog()
    pool = WorkerPool("agg", case["workers"], clock_ns(case["startup_ms"]), log)
    operations = case["operations"]
    for number, operation in enumerate(operations):
        now_ns, idle = clock_ns(operation["at_ms"]), removed(operation)
        if operation["cause"] == "planner_scale":
            tick = operation["planner_tick_ordinal"]
            pool.scale(case["targets"][tick], now_ns, tick, idle.__contains__)
        elif operation["cause"] == "drain_settlement":
            pool.settle([*idle, 99], now_ns)
        elif len(log.records) == number:  # several workers get ready at once
            pool.get_ready(now_ns)
    return log.records


@pytest.mark.parametrize("name", RECORDED)
def test_records_are_those_of_the_reference(name: str) -> None:
    case = RECORDED[name]
    for got, want in zip(replayed(case), case["operations"], strict=True):
        assert got == {**want, "pool": "agg", "topology_released_request_uuids": []}


def test_a_target_that_is_met_changes_nothing() -> None:
    log = LifecycleLog()
    pool = WorkerPool("agg", 2, 10, log)
    pool.scale(3, 0, 0, bool)
    pool.scale(3, 5, 1, bool)
    pool.settle([0], 6)
    assert pool.get_ready(9) == []
    assert (len(log.records), pool.wanted, list(pool.starting)) == (1, 3, [2])
    assert pool.get_ready(10) == [2]
    assert (sorted(pool.active), pool.starting) == ([0, 1, 2], {})


def test_pools_share_the_numbering() -> None:
    log = LifecycleLog()
    prefill, decode = (WorkerPool(name, 1, 0, log) for name in ("prefill", "decode"))
    prefill.scale(2, 0, 0, bool)
    decode.scale(2, 0, 0, bool)
    assert [(item["operation_ordinal"], item["pool"]) for item in log.records] == [
        (0, "prefill"),
        (1, "decode"),
    ]
