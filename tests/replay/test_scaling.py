"""Pools that scale: the scripted cases of the reference, and what holds for every script."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aisimulate.config.payload import parse_payload
from aisimulate.core.errors import InputError, ReplayError, UnsupportedError
from aisimulate.replay.capabilities import CURRENT, require_scalable
from aisimulate.replay.execute import execute
from aisimulate.replay.scaling import ScriptedPolicy

from .case_files import CASES, payload_of

RECORDED = json.loads((Path(__file__).parents[1] / "data/replay/scaling.json").read_text())
SCRIPTED = [name for name, case in RECORDED.items() if case["operations"]]
FIXED = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}


def scripted(plan: dict[str, Any]) -> ScriptedPolicy:
    return ScriptedPolicy(plan["first_tick_ms"], plan["step_ms"], plan["decisions"])


def same(want: object, got: object) -> bool:
    """Equal, floats within 1e-12: the reference sums variances up in another order."""
    if isinstance(want, dict):
        return (
            isinstance(got, dict) and want.keys() == got.keys() and all(same(want[k], got[k]) for k in want)
        )
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(map(same, want, got))
    if isinstance(want, float):
        return isinstance(got, float | int) and math.isclose(want, got, rel_tol=1e-12)
    return want == got


def theirs(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Leave out what only our snapshots have."""
    traffic = dict(snapshot["traffic"])
    for ours in ("offered_input_tokens", "offered_output_tokens"):
        del traffic[ours]
    return snapshot | {"traffic": traffic}


def spec_of(workers: int, requests: list[tuple[float, int]], startup_ms: float = 0.0) -> dict[str, Any]:
    """An aggregated fleet with fixed times, and requests (arrival in ms, output tokens)."""
    return {
        "topology": {
            "kind": "aggregated",
            "workers": {"initial_workers": workers, "startup_delay_ms": startup_ms},
        },
        "engine": {"rank": rank()},
        "requests": requests_of(requests),
    }


def pair_of(
    requests: list[tuple[float, int]], backend: str = "vllm", startup_ms: float = 0.0
) -> dict[str, Any]:
    """One prefill and one decode worker."""
    pool = {"initial_workers": 1, "startup_delay_ms": startup_ms}
    return {
        "topology": {"kind": "disaggregated", "prefill": pool, "decode": pool},
        "engine": {"prefill": {"rank": rank(backend)}, "decode": {"rank": rank(backend)}},
        "requests": requests_of(requests),
    }


def rank(backend: str = "vllm") -> dict[str, Any]:
    return {
        "backend": backend,
        "num_gpu_blocks": 64,
        "block_size": 4,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 64,
        "timing_model": FIXED,
    }


def requests_of(requests: list[tuple[float, int]]) -> list[dict[str, Any]]:
    return [
        {"id": f"r{number:03}", "arrival_time_ms": at_ms, "input_tokens": 8, "output_tokens": tokens}
        for number, (at_ms, tokens) in enumerate(requests)
    ]


def workers_of(report: dict[str, Any], key: str = "decode_worker_idx") -> list[int]:
    return [record[key] for record in report["per_request"]]


# The reference --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCRIPTED)
def test_snapshots_and_records_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    policy = scripted(RECORDED[name]["plan"])
    report = execute(payload_of(name, tmp_path), scaling=policy)

    assert report["lifecycle_operations"] == RECORDED[name]["operations"]
    assert report["planner_total_ticks"] == len(RECORDED[name]["snapshots"])
    for want, got in zip(RECORDED[name]["snapshots"], policy.snapshots, strict=True):
        assert same(want, theirs(got)), want["now_ms"]


@pytest.mark.parametrize("name", SCRIPTED)
def test_requests_and_worker_seconds_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    report = execute(payload_of(name, tmp_path), scaling=scripted(RECORDED[name]["plan"]))
    want = CASES[name]

    for key in ("duration_ms", "decode_worker_seconds", "gpu_hours", "mean_ttft_ms", "mean_itl_ms"):
        assert math.isclose(want["summary"][key], report[key], rel_tol=1e-9), key
    keys = ("decode_worker_idx", "first_token_ms", "terminal_time_ms")
    got = [[record[key] for key in keys] for record in report["per_request"]]
    assert sorted(got) == sorted([record[key] for key in keys] for record in want["per_request"])


def test_a_fleet_without_workers_keeps_requests_until_it_is_given_up(tmp_path: Path) -> None:
    policy = scripted(RECORDED["c65-target-zero"]["plan"])
    with pytest.raises(ReplayError, match=r"requests wait .* no worker is active"):
        execute(payload_of("c65-target-zero", tmp_path), scaling=policy)
    assert same(RECORDED["c65-target-zero"]["snapshots"][0], theirs(policy.snapshots[0]))


# Round robin (spec 03 sections A2 and B9) -----------------------------------------------------------------


