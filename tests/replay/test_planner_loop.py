"""The planner in the loop of a replay: the events of the reference, and what direct sizing keeps to."""

from __future__ import annotations

import gzip
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from aisimulate.core.errors import InputError
from aisimulate.replay.execute import execute

DATA = Path(__file__).parents[1] / "data/planner"
EVENTS: dict[str, list[list[float]]] = json.loads((DATA / "loop_events.json").read_text())
FIXED = {"type": "fixed", "prefill_ms": 100.0, "decode_ms": 10.0}


def conversation(folder: Path, startup_s: float, config: dict[str, Any], limit_s: float) -> dict[str, Any]:
    trace = folder / "trace.jsonl"
    trace.write_bytes(gzip.decompress((DATA / "conversation_start.jsonl.gz").read_bytes()))
    pool = {"initial_workers": 2, "startup_delay_ms": startup_s * 1000}
    return {
        "spec": {
            "topology": {"kind": "aggregated", "workers": pool},
            "adapters": {"scaling": {"provider": "planner", "config": config}},
            "max_sim_time_ms": limit_s * 1000,
        },
        "traffic": {
            "source_type": "trace",
            "trace_path": str(trace),
            "trace_format": "mooncake",
            "arrival_speedup_ratio": 4.0,
            "max_sim_time_ms": limit_s * 1000,
        },
    }


def steady(
    rate: float,
    seconds: float,
    config: dict[str, Any],
    *,
    workers: int = 1,
    startup_s: float = 0.0,
    pair: bool = False,
    idle_from_s: float = math.inf,
) -> dict[str, Any]:
    """Equal requests at equal distances; none in the minute from `idle_from_s` on."""
    times = [number / rate for number in range(int(rate * seconds))]
    requests = [
        {"id": f"r{number:05}", "arrival_time_ms": at_s * 1000, "input_tokens": 64, "output_tokens": 20}
        for number, at_s in enumerate(times)
        if not idle_from_s <= at_s < idle_from_s + 60
    ]
    pool = {"initial_workers": workers, "startup_delay_ms": startup_s * 1000}
    kinds = ("prefill", "decode") if pair else ("workers",)
    rank = {"num_gpu_blocks": 512, "block_size": 16, "max_num_seqs": 4, "timing_model": FIXED}
    roles = {role: {"rank": rank} for role in kinds} if pair else {"rank": rank}
    return {
        "topology": {"kind": "disaggregated" if pair else "aggregated", **dict.fromkeys(kinds, pool)},
        "engine": roles,
        "adapters": {"scaling": {"provider": "planner", "config": config}},
        "requests": requests,
    }


def events_of(report: dict[str, Any]) -> list[list[float]]:
    return [
        [row["at_ms"] / 1000, row["observed"]["non_draining"]["agg"], row["applied"]["agg"]]
        for row in report["scaling_decisions"]
        if row["applied"]
    ]


def totals(report: dict[str, Any], pools: dict[str, int]) -> list[int]:
    """GPUs in use after each change, draining ones included; at first those of `pools`."""
    found = [sum(pools.values())]
    for operation in report["lifecycle_operations"]:
        pools[operation["pool"]] = sum(map(len, operation["state_after_batch"].values()))
        found.append(sum(pools.values()))
    return found


# The reference --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("startup_s", [0, 60])
def test_events_on_the_conversation_trace_are_those_of_the_reference(startup_s: int, tmp_path: Path) -> None:
    config = {"optimization_target": "throughput", "max_gpu_budget": 16}
    limit_s = 130.0 if startup_s == 0 else 80.0
    report = execute(conversation(tmp_path, startup_s, config, limit_s))

    want = [event for event in EVENTS[str(startup_s)] if event[0] <= limit_s]
    assert events_of(report) == want
    assert report["planner_total_ticks"] == limit_s / 5
    spans = [(at_s, after) for at_s, _, after in [[0.0, 0, 2], *want]]
    assert startup_s or report["decode_worker_seconds"] >= sum(
        count * (end - start) for (start, count), (end, _) in pairwise([*spans, (limit_s, 0)])
    )


