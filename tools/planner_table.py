"""Compares the modes of the planner on a Mooncake trace.

python -m tools.planner_table TRACE [--speed 4] [--gpus 16] [--startup 0 60]
"""

from __future__ import annotations

import argparse
from typing import Any

from aisimulate.replay.execute import execute

_HEADER = ("startup", "mode", "GPU hours", "mean TTFT", "changes", "most workers", "first sizes")
_FIRST = 4  # sizes shown


def main(arguments: list[str] | None = None) -> None:
    """Replay the trace once per mode and startup time, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--speed", type=float, default=4.0)
    parser.add_argument("--gpus", type=int, default=16)
    parser.add_argument("--startup", type=float, nargs="+", default=[0.0, 60.0])
    options = parser.parse_args(arguments)
    print("| " + " | ".join(_HEADER) + " |")
    print("|---" * len(_HEADER) + "|")
    for startup_s in options.startup:
        for mode in ("reference", "direct"):
            report = execute(payload_of(options.trace, options.speed, options.gpus, startup_s, mode))
            print("| " + " | ".join((f"{startup_s:g} s", mode, *row_of(report))) + " |")


def payload_of(trace: str, speed: float, gpus: int, startup_s: float, mode: str) -> dict[str, Any]:
    """The conversation that starts with two workers."""
    config = {"optimization_target": "throughput", "max_gpu_budget": gpus, "planner_mode": mode}
    workers = {"initial_workers": 2, "startup_delay_ms": startup_s * 1000.0}
    traffic = {"source_type": "trace", "trace_path": trace, "arrival_speedup_ratio": speed}
    return {
        "spec": {
            "topology": {"kind": "aggregated", "workers": workers},
            "adapters": {"scaling": {"provider": "planner", "config": config}},
        },
        "traffic": traffic,
    }


def row_of(report: dict[str, Any]) -> tuple[str, ...]:
    """What scaling cost, and what it was good for."""
    changes = [row for row in report["scaling_decisions"] if row["applied"]]
    most = max(sum(map(len, row["state_after_batch"].values())) for row in report["lifecycle_operations"])
    return (
        f"{report['gpu_hours']:.3f}",
        f"{report['mean_ttft_ms'] / 1000:.2f} s",
        str(len(changes)),
        str(most),
        ", ".join(f"{row['applied']['agg']} at {row['at_ms'] / 1000:g} s" for row in changes[:_FIRST]),
    )


if __name__ == "__main__":
    main()
