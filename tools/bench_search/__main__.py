"""`make bench-search`: how much of the best possible the samplers find, with how many measurements.

Every search runs in a process of its own. The shares are medians over the seeds, of the true values of what
was measured; CPU seconds are those of one batch of eight.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.bench_search.settings import SETTINGS, Row, Setting
from tools.bench_search.table import table_lines

ROOT = Path(__file__).resolve().parents[2]
OURS = "pool-gp"
OPTUNA = ("optuna-tpe", "optuna-nsga2")


class BenchError(Exception):
    """A search did not end well."""


def main() -> int:
    """Run the suite; 1 when a bound is missed, 2 when a search failed."""
    arguments = _parser().parse_args()
    settings = [setting for setting in SETTINGS if setting.name.startswith(arguments.only)]
    if not settings:
        print(f"bench-search: error: no problem is called {arguments.only!r}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    try:
        with ThreadPoolExecutor(arguments.jobs) as threads:
            for setting in settings:
                samplers = [OURS, *arguments.beside, *(OPTUNA if arguments.optuna else ())]
                rows += [_row(setting, sampler, arguments, threads) for sampler in samplers]
    except BenchError as error:
        print(f"bench-search: error: {error}", file=sys.stderr)
        return 2
    print("\n".join(table_lines(rows)))
    missed = [text for row in rows if row.sampler == OURS for text in row.missed()]
    print("\n".join(missed or ["every bound holds"]))
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-search", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="searches (default: %(default)s)")
    parser.add_argument(
        "--first-seed", type=int, default=2026, metavar="N", help="seed of the first (default: %(default)s)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="problems whose name begins with TEXT")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="searches at a time")
    parser.add_argument(
        "--beside", action="append", default=[], metavar="SAMPLER", help="another of our samplers, too"
    )
    parser.add_argument("--optuna", metavar="PYTHON", help="interpreter with optuna, to run TPE and NSGA-II")
    return parser


def _row(setting: Setting, sampler: str, arguments: argparse.Namespace, threads: ThreadPoolExecutor) -> Row:
    seeds = range(
        arguments.first_seed, arguments.first_seed + min(arguments.seeds, setting.most_seeds or 999)
    )
    print(f"searching {setting.name} with {sampler} ...", file=sys.stderr)
    runs = threads.map(lambda seed: _run(setting, sampler, seed, arguments.optuna), seeds)
    return Row(setting, sampler, list(runs))


def _run(setting: Setting, sampler: str, seed: int, optuna: str | None) -> dict[str, Any]:
    screen = "on" if setting.screened else "off"
    words = [setting.problem, sampler, screen, str(seed), str(setting.evaluations)]
    python = optuna if optuna and sampler in OPTUNA else sys.executable
    done = subprocess.run(
        [python, "-m", "tools.bench_search.child", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ
        | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
    )
    if done.returncode:
        raise BenchError(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    raise SystemExit(main())