def test_round_robin_goes_on_where_it_was() -> None:
    # Requests of one prefill each, every 20 ms; 3 workers, 2 from 130 ms on, 4 from 250 ms on.
    spec = spec_of(3, [(20.0 * number, 1) for number in range(20)])
    policy = ScriptedPolicy(130.0, 120.0, [{"target_decode": 2}, {"target_decode": 4}])
    report = execute(spec, scaling=policy)

    # At 130 ms worker 0 was served last, so 1 is next; then 3 and 4 come in, and 2 is never seen again.
    assert workers_of(report) == [0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 1, 3, 4, 0, 1, 3, 4]
    assert report["decode_worker_seconds"] == pytest.approx(2 * 0.39 + 0.13 + 2 * 0.14, rel=1e-12)


def test_the_rotation_is_reduced_by_the_workers_that_are_left() -> None:
    spec = spec_of(3, [(20.0 * number, 1) for number in range(10)])
    report = execute(spec, scaling=ScriptedPolicy(50.0, 1000.0, [{"target_decode": 2}]))

    # After 0, 1, 2 the last worker goes: 3 mod 2 = 1.
    assert workers_of(report) == [0, 1, 2, 1, 0, 1, 0, 1, 0, 1]


# Any script -----------------------------------------------------------------------------------------------


def test_workers_count_from_the_request_and_serve_from_when_they_are_ready() -> None:
    spec = spec_of(1, [(10.0 * number, 4) for number in range(12)], startup_ms=35.0)
    policy = ScriptedPolicy(20.0, 20.0, [{"target_decode": 3}])
    report = execute(spec, scaling=policy)

    end_s = report["duration_ms"] / 1000
    assert report["decode_worker_seconds"] == pytest.approx(end_s + 2 * (end_s - 0.020), rel=1e-12)
    first = {
        worker: record["arrival_time_ms"]
        for record in reversed(report["per_request"])
        for worker in [record["decode_worker_idx"]]
    }
    assert first[0] == 0.0
    assert min(first[1], first[2]) >= 55.0
    assert [snapshot["starting_decode_ids"] for snapshot in policy.snapshots[:3]] == [[], [1, 2], []]


def test_requests_wait_for_the_first_worker_and_keep_their_order() -> None:
    spec = spec_of(1, [(0.0, 2), (25.0, 2), (30.0, 2), (100.0, 2)], startup_ms=50.0)
    policy = ScriptedPolicy(20.0, 10.0, [{"target_decode": 0}, {"target_decode": 2}])
    report = execute(spec, scaling=policy)

    records = report["per_request"]
    assert [record["first_admit_ms"] for record in records] == [0.0, 80.0, 80.0, 100.0]
    # The rotation goes on: it stood at 1, with two workers now.
    assert workers_of(report) == [0, 2, 1, 2]
    assert report["completed_requests"] == 4


def test_no_worker_at_the_end_of_the_ticks_is_an_error() -> None:
    class Leaving(ScriptedPolicy):
        def on_tick(self, snapshot: dict[str, Any]) -> dict[str, Any]:
            return {"target_prefill": None, "target_decode": 0, "next_tick_ms": None}

    with pytest.raises(ReplayError, match="no worker will ever serve them"):
        execute(spec_of(1, [(0.0, 2), (50.0, 2)]), scaling=Leaving(20.0, 20.0, []))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"target_decode": 1, "next_tick_ms": None}, "target_prefill: missing"),
        ({"target_prefill": None, "target_decode": -1, "next_tick_ms": None}, "target_decode: -1"),
        ({"target_prefill": None, "target_decode": True, "next_tick_ms": None}, "target_decode: true"),
        ({"target_prefill": None, "target_decode": 1, "next_tick_ms": "5"}, "next_tick_ms: '5'"),
        ({"target_prefill": 2, "target_decode": 1, "next_tick_ms": None}, "there is no prefill pool"),
    ],
)
def test_answers_are_checked(answer: dict[str, Any], message: str) -> None:
    class Wrong(ScriptedPolicy):
        def on_tick(self, snapshot: dict[str, Any]) -> dict[str, Any]:
            return answer

    with pytest.raises(InputError, match=message):
        execute(spec_of(1, [(0.0, 20)]), scaling=Wrong(20.0, 20.0, []))


def test_a_tick_after_the_last_request_does_not_count() -> None:
    spec = spec_of(1, [(0.0, 1)])
    report = execute(spec, scaling=ScriptedPolicy(10.0, 10.0, []))
    assert (report["planner_total_ticks"], report["duration_ms"]) == (0, 10.0)
    assert report["decode_worker_seconds"] == 0.010


