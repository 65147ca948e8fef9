"""Compare two reports of scenario.py: python -m tools.parity.compare_reports OURS.json THEIRS.json

Every key that both have must agree to 1e-9, the sketched percentiles of the reference to 0.2 %.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from tools.parity.scenario import WALL_CLOCK

SKETCHED = {
    f"{statistic}_{metric}"
    for statistic in ("median", "p75", "p90", "p95", "p99")
    for metric in ("itl_ms", "output_token_throughput_per_user")
}


def shared_keys(ours: dict[str, object], theirs: dict[str, object]) -> list[str]:
    """List the keys that both have and that do not depend on wall time."""
    return sorted((ours.keys() & theirs.keys()) - WALL_CLOCK)


def differences(ours: dict[str, object], theirs: dict[str, object]) -> list[str]:
    """One line per shared key that disagrees."""
    lines = []
    for key in shared_keys(ours, theirs):
        here, there = ours[key], theirs[key]
        if not isinstance(here, int | float) or not isinstance(there, int | float):
            continue
        if not math.isclose(here, there, rel_tol=2e-3 if key in SKETCHED else 1e-9, abs_tol=1e-6):
            lines.append(f"{key}: {here} here, {there} there")
    return lines


def main() -> int:
    """Compare the two files named on the command line; 1 if anything differs."""
    ours, theirs = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    lines = differences(ours["report"], theirs["report"])
    shared = len(shared_keys(ours["report"], theirs["report"]))
    print(*lines, f"{ours['scenario']}: {shared - len(lines)}/{shared} shared keys agree", sep="\n")
    for name, result in (("here", ours), ("there", theirs)):
        costs = ", ".join(f"{cost['user_s']:.3f}" for cost in result["costs"])
        print(f"  {name:<5} user s {costs}, peak {result['costs'][0]['peak_rss_mb']} MB")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
