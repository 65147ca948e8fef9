"""`make validate`: replay public measured runs, and print how far off the simulation is.

Every run of the given files has one outcome: priced, failed, refused or set aside, with the reason. Errors
are simulated / measured - 1, in groups as MAPE / median of the sizes / signed median.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from tools.validate.bundled import bundled_runs
from tools.validate.front_end import left_out
from tools.validate.outcomes import outcomes_of
from tools.validate.page import page_text
from tools.validate.repeats import disturbed
from tools.validate.runs import read_runs
from tools.validate.scored import Scored, confidence_of, doubts_of, priced
from tools.validate.text import (
    aligned,
    calibration_table,
    front_end_table,
    group_table,
    outcome_table,
    published_table,
    reason_table,
    run_table,
)

if TYPE_CHECKING:
    from tools.validate.outcomes import Outcome
    from tools.validate.text import Table

ROOT = Path(__file__).resolve().parents[2]
FILES = (ROOT / "data/silicon/anchors.csv", ROOT / "data/silicon/curves.csv")


def main(arguments: list[str] | None = None) -> int:
    """Run the validation; 2 for bad input."""
    options = _parser().parse_args(arguments)
    try:
        runs = [run for path in options.files or FILES for run in read_runs(path)]
        tables = validated(outcomes_of(runs, options.jobs))
    except InputError as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return 2
    print("\n".join(aligned(tables)))
    if options.page:
        options.page.write_text(page_text(tables), "utf-8")
    return 0


def validated(outcomes: list[Outcome]) -> list[Table]:
    """Make all tables of a validation."""
    found = priced(outcomes)
    grades = {outcome.run.id: confidence_of(outcome.run) for outcome in found}
    against = disturbed([outcome.run for outcome in outcomes], bundled_runs())
    doubts = {outcome.run.id: doubts_of(outcome.run, grades[outcome.run.id], against) for outcome in found}
    clean = [outcome for outcome in found if not doubts[outcome.run.id]]
    ends = left_out(found, clean)
    scored = [
        Scored(outcome, grades[outcome.run.id], ends[outcome.run.id], doubts[outcome.run.id])
        for outcome in found
    ]
    return [
        outcome_table(outcomes),
        group_table(scored),
        front_end_table(scored),
        calibration_table(scored),
        published_table(),
        reason_table(outcomes, scored),
        run_table(outcomes, scored),
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="validate", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="tables of runs (default: those in data/silicon)")
    jobs = max(1, os.cpu_count() or 1)
    parser.add_argument(
        "--jobs", type=int, default=jobs, metavar="N", help="processes (default: %(default)s)"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the page of the documentation")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