def test_a_limit_ends_ticks_too() -> None:
    spec = spec_of(1, [(0.0, 1000)]) | {"max_sim_time_ms": 50.0}
    policy = ScriptedPolicy(10.0, 20.0, [{"target_decode": 2}])
    report = execute(spec, scaling=policy)
    assert [snapshot["now_ms"] for snapshot in policy.snapshots] == [10.0, 30.0, 50.0]
    assert report["decode_worker_seconds"] == pytest.approx(0.05 + 0.04)


# Pairs of pools -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["vllm", "trtllm"])
def test_both_pools_of_a_pair_scale(backend: str) -> None:
    spec = pair_of([(10.0 * number, 6) for number in range(40)], backend, startup_ms=15.0)
    plan = [
        {"target_prefill": 2, "target_decode": 3},
        {"target_prefill": 3},
        {"target_prefill": 1, "target_decode": 1},
        {"target_decode": 2},
    ]
    policy = ScriptedPolicy(25.0, 60.0, plan)
    report = execute(spec, scaling=policy)

    assert report["completed_requests"] == 40
    last = policy.snapshots[-1]
    assert (last["active_prefill_ids"], last["active_decode_ids"]) == ([0], [0, 3])
    assert last["draining_prefill_count"] == last["draining_decode_count"] == 0
    assert {record["prefill_worker_idx"] for record in report["per_request"]} == {0, 1, 2}
    assert {record["decode_worker_idx"] for record in report["per_request"]} == {0, 1, 2, 3}
    pools = [operation["pool"] for operation in report["lifecycle_operations"]]
    assert pools[:2] == ["prefill", "decode"]
    assert all(item["prefill_fpm_snapshots"] for item in policy.snapshots[:5])
    forwards = [item["traffic"]["accept_length_forward_count"] for item in policy.snapshots]
    assert 200 < sum(forwards) <= 40 * 6  # every token comes from one forward


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (pair_of([(0.0, 4)], "sglang"), "backend of pairs of pools that scale 'sglang' is not supported yet"),
        (
            {**spec_of(1, [(0.0, 4)]), "engine": {"rank": rank() | {"aic_nextn": 2}}},
            "aic_nextn: 2 is not supported yet where pools scale",
        ),
    ],
)
def test_what_a_version_cannot_scale_says_so(spec: dict[str, Any], problem: str) -> None:
    lesser = replace(CURRENT, scaled_speculation=False, scaled_pair_backends=frozenset({"trtllm", "vllm"}))
    with pytest.raises(UnsupportedError, match=problem):
        require_scalable(parse_payload(spec).spec, lesser)


def test_sglang_workers_scale() -> None:
    spec = spec_of(1, [(5.0 * number, 6) for number in range(40)])
    spec["engine"] = {"rank": rank("sglang")}
    report = execute(spec, scaling=ScriptedPolicy(25.0, 60.0, [{"target_decode": 3}, {"target_decode": 1}]))
    assert report["completed_requests"] == 40
    assert set(workers_of(report)) == {0, 1, 2}


def test_a_pair_without_change_is_a_fixed_pair() -> None:
    spec = pair_of([(7.0 * number, 6) for number in range(30)])
    fixed = execute(spec)
    scaled = execute(spec, scaling=ScriptedPolicy(10.0, 10.0, []))
    assert scaled["per_request"] == fixed["per_request"]
    assert scaled["decode_worker_seconds"] == fixed["decode_worker_seconds"]


def test_a_fleet_without_change_is_a_fixed_fleet() -> None:
    spec = spec_of(3, [(3.0 * number, 6) for number in range(60)])
    fixed = execute(spec)
    scaled = execute(spec, scaling=ScriptedPolicy(10.0, 10.0, []))
    assert scaled["per_request"] == fixed["per_request"]
    assert scaled["gpu_hours"] == fixed["gpu_hours"]


@pytest.mark.parametrize(
    ("pair", "queue"), [(False, {}), (True, {}), (False, {"router_queue_threshold": 0.5})]
)
def test_a_router_gets_to_know_new_workers(pair: bool, queue: dict[str, float]) -> None:
    requests = [(4.0 * number, 6) for number in range(60)]
    spec = pair_of(requests, startup_ms=15.0) if pair else spec_of(2, requests, startup_ms=15.0)
    spec["adapters"] = {"placement": {"provider": "kv_router", "config": queue}}
    fixed = execute(spec)
    unchanged = execute(spec, scaling=ScriptedPolicy(10.0, 10.0, []))
    assert unchanged["per_request"] == fixed["per_request"]

    targets = {"target_prefill": 3, "target_decode": 3} if pair else {"target_decode": 4}
    fewer = dict.fromkeys(targets, 1)
    policy = ScriptedPolicy(30.0, 60.0, [targets, {}, fewer])
    report = execute(spec, scaling=policy)
    assert report["completed_requests"] == 60
    assert {record["decode_worker_idx"] for record in report["per_request"]} == set(range(3 if pair else 4))
    assert report["mean_e2e_latency_ms"] < fixed["mean_e2e_latency_ms"]
    assert policy.snapshots[-1]["active_decode_ids"] == [0]
    assert sum(snapshot["traffic"]["hit_rate_count"] for snapshot in policy.snapshots) > 30


