"""Run one scenario through `run_replay_json` of this interpreter: its report and what it cost.

    [PYTHON] scenario.py SCENARIO.json [--out OUT.json] [--traces DIR] [--repeat N]

Run under our interpreter it measures us, under the reference's it measures the reference. A scenario names
a workload, a fleet and flat engine settings; `--traces` (or TRACE_DIR) is the folder of its trace.
CPU time is that of the replay call alone, imports excluded; with --repeat the later calls find warm caches.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

WALL_CLOCK = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}
Scenario = dict[str, Any]


# Payload --------------------------------------------------------------------------------------------


def payload_of(scenario: Scenario, traces: Path) -> dict[str, Any]:
    """Translate a scenario into a payload of `run_replay_json`."""
    launch = scenario.get("launch", {})
    engine = {
        "dp_size": launch.get("dp_size", 1),
        "tensor_parallel_size": launch.get("tensor_parallel_size", 1),
        "rank": scenario["engine"],
    }
    workload, router = scenario["workload"], scenario.get("router", {})
    placement: dict[str, Any] = {"provider": router.get("mode", "round_robin")}
    if "config" in router:
        placement["config"] = router["config"]
    spec = {
        "version": 1,
        "topology": _topology(scenario["fleet"]),
        "engine": engine,
        "adapters": {
            "placement": placement,
            "scaling": {"provider": "none"},
        },
        "max_in_flight": workload.get("concurrency"),
        "record_per_request": False,
        "requests": [],
    }
    traffic = _trace(workload, traces) if workload["kind"] == "trace" else _synthetic(workload)
    return {"spec": spec, "traffic": traffic}


def _topology(fleet: dict[str, Any]) -> dict[str, Any]:
    if fleet["mode"] == "agg":
        return {"kind": "aggregated", "workers": {"initial_workers": fleet["workers"]}}
    return {
        "kind": "disaggregated",
        "prefill": {"initial_workers": fleet["prefill"]},
        "decode": {"initial_workers": fleet["decode"]},
    }


def _trace(workload: dict[str, Any], traces: Path) -> dict[str, Any]:
    traffic = {
        "source_type": "trace",
        "trace_paths": [str(traces / workload["path"])],
        "trace_format": workload["format"],
        "trace_block_size": workload["block_size"],
    }
    if workload.get("speedup", 1.0) != 1.0:
        traffic["arrival_speedup_ratio"] = workload["speedup"]
    if workload.get("concurrency"):
        traffic["replay_concurrency"] = workload["concurrency"]
    return traffic


def _synthetic(workload: dict[str, Any]) -> dict[str, Any]:
    turns = workload.get("turns", 1)
    traffic = {
        "source_type": "synthetic" if turns == 1 else "synthetic-session",
        "isl": workload["isl"],
        "osl": workload["osl"],
        "request_count": workload["requests"],  # with several turns, that of sessions
        "turns_per_session": turns,
        "inter_turn_delay_ms": workload.get("think_ms", 0.0),
        "shared_prefix_ratio": workload.get("shared_prefix_ratio", 0.0),
        "num_prefix_groups": workload.get("prefix_groups", 0),
    }
    if workload.get("concurrency"):
        return traffic | {"load_type": "concurrency", "concurrency": workload["concurrency"]}
    return traffic | {"load_type": "poisson", "request_rate": workload["rate"]}


# Measurement ----------------------------------------------------------------------------------------


def measure(payload: dict[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """Run a payload; returns its report and what the call cost in s and MB."""
    # The import is not part of the measured time.
    from aisimulate._runtime import run_replay_json  # noqa: PLC0415 - see above

    text = json.dumps(payload)
    gc.collect()
    before, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    report = json.loads(run_replay_json(text))
    wall = time.perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_SELF)
    cost = {
        "user_s": round(after.ru_utime - before.ru_utime, 4),
        "sys_s": round(after.ru_stime - before.ru_stime, 4),
        "wall_s": round(wall, 4),
        "peak_rss_mb": round(after.ru_maxrss / 1024, 1),
    }
    return report, cost


def plan_counts(payload: dict[str, Any]) -> dict[str, int] | None:
    """Passes and planner calls, of a run of its own; None for a runtime that does not tell."""
    try:
        from aisimulate.config.payload import parse_payload  # noqa: PLC0415 - ours only
        from aisimulate.replay.build import build_replay  # noqa: PLC0415 - ours only
    except ImportError:
        return None
    replay = build_replay(parse_payload(payload))
    replay.fleet.run()
    return {
        "passes": sum(worker.passes for worker in replay.workers),
        "plans": sum(worker.plans for worker in replay.workers),
    }


def digest(report: dict[str, Any]) -> str:
    """A short hash of everything in a report that does not depend on wall time."""
    stable = {key: value for key, value in report.items() if key not in WALL_CLOCK}
    return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:16]


def run(path: Path, traces: Path, repeat: int) -> dict[str, Any]:
    """Run a scenario `repeat` times; costs are listed in order."""
    scenario = json.loads(path.read_text())
    payload = payload_of(scenario, traces)
    runs = [measure(payload) for _ in range(repeat)]
    report = runs[0][0]
    return {
        "scenario": scenario["name"],
        "python": sys.version.split()[0],
        "costs": [cost for _, cost in runs],
        "counts": plan_counts(payload),
        "digest": digest(report),
        "report": report,
    }


def line(result: dict[str, Any]) -> str:
    """One line for the screen."""
    costs = ", ".join(f"{cost['user_s']:.3f}" for cost in result["costs"])
    counts = result["counts"] or {}
    plans = "".join(f"  {name} {number:,}" for name, number in counts.items())
    report = result["report"]
    return (
        f"{result['scenario']:<30} user s {costs}  rss MB {result['costs'][0]['peak_rss_mb']}{plans}"
        f"  completed {report['completed_requests']:,}  digest {result['digest']}"
    )


def main() -> int:
    """Run the scenario named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--out", type=Path, help="write the report and the costs here")
    parser.add_argument("--traces", type=Path, default=os.environ.get("TRACE_DIR", "."))
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    result = run(args.scenario, Path(args.traces), args.repeat)
    if args.out:
        args.out.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    print(line(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
