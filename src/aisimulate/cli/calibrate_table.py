"""`calibrate --table`: pass times fitted to the means of a benchmark at one load or several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.delivery import deliver
from aisimulate.cli.guarded import guarded
from aisimulate.cli.parser import OneLineParser
from aisimulate.config.calibration_file import calibration_text
from aisimulate.core.console import say
from aisimulate.fidelity.table.fit import fit_table
from aisimulate.fidelity.table.rows import read_table
from aisimulate.report.files import check_writable
from aisimulate.report.payload_file import read_payload
from aisimulate.report.table_calibration import table_outcome_json, table_outcome_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_PROG = "aisimulate calibrate"
_TEXTS = {"table": table_outcome_text, "json": table_outcome_json}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 failed, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    return guarded(_PROG, lambda: _run(arguments))


def asks_for_table(argv: Sequence[str]) -> bool:
    """Whether the arguments of `calibrate` are those of this way."""
    return any(word == "--table" or word.startswith("--table=") for word in argv)


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG,
        description="Fit the pass times of an engine to the rows of a benchmark table.",
        epilog="docs/calibration.md explains the columns, what is fitted, and how far it holds.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--table",
        type=Path,
        required=True,
        metavar="FILE",
        help="CSV, YAML or JSON: concurrency or rate_rps, ttft_ms, tpot_ms of each run",
    )
    parser.add_argument(
        "--engine",
        type=Path,
        required=True,
        metavar="FILE",
        help="payload of what was measured, as for `simulate`; the rows set its load",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the calibration file to write")
    parser.add_argument(
        "--format", choices=tuple(_TEXTS), default="table", help="what to print (default: %(default)s)"
    )
    return parser


def _run(arguments: argparse.Namespace) -> int:
    if arguments.output is not None:
        check_writable(arguments.output, [arguments.table, arguments.engine])
    table = read_table(arguments.table)
    for note in table.notes:
        say(f"{_PROG}: note: {note}")
    outcome = fit_table(table, read_payload(arguments.engine))
    text = _TEXTS[arguments.format](outcome)
    return deliver(_PROG, text, arguments.output, lambda: calibration_text(outcome.calibration))