@pytest.mark.parametrize("backend", ["vllm", "trtllm", "sglang"])
def test_who_waits_in_front_of_a_pair_gets_to_new_workers(backend: str) -> None:
    spec = pair_of([(4.0 * number, 6) for number in range(60)], backend, startup_ms=15.0)
    spec["adapters"] = {"placement": {"provider": "kv_router", "config": {"router_queue_threshold": 0.0}}}
    fixed = execute(spec)
    unchanged = execute(spec, scaling=ScriptedPolicy(10.0, 10.0, []))
    assert unchanged["per_request"] == fixed["per_request"]

    more, fewer = ({"target_prefill": count, "target_decode": count} for count in (3, 1))
    report = execute(spec, scaling=ScriptedPolicy(30.0, 60.0, [more, {}, fewer]))
    assert report["completed_requests"] == 60
    waits = [
        sum(route["queue_wait_ms"] for record in result["per_request"] for route in record["routing_history"])
        for result in (report, fixed)
    ]
    assert waits[0] < waits[1]


def test_pools_of_a_pair_wait_for_workers() -> None:
    spec = pair_of([(0.0, 3), (30.0, 3), (200.0, 3)], startup_ms=40.0)
    plan = [{"target_prefill": 0, "target_decode": 0}, {"target_prefill": 1}, {"target_decode": 1}]
    report = execute(spec, scaling=ScriptedPolicy(25.0, 50.0, plan))
    second = report["per_request"][1]
    assert second["prefill_admit_ms"] == 115.0
    assert second["destination_reserved_ms"] == 165.0
    assert report["completed_requests"] == 3


@pytest.mark.parametrize("pools", ["one", "two"])
def test_host_memory_of_pools_that_scale_is_reported(pools: str) -> None:
    """As of pools that stay: the script changes nothing."""
    timing = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}
    bare = {"timing_model": timing, "num_gpu_blocks": 24, "block_size": 16}
    hosted = {**bare, "kv_cache_bytes_per_token": 1000, "native_host_offload": {"num_host_blocks": 400}}
    one = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": hosted},
    }
    two = {
        "topology": {
            "kind": "disaggregated",
            "prefill": {"initial_workers": 1},
            "decode": {"initial_workers": 1},
        },
        "engine": {"prefill": {"rank": hosted}, "decode": {"rank": bare | {"num_gpu_blocks": 200}}},
    }
    script = {"first_tick_ms": 50.0, "step_ms": 50.0, "decisions": [{"target_decode": 1}]}
    spec = one if pools == "one" else two
    traffic = {"source_type": "synthetic-session", "isl": 100, "osl": 20, "request_count": 9}
    traffic |= {"turns_per_session": 3, "concurrency": 3}
    stays = execute({"spec": spec, "traffic": traffic})
    adapters = {"scaling": {"provider": "scripted", "config": script}}
    scales = execute({"spec": spec | {"adapters": adapters}, "traffic": traffic})
    key = "first_admission_reused_tokens_by_tier"
    assert scales[key] == stays[key]
    assert stays[key]["host"] > 0


DISK = {
    "num_gpu_blocks": 24,
    "kv_cache_bytes_per_token": 1000,
    "native_host_offload": {"num_host_blocks": 30},
    "g3_offload": {"scope": "cluster_shared", "num_g3_blocks": 4000},
}


@pytest.mark.parametrize("rank", [DISK, {"backend": "sglang"}, {"backend": "trtllm"}])
def test_workers_that_may_scale_are_what_they_would_be_without(rank: dict[str, Any]) -> None:
    """They share a disk, and draw from streams of their own."""
    timing = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}
    spec: dict[str, Any] = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 2}},
        "engine": {"rank": {"timing_model": timing, "block_size": 16, **rank}},
    }
    traffic = {"source_type": "synthetic-session", "isl": 100, "osl": 20, "request_count": 12}
    traffic |= {"turns_per_session": 3, "concurrency": 4, "shared_prefix_ratio": 0.8, "num_prefix_groups": 3}
    script = {"first_tick_ms": 50.0, "step_ms": 50.0, "decisions": [{"target_decode": 2}]}
    stays = execute({"spec": spec, "traffic": traffic})
    spec["adapters"] = {"scaling": {"provider": "scripted", "config": script}}
    scales = execute({"spec": spec, "traffic": traffic})
    assert scales["duration_ms"] == stays["duration_ms"]
    assert scales["mean_ttft_ms"] == stays["mean_ttft_ms"]
    assert scales.get("g3_offload") == stays.get("g3_offload")