def test_a_startup_blocks_the_reference(tmp_path: Path) -> None:
    config = {"optimization_target": "throughput", "max_gpu_budget": 16}
    report = execute(conversation(tmp_path, 60, config, 80.0))
    reasons = [row["reason"] for row in report["scaling_decisions"]]
    assert reasons[2:13] == ["scaling_in_progress"] * 11
    assert reasons.count("worker_count_mismatch") == 1


# Direct sizing --------------------------------------------------------------------------------------------


def direct(**config: Any) -> dict[str, Any]:
    return {"planner_mode": "direct", "max_gpu_budget": 64, "load_predictor": "constant", **config}


@pytest.mark.parametrize("startup_s", [0.0, 30.0, 60.0])
@pytest.mark.parametrize("pair", [False, True])
def test_direct_reaches_in_one_step_what_the_load_needs(startup_s: float, pair: bool) -> None:
    # 4 at once take 20 passes of 10 ms and 20/5 s of prompts: far more than one worker.
    report = execute(steady(20.0, 400.0, direct(), startup_s=startup_s, pair=pair))
    changes = [row for row in report["scaling_decisions"] if row["applied"]]
    assert changes[0]["at_ms"] == 5000.0
    sizes = [row["observed"]["non_draining"] for row in report["scaling_decisions"]]
    for pool, size in changes[0]["applied"].items():
        assert size > 2 or pool == "decode"
        counts = [count[pool] for count in sizes[1:]]
        assert counts == sorted(counts, reverse=True)  # enough at once, and what worked off the queue goes
        assert startup_s or counts[0] - counts[-1] <= 1
    assert report["completed_requests"] == 8000


@pytest.mark.parametrize(("startup_s", "size"), [(0, 7), (60, 9)])
def test_direct_sizes_for_the_conversation_at_the_first_tick(
    startup_s: int, size: int, tmp_path: Path
) -> None:
    # 7 workers is what the whole trace is served by; two more work off what a minute of waiting leaves.
    config = {"planner_mode": "direct", "max_gpu_budget": 16}
    report = execute(conversation(tmp_path, startup_s, config, 80.0))
    assert events_of(report) == [[5.0, 2, size]]


def test_direct_halves_the_wait_for_first_tokens_and_takes_fewer_gpus(tmp_path: Path) -> None:
    reports = {}
    for mode in ("reference", "direct"):
        config = {"planner_mode": mode, "max_gpu_budget": 16}
        reports[mode] = execute(conversation(tmp_path, 60, config, 1e6))
    assert reports["direct"]["mean_ttft_ms"] <= reports["reference"]["mean_ttft_ms"] / 2
    assert reports["direct"]["gpu_hours"] <= reports["reference"]["gpu_hours"]


def test_one_busy_window_is_no_reason_to_grow() -> None:
    payload = steady(10.0, 300.0, direct())
    settled = execute(payload)["scaling_decisions"][-1]["observed"]["non_draining"]["agg"]
    burst = [
        {"id": f"b{number}", "arrival_time_ms": 151_000.0, "input_tokens": 64, "output_tokens": 20}
        for number in range(8)
    ]
    payload["requests"] = sorted([*payload["requests"], *burst], key=lambda one: one["arrival_time_ms"])
    decisions = execute(payload)["scaling_decisions"]
    assert "scale_up_waits" in [row["reason"] for row in decisions]
    assert {row["observed"]["non_draining"]["agg"] for row in decisions[20:]} == {settled}


