"""Every scenario beside the reference, one verdict each.

    .venv/bin/python -m tools.parity.scenario_suite --peer PYTHON --peer-standalone PYTHON --traces DIR
        [--runs 10] [--only NAME]

Reports have to agree in every shared key that is not wall time: to 1e-9, sketched percentiles to 0.2 %
(`compare_reports.py`). Where the router draws, see `router_spread.py`; with measured timing, `aic_modes.py`;
with drafts that each side draws for itself, the means have to agree to 1 %. 1 if any scenario does not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.bench.scenarios import SCENARIOS
from tools.parity.compare_reports import differences, shared_keys
from tools.parity.router_spread import run_there

DRAWN_WITHIN = 0.01
Report = dict[str, Any]


def verdict(path: Path, args: argparse.Namespace) -> bool:
    """Run a scenario on both sides, print what comes of it, and tell whether it is as it should be."""
    scenario = json.loads(path.read_text())
    if scenario["engine"]["timing_model"]["type"] == "external":
        return _passes("aic_modes", path, "--traces", args.traces)
    if scenario.get("router", {}).get("mode") == "kv_router":
        return _passes("router_spread", args.peer, path, "--traces", args.traces, "--runs", args.runs)
    # Sessions of several turns are another load in the calls of the binding than in a payload.
    alone = scenario["workload"].get("turns", 1) > 1
    python, kind = (args.peer_standalone, "runtime") if alone else (args.peer, "dynamo")
    (ours,) = run_there(sys.executable, "runtime", [scenario], args.traces, whole=True)
    (theirs,) = run_there(python, kind, [scenario], args.traces, whole=True)
    if scenario["engine"].get("aic_nextn"):
        return _drawn_alike(scenario["name"], ours, theirs)
    lines, shared = differences(ours, theirs), len(shared_keys(ours, theirs))
    print(
        f"{scenario['name']}: {shared - len(lines)}/{shared} shared keys agree",
        *lines,
        sep="\n  ",
        flush=True,
    )
    return not lines


def _passes(tool: str, *arguments: object) -> bool:
    command = [sys.executable, "-m", f"tools.parity.{tool}", *map(str, arguments)]
    return subprocess.run(command, check=False).returncode == 0


def _drawn_alike(name: str, ours: Report, theirs: Report) -> bool:
    means = [key for key in shared_keys(ours, theirs) if key.startswith("mean_")]
    worst = max(abs(ours[key] - theirs[key]) / abs(theirs[key]) for key in means if theirs[key])
    print(f"{name}: at most {worst:.2%} in {len(means)} means (drafts are drawn; 1 %)", flush=True)
    return worst <= DRAWN_WITHIN


def main() -> int:
    """Run every scenario, or the one named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--peer-standalone", required=True)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=10, help="of the reference where its router draws")
    parser.add_argument("--only", metavar="NAME")
    args = parser.parse_args()
    paths = sorted(SCENARIOS.glob(f"{args.only or '*'}.json"))
    if not paths:
        raise SystemExit(f"--only {args.only}: no scenario of this name in {SCENARIOS}")
    wrong = [path.stem for path in paths if not verdict(path, args)]
    print(f"{len(paths) - len(wrong)}/{len(paths)} scenarios as they should be", *wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
