"""Run one scenario in this interpreter, ours or a peer's, and print what it cost as JSON.

    PYTHON -m tools.bench.child dynamo|runtime REPEAT < {"scenario": ..., "traces": ...}

`runtime` calls `aisimulate._runtime.run_replay_json`, which we and the stand-alone peer both have; `dynamo`
calls the other peer, ai-dynamo-runtime. Imports happen before the clock starts, on either side the same.
Only the standard library is needed besides the runtime itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.parity.scenario import payload_of, plan_counts

Replay = Callable[[], dict[str, Any]]
# Loaded by the first replay with measured timing: ours and the peer's package of performance data.
TIMING_PACKAGES = ("aiconfigurator_core", "aisimulate_core")
TIMING_MODULES = ("sdk.engine", "sdk.memory")


def runtime_replay(scenario: dict[str, Any], traces: Path) -> Replay:
    """Prepare the call of `run_replay_json`."""
    runtime = importlib.import_module("aisimulate._runtime")
    with contextlib.suppress(ImportError):  # ours, which the first replay of some kind would import
        importlib.import_module("aisimulate.replay.build_disagg")
        importlib.import_module("aisimulate.workload.plain_rows")
    text = json.dumps(payload_of(scenario, traces))
    return lambda: json.loads(runtime.run_replay_json(text))


def dynamo_replay(scenario: dict[str, Any], traces: Path) -> Replay:
    """Prepare the call of ai-dynamo-runtime."""
    core = importlib.import_module("dynamo._core")
    workload = scenario["workload"]
    options: dict[str, Any] = _dynamo_fleet(scenario) | {
        "router_mode": scenario["router"]["mode"],
        "capture_per_request": False,
        "capture_planner_details": False,
    }
    if workload.get("concurrency"):
        options["replay_concurrency"] = workload["concurrency"]
    if workload["kind"] == "synthetic":
        if workload.get("rate"):
            options["request_rate"] = workload["rate"]
        lengths = (workload["isl"], workload["osl"], workload["requests"])
        return lambda: dict(core.run_mocker_synthetic_trace_replay(*lengths, **options).summary)
    options |= {"trace_block_size": workload["block_size"], "trace_format": workload["format"]}
    paths = [str(traces / workload["path"])]
    return lambda: dict(core.run_mocker_trace_replay(paths, **options).summary)


def _dynamo_fleet(scenario: dict[str, Any]) -> dict[str, Any]:
    fleet, engine, launch = scenario["fleet"], scenario["engine"], scenario.get("launch", {})
    if fleet["mode"] == "agg":
        return {"extra_engine_args": {"engine": engine, **launch}, "num_workers": fleet["workers"]}
    options = {}
    for role in ("prefill", "decode"):
        options[f"{role}_engine_args"] = {"engine": engine | {"worker_type": role}, **launch}
        options[f"num_{role}_workers"] = fleet[role]
    return options


PREPARE = {"runtime": runtime_replay, "dynamo": dynamo_replay}


def import_timing() -> None:
    """Import the performance data library that this interpreter has."""
    for package in filter(importlib.util.find_spec, TIMING_PACKAGES):
        for name in TIMING_MODULES:
            importlib.import_module(f"{package}.{name}")


def measure(replay: Replay) -> tuple[float, dict[str, Any]]:
    """User CPU seconds of one replay, and its report."""
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    report = replay()
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before, report


def peak_rss_mb() -> float:
    """Highest memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def main(kind: str, repeat: int) -> None:
    """Measure the scenario on standard input `repeat` times in this process."""
    request = json.load(sys.stdin)
    scenario, traces = request["scenario"], Path(request["traces"])
    if scenario["engine"]["timing_model"]["type"] == "external":
        import_timing()
    replay = PREPARE[kind](scenario, traces)
    user_s, reports = zip(*(measure(replay) for _ in range(repeat)), strict=True)
    peak_mb = peak_rss_mb()
    counts = plan_counts(payload_of(scenario, traces)) if kind == "runtime" else None
    print(
        json.dumps(
            {
                "user_s": user_s,
                "peak_rss_mb": peak_mb,
                "counts": counts,
                "completed": reports[0]["completed_requests"],
                "duration_ms": reports[0]["duration_ms"],
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