@pytest.mark.parametrize("rate", [0.5, 3.0, 6.0, 7.7, 20.0])
def test_a_steady_load_is_served_by_steady_replicas(rate: float) -> None:
    report = execute(steady(rate, 600.0, direct()))
    counts = [row["observed"]["non_draining"]["agg"] for row in report["scaling_decisions"]]
    assert len(set(counts[60:])) == 1  # from 300 s on
    changes = [after - before for before, after in pairwise(counts) if after != before]
    assert sum((first > 0) != (second > 0) for first, second in pairwise(changes)) <= 1


@pytest.mark.parametrize("startup_s", [0.0, 30.0])
@pytest.mark.parametrize("pair", [False, True])
def test_direct_keeps_within_gpus_and_floors_at_every_instant(startup_s: float, pair: bool) -> None:
    config = direct(max_gpu_budget=7, min_endpoint=2)
    report = execute(steady(25.0, 200.0, config, workers=2, startup_s=startup_s, pair=pair, idle_from_s=60.0))
    gpus = totals(report, dict.fromkeys(("prefill", "decode") if pair else ("agg",), 2))
    assert 4 < max(gpus) <= 7
    for operation in report["lifecycle_operations"]:
        state = operation["state_after_batch"]
        assert len(state["active"]) + len(state["starting"]) >= 2
    assert report["completed_requests"] == report["num_requests"]


def test_nothing_is_nan_in_idle_windows() -> None:
    report = execute(steady(10.0, 400.0, direct(min_endpoint=1), workers=4, idle_from_s=100.0))
    text = json.dumps(report["scaling_decisions"], allow_nan=False)
    assert "NaN" not in text
    for row in report["scaling_decisions"]:
        if row["forecast"] is not None:
            assert min(row["forecast"].values()) >= 0


def test_replicas_may_all_go_and_come_back() -> None:
    config = direct(min_endpoint=0)
    report = execute(steady(5.0, 300.0, config, workers=1, startup_s=10.0, idle_from_s=60.0))
    assert report["completed_requests"] == report["num_requests"]


def sparse(config: dict[str, Any], *, startup_s: float = 0.0) -> dict[str, Any]:
    """Two requests an hour apart, the second long after every worker may have gone."""
    spec = steady(1.0, 2.0, config, startup_s=startup_s)
    spec["requests"][1]["arrival_time_ms"] = 3_600_000
    return spec


@pytest.mark.parametrize("predictor", ["pool", "constant", "smoothing"])
@pytest.mark.parametrize("startup_s", [0.0, 60.0])
def test_a_lone_request_brings_a_worker_back_whatever_is_forecast(predictor: str, startup_s: float) -> None:
    config = direct(min_endpoint=0, load_predictor=predictor)
    report = execute(sparse(config, startup_s=startup_s))
    assert report["completed_requests"] == 2
    assert report["max_ttft_ms"] <= (startup_s + 5.0 + 1.0) * 1000
    assert report["gpu_hours"] < 0.5


@pytest.mark.parametrize(("load_s", "throughput_s", "tick_s"), [(5, 180.1, 0.1), (0.7, 2.1, 0.7)])
def test_ticks_come_at_what_divides_intervals_as_they_are_written(
    load_s: float, throughput_s: float, tick_s: float
) -> None:
    config = {
        "optimization_target": "sla",
        "load_predictor": "constant",
        "enable_load_scaling": True,
        "load_adjustment_interval_seconds": load_s,
        "throughput_adjustment_interval_seconds": throughput_s,
    }
    report = execute(sparse(config))
    decisions = report["scaling_decisions"]
    assert report["planner_total_ticks"] == len(decisions) == pytest.approx(3600 / tick_s, abs=3)
    assert [row["at_ms"] for row in decisions[:3]] == pytest.approx(
        [tick_s * 1e3, tick_s * 2e3, tick_s * 3e3], abs=1e-6
    )


def test_equal_runs_give_equal_reports(tmp_path: Path) -> None:
    def run() -> str:
        report = execute(conversation(tmp_path, 0, direct(optimization_target="latency"), 60.0))
        del report["wall_time_ms"], report["processed_tokens_per_s"], report["processed_output_tokens_per_s"]
        return json.dumps(report)

    assert run() == run()


