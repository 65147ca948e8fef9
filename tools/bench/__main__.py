"""`make bench`: what replays cost, beside the peers when their interpreters are given.

CPU user seconds are medians over fresh processes, ours and the peer's in turn; imports are not counted.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import sysconfig
from pathlib import Path

from tools.bench.measuring import BenchError, Side, compare
from tools.bench.page import PAGE, written
from tools.bench.scenarios import BENCHMARKS, Benchmark
from tools.bench.table import Row, table_lines

OURS = Side(sys.executable, "runtime")


def main() -> int:
    """Run the suite; 1 when a bound is missed, 2 when a run failed."""
    arguments = _parser().parse_args()
    machine = _machine()
    print("\n".join(machine), flush=True)
    try:
        rows = [_row(benchmark, arguments) for benchmark in _chosen(arguments)]
    except BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 2
    if not rows:
        print("bench: error: no scenario to measure", file=sys.stderr)
        return 2
    print("\n".join(table_lines(rows)))
    missed = [text for row in rows for text in row.missed()]
    verdict = missed or ["every bound that could be checked holds"]
    print("\n".join(verdict))
    if arguments.write:
        lines = [*machine, f"medians of {arguments.runs}", "", *table_lines(rows), "", *verdict]
        PAGE.write_text(written(PAGE.read_text("utf-8"), lines), "utf-8")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter with ai-dynamo-runtime")
    parser.add_argument(
        "--peer-aic", metavar="PYTHON", help="interpreter with the stand-alone aisimulate wheel"
    )
    parser.add_argument("--trace-dir", type=Path, metavar="DIR", help="folder of mooncake_conversation.jsonl")
    parser.add_argument(
        "--runs", type=int, default=3, metavar="N", help="runs per side (default: %(default)s)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="scenarios whose name contains TEXT")
    parser.add_argument("--write", action="store_true", help="also write docs/performance.md")
    return parser


def _machine() -> list[str]:
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    optimised = "with" if "--enable-optimizations" in options else "without"
    lto = "with" if "--with-lto" in options else "without"
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return [
        f"python {platform.python_version()}, "
        f"configured {optimised} --enable-optimizations, {lto} --with-lto",
        f"{os.cpu_count()} cores, load average {load}",
    ]


def _chosen(arguments: argparse.Namespace) -> list[Benchmark]:
    chosen = []
    for benchmark in BENCHMARKS:
        missing = benchmark.missing_trace(arguments.trace_dir)
        if arguments.only not in benchmark.name:
            continue
        if missing:
            print(f"skipping {benchmark.name}: {missing} is not shipped; set TRACE_DIR to its folder")
        else:
            chosen.append(benchmark)
    return chosen


def _row(benchmark: Benchmark, arguments: argparse.Namespace) -> Row:
    print(f"measuring {benchmark.name} ...", file=sys.stderr)
    sides = [OURS]
    if benchmark.needs_stand_alone_peer and arguments.peer_aic:
        sides.append(Side(arguments.peer_aic, "runtime"))
    elif not benchmark.needs_stand_alone_peer and arguments.peer:
        sides.append(Side(arguments.peer, "dynamo"))
    costs = compare(benchmark, sides, arguments.trace_dir, arguments.runs)
    return Row(benchmark, costs[0], costs[1] if len(costs) > 1 else None)


if __name__ == "__main__":
    raise SystemExit(main())
