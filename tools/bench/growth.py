"""How the cost of a replay grows with the number of requests: CPU and memory at 10k, 100k and 1M rows.

    python -m tools.bench.growth [--rows 10000,100000,1000000]

Random Mooncake traces of equal load on 8 workers, open loop, no per-request records; a fresh process each.
The slope is that of CPU over requests on a doubly logarithmic scale: 1 means that all requests cost the same.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.bench.measuring import Side, run_once
from tools.bench.scenarios import SCENARIOS

MEAN_GAP_MS = 40.0
BLOCK_TOKENS = 512
SLOPE_BOUND = 1.1
RSS_BOUND_MB = 1024


def write_trace(path: Path, rows: int) -> None:
    """Write a trace whose rows have 1 to 46 content blocks, the first of 50 shared ones."""
    draw = random.Random(rows)
    now_ms = 0.0
    with path.open("w") as file:
        for row in range(rows):
            now_ms += draw.expovariate(1 / MEAN_GAP_MS)
            blocks = draw.randint(1, 46)
            request = {
                "timestamp": int(now_ms),
                "input_length": blocks * BLOCK_TOKENS - draw.randint(0, BLOCK_TOKENS - 1),
                "output_length": draw.randint(1, 600),
                "hash_ids": [row % 50, *range(1000 + 50 * row, 999 + 50 * row + blocks)],
            }
            file.write(json.dumps(request) + "\n")


def measure(rows: int) -> dict[str, Any]:
    """Replay a trace of so many rows in a fresh process."""
    scenario = json.loads((SCENARIOS / "01_conv_rr_8w.json").read_text())
    scenario["workload"]["path"] = "growth.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        write_trace(Path(folder) / "growth.jsonl", rows)
        return run_once(Side(sys.executable, "runtime"), scenario, Path(folder))


def main() -> int:
    """Print a line per size and the slopes; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", default="10000,100000,1000000")
    sizes = [int(size) for size in parser.parse_args().rows.split(",")]
    print("    rows    cpu s  us/request  peak MB", flush=True)
    costs = []
    for rows in sizes:
        result = measure(rows)
        (user_s,), peak_mb = result["user_s"], result["peak_rss_mb"]
        costs.append((rows, user_s, peak_mb))
        print(f"{rows:8d} {user_s:8.2f} {user_s / rows * 1e6:11.1f} {peak_mb:8.0f}", flush=True)
    missed = [f"{peak_mb:.0f} MB at {rows} rows" for rows, _, peak_mb in costs if peak_mb > RSS_BOUND_MB]
    for (few, less_s, _), (many, more_s, _) in itertools.pairwise(costs):
        slope = math.log(more_s / less_s) / math.log(many / few)
        print(f"slope {few} -> {many}: {slope:.3f}")
        missed += [f"slope {slope:.3f} up to {many} rows"] if slope > SLOPE_BOUND else []
    print("\n".join(f"above its bound: {text}" for text in missed) or "every bound holds")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
