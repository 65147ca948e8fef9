"""A routed scenario beside several runs of the reference, which draws among targets of equal cost.

    .venv/bin/python -m tools.parity.router_spread PEER SCENARIO.json --traces DIR [--runs 10] [--draws 3]

PEER is an interpreter with ai-dynamo-runtime. One line per figure: the least, mean and most of its runs, ours
(fewest active blocks, then the first), with `--draws` the mean of ours when it draws as well, and by how many
standard deviations of the runs ours is off their mean. 1 if one of ours lies
outside what the reference's runs span by more than a tenth of that span (few runs do not show all of it).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.bench.child import dynamo_replay, runtime_replay

FIGURES = (
    "mean_ttft_ms",
    "median_ttft_ms",
    "mean_tpot_ms",
    "mean_e2e_latency_ms",
    "output_throughput_tok_s",
    "prefix_cache_reused_ratio",
)
ROOT = Path(__file__).parents[2]
# Of the span of the runs seen: the ends of a distribution are seldom drawn.
MARGIN = 0.1
Figures = dict[str, float]


def run_here(kind: str, scenarios: list[dict[str, Any]], traces: Path, whole: bool) -> list[Figures]:
    """Run scenarios in this interpreter."""
    prepare = dynamo_replay if kind == "dynamo" else runtime_replay
    reports = (prepare(scenario, traces)() for scenario in scenarios)
    return [{name: report[name] for name in (report if whole else FIGURES)} for report in reports]


def run_there(
    python: str, kind: str, scenarios: list[dict[str, Any]], traces: Path, whole: bool = False
) -> list[Figures]:
    """Run scenarios in a fresh process of an interpreter; give `FIGURES`, or their whole reports."""
    request = json.dumps(
        {"kind": kind, "scenarios": scenarios, "traces": str(traces.absolute()), "whole": whole}
    )
    command = [python, "-m", "tools.parity.router_spread", "--child"]
    quiet = os.environ | {"DYN_LOG": "error"}
    done = subprocess.run(command, input=request, capture_output=True, text=True, cwd=ROOT, env=quiet)
    if done.returncode:
        raise SystemExit(f"{python}: {(done.stderr.splitlines() or ['failed'])[-1]}")
    figures: list[Figures] = json.loads(done.stdout.splitlines()[-1])
    return figures


def drawing(scenario: dict[str, Any], seed: int) -> dict[str, Any]:
    """Let ours draw among equal costs."""
    return scenario | {"router": scenario["router"] | {"config": {"tie_break": "random", "seed": seed}}}


def table(peers: list[Figures], ours: Figures, draws: list[Figures]) -> tuple[list[str], bool]:
    """One line per figure, and whether ours is within the reference's runs in all of them."""
    columns = ("least", "mean", "most", "ours", "ours drawn", "deviations")
    lines = [" " * 26 + "".join(f"{column:>13}" for column in columns)]
    fine = True
    for name in FIGURES:
        values = [figures[name] for figures in peers]
        low, mean, high, here = min(values), statistics.fmean(values), max(values), ours[name]
        slack = MARGIN * (high - low) + 1e-9 * abs(mean)
        inside = low - slack <= here <= high + slack
        fine = fine and inside
        drawn = statistics.fmean(figures[name] for figures in draws) if draws else math.nan
        deviations = (here - mean) / (statistics.pstdev(values) or math.inf)
        row = (low, mean, high, here, drawn, deviations)
        shown = "".join(f"{value:>13.6g}" for value in row)
        lines.append(f"{name:<26}{shown}  {'within' if inside else 'OUTSIDE'}")
    return lines, fine


def main() -> int:
    """Compare a scenario with several runs of the reference."""
    if sys.argv[1:2] == ["--child"]:
        asked = json.load(sys.stdin)
        print(json.dumps(run_here(**asked | {"traces": Path(asked["traces"])})))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("peer")
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--draws", type=int, default=0)
    args = parser.parse_args()
    scenario = json.loads(args.scenario.read_text())
    draws = [drawing(scenario, seed) for seed in range(args.draws)]
    ours, *drawn = run_there(sys.executable, "runtime", [scenario, *draws], args.traces)
    peers = run_there(args.peer, "dynamo", [scenario] * args.runs, args.traces)
    lines, fine = table(peers, ours, drawn)
    print(f"{scenario['name']}: {args.runs} runs of the reference", *lines, sep="\n")
    return int(not fine)


if __name__ == "__main__":
    sys.exit(main())