# What a record tells --------------------------------------------------------------------------------------


def test_average_gpus_are_gpu_time_over_duration() -> None:
    report = execute(steady(20.0, 60.0, direct()))
    assert report["avg_gpu"] == pytest.approx(report["gpu_hours"] * 3_600_000 / report["duration_ms"])
    assert report["decode_worker_seconds"] / 3600 == pytest.approx(report["gpu_hours"])


def test_without_records_the_report_is_flat() -> None:
    report = execute(steady(20.0, 60.0, direct()) | {"record_per_request": False})
    assert report["planner_total_ticks"] == 12
    assert "scaling_decisions" not in report
    assert "lifecycle_operations" not in report


def test_a_record_tells_what_was_seen_expected_and_done() -> None:
    report = execute(steady(20.0, 60.0, direct()))
    first = report["scaling_decisions"][0]
    assert first["observed"]["ready"] == {"agg": 1}
    assert first["observed"]["requests"] == 101
    assert first["forecast"]["requests"] == 101
    assert first["applied"] == first["proposed"]
    assert first["reason"] == "scale_up"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"mode": "disagg"}, "mode: 'disagg' contradicts the topology"),
        ({"optimization_target": "load"}, "decode_scale_up_kv_rate: missing"),
        ({"decode_engine_num_gpu": 3}, "decode_engine_num_gpu: 3 contradicts the engine"),
        ({"min_endpoint": 9}, "max_gpu_budget: 8 is less than"),
        ({"min_endpoint": 0, "max_gpu_budget": 0}, "max_gpu_budget: 0 serves nobody: one replica"),
        ({"enable_throughput_scaling": True}, "enable_throughput_scaling: true needs"),
        ({"report_interval_hours": 24.0}, "report_interval_hours"),
        ({"gpu_budget": 8}, "gpu_budget: unknown field"),
        ({"fpm_sample_bucket_size": 15}, "15 is not a perfect square"),
        ({"scheduling": {"scale_interval_seconds": 3}}, "3 does not divide the interval 5"),
        (
            {"optimization_target": "sla", "load_adjustment_interval_seconds": 3.14159},
            r"load_adjustment_interval_seconds: 3.14159 and .* \(180.0\) are not multiples of one time",
        ),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        execute(steady(1.0, 5.0, config))


def test_settings_without_effect_are_named() -> None:
    report = execute(steady(1.0, 6.0, {"ttft_ms": 300.0}))
    assert (
        "spec.adapters.scaling.config.ttft_ms: no effect on optimization_target 'throughput'"
        in report["notes"]
    )


@pytest.mark.parametrize(
    ("config", "note"),
    [
        ({"max_gpu_budget": 2}, ["max_gpu_budget: 2 is less than the initial workers take (3 GPUs)"]),
        ({"min_gpu_budget": 4}, []),
        ({"max_gpu_budget": 3, "min_gpu_budget": 3}, []),
        ({"max_gpu_budget": -1}, []),
    ],
)
def test_a_start_above_the_ceiling_is_named(config: dict[str, Any], note: list[str]) -> None:
    report = execute(steady(1.0, 6.0, config, workers=3))
    assert report.get("notes", []) == [f"spec.adapters.scaling.config.{text}" for text in note]


def test_a_startup_of_years_is_planned_at_once() -> None:
    config = {"planner_mode": "direct", "load_adjustment_interval_seconds": 0.5}
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1, "startup_delay_ms": 1e12}},
        "engine": {"rank": {"timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 2.0}}},
        "adapters": {"scaling": {"provider": "planner", "config": config}},
    }
    rate = {"load_type": "constant_rate", "arrival_interval_ms": 20}
    traffic = {"source_type": "synthetic", "isl": 100, "osl": 50, "request_count": 200} | rate
    assert execute({"spec": spec, "traffic": traffic})["completed_requests"] == 200
