"""`make validate`: replay public measured runs, and print how far off the simulation is.

Every run of the given files has one outcome: priced, failed, refused or set aside, with the reason. Errors
are simulated / measured - 1, in groups as MAPE / median of the sizes / signed median.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from aisimulate.core.errors import InputError
from tools.validate.bundled import bundled_runs
from tools.validate.health import health_table, quickstart_runs
from tools.validate.outcomes import outcomes_of
from tools.validate.page import page_text
from tools.validate.results import results_text
from tools.validate.runs import MeasuredRun, read_runs
from tools.validate.scored import judged
from tools.validate.text import aligned, all_tables

ROOT = Path(__file__).resolve().parents[2]
FILES = (ROOT / "data/silicon/anchors.csv", ROOT / "data/silicon/curves.csv")
RESULTS, PAGE = ROOT / "data/silicon/results.csv", ROOT / "docs/accuracy.md"


def main(arguments: list[str] | None = None) -> int:
    """Run the validation; 2 for bad input."""
    options = _parser().parse_args(arguments)
    try:
        runs = _runs(options)
    except InputError as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return 2
    if options.health:
        print("\n".join(aligned([health_table([*runs, *quickstart_runs()])])))
        return 0
    found = judged(outcomes_of(runs, options.jobs))
    tables = all_tables(found)
    print("\n".join(aligned(tables)))
    if options.write:
        RESULTS.write_text(results_text(found), "utf-8")
        PAGE.write_text(page_text(tables), "utf-8")
    return 0


def _runs(options: argparse.Namespace) -> list[MeasuredRun]:
    if options.write and options.health:
        raise InputError("--write: has no effect with --health, which replays nothing")
    if options.write and (options.files or options.bundled):
        raise InputError("--write: the documentation's page is made of the files in data/silicon only")
    if options.bundled:
        if options.files:
            raise InputError("--bundled: may not be combined with files")
        return bundled_runs()
    return [run for path in options.files or FILES for run in read_runs(path)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="validate", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="tables of runs (default: those in data/silicon)")
    parser.add_argument(
        "--bundled", action="store_true", help="all aggregated runs that AI Configurator ships (long)"
    )
    jobs = max(1, os.cpu_count() or 1)
    parser.add_argument(
        "--jobs", type=int, default=jobs, metavar="N", help="processes (default: %(default)s)"
    )
    parser.add_argument(
        "--health",
        action="store_true",
        help="replay nothing: judge the data of each engine",
    )
    parser.add_argument("--write", action="store_true", help="also write docs/accuracy.md and its results")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
