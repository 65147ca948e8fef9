"""Alternating runs of ours and a peer, each in a fresh process."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bench.scenarios import ROOT, SHIPPED_TRACES, Benchmark


@dataclass(frozen=True, slots=True)
class Side:
    """An interpreter and the kind of runtime that it has (see `tools/bench/child.py`)."""

    python: str
    kind: str


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over the runs of one side; the counts are equal in every run."""

    user_s: float
    warm_user_s: float | None
    peak_rss_mb: float
    passes: int | None
    plans: int | None
    completed: int
    duration_ms: float


class BenchError(Exception):
    """A run did not end; the text is its last line."""


def compare(benchmark: Benchmark, sides: list[Side], traces: Path | None, runs: int) -> list[Cost]:
    """Measure each side `runs` times in turn, so that both see the same state of the machine."""
    folder = SHIPPED_TRACES if benchmark.cut or traces is None else traces
    request = json.dumps({"scenario": benchmark.scenario(), "traces": str(folder)})
    repeat = 2 if benchmark.warm else 1
    results: list[list[dict[str, Any]]] = [[] for _ in sides]
    for _ in range(runs):
        for side, collected in zip(sides, results, strict=True):
            collected.append(_run(side, request, repeat))
    return [_summary(collected) for collected in results]


def run_once(side: Side, scenario: dict[str, Any], traces: Path) -> dict[str, Any]:
    """Replay a scenario once in a fresh process; give what `tools/bench/child.py` prints."""
    return _run(side, json.dumps({"scenario": scenario, "traces": str(traces)}), 1)


def _run(side: Side, request: str, repeat: int) -> dict[str, Any]:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "DYN_LOG": "error"}
    command = [side.python, "-m", "tools.bench.child", side.kind, str(repeat)]
    done = subprocess.run(
        command, input=request, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        problem = done.stderr.strip().splitlines() or ["no output"]
        raise BenchError(f"{side.python}: {problem[-1]}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def _summary(results: list[dict[str, Any]]) -> Cost:
    first = results[0]
    warm = [result["user_s"][1] for result in results if len(result["user_s"]) > 1]
    counts = first["counts"] or {}
    return Cost(
        user_s=statistics.median(result["user_s"][0] for result in results),
        warm_user_s=statistics.median(warm) if warm else None,
        peak_rss_mb=statistics.median(result["peak_rss_mb"] for result in results),
        passes=counts.get("passes"),
        plans=counts.get("plans"),
        completed=first["completed"],
        duration_ms=first["duration_ms"],
    )
