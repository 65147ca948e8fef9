"""Hold our `reference` planner against the reference's own, tick by tick on random fleets.

    python -m tools.parity.fuzz_planner PEER COUNT [SEED]

PEER: see planner_there.py. Both planners see the same snapshots and the same pass times. Targets, next ticks,
reasons (also by pool) and the forecast must be equal, what an engine sustains to 1e-9. 1 if anything differs.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tests.planner.reference import policy_of

if TYPE_CHECKING:
    from aisimulate.planner.policy import PlannerPolicy

_THERE = Path(__file__).with_name("planner_there.py")
_SHOWN = 5
_POOLS = ("prefill", "decode")


def first_difference(case: dict[str, Any]) -> str | None:
    """Run our planner through a case; describe the first tick at which it says something else."""
    policy = policy_of(case)
    if policy.initial_tick_ms() != case["first"]:
        return f"first tick at {policy.initial_tick_ms()}, not {case['first']}"
    is_pair = case["config"]["mode"] == "disagg"
    for snapshot, wanted in zip(case["snapshots"], case["decisions"], strict=True):
        decided = policy.on_tick(snapshot)
        ours = _said(policy, decided, is_pair)
        theirs = {name: wanted[name] for name in ours}
        wrong = [name for name in ours if not _equal(ours[name], theirs[name])]
        if wrong:
            told = ", ".join(f"{name} {ours[name]!r} not {theirs[name]!r}" for name in wrong)
            return f"tick {snapshot['tick_ordinal']}: {told}"
    return None


def _said(policy: PlannerPolicy, decided: dict[str, Any], is_pair: bool) -> dict[str, Any]:
    """What our planner decided, and why, in the reference's names."""
    record, result = policy.records[-1], policy.last
    assert result is not None
    said = {
        "target_decode": decided["target_decode"],
        "next_tick_ms": decided["next_tick_ms"],
        "load": record["load_reason"],
        "throughput": record["throughput_reason"],
        "requests": record["forecast"] and record["forecast"]["requests"],
    }
    rates = record["engine_rps"]
    for pool in _POOLS:
        said[f"rps_{pool}"] = rates.get(pool if is_pair else "agg")
    if is_pair:
        said["target_prefill"] = decided["target_prefill"]
        for pool in _POOLS:
            said[f"load_{pool}"] = result.load.by_pool.get(pool)
            said[f"throughput_{pool}"] = result.throughput.by_pool.get(pool)
    return said


def _equal(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, int | float):
        return math.isclose(ours, theirs, rel_tol=1e-9)
    return ours == theirs


def main() -> int:
    """Draw cases there, judge them here, and print the counts."""
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    peer, count = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) == 4 else int(time.time())
    different = ticks = 0
    with TemporaryDirectory() as folder:
        cases = Path(folder) / "cases.jsonl"
        subprocess.run([peer, str(_THERE), str(count), str(seed), str(cases)], check=True)
        with cases.open(encoding="utf-8") as lines:
            for case in map(json.loads, lines):
                ticks += len(case["snapshots"])
                if (difference := first_difference(case)) is not None:
                    different += 1
                    if different <= _SHOWN:
                        print(f"case {case['case']}: {difference}")
    print(f"{count - different}/{count} tick sequences equal, {ticks} ticks, seeds from {seed}")
    return int(different > 0)


if __name__ == "__main__":
    raise SystemExit(main())
