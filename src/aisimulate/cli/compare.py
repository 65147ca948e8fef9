"""The `compare` command: the result of a benchmark beside that of a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.arguments import positive
from aisimulate.cli.delivery import deliver
from aisimulate.cli.guarded import guarded
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.ranges import one_of
from aisimulate.fidelity.comparison import compare_runs
from aisimulate.fidelity.measured.formats import FORMATS, read_run
from aisimulate.report.comparison import comparison_json, comparison_table
from aisimulate.report.files import check_page, check_writable
from aisimulate.report.page.comparison import comparison_page

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_PROG = "aisimulate compare"
_TEXTS = {"table": comparison_table, "json": comparison_json}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 failed, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    return guarded(_PROG, lambda: _run(arguments))


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG,
        description="Set the result of a benchmark beside that of a simulation; each may be either.",
        epilog=f"Formats: {', '.join(FORMATS)}. docs/metrics.md tells how their metrics are defined.",
        allow_abbrev=False,
    )
    for side in ("measured", "simulated"):
        parser.add_argument(side, type=Path, metavar=side.upper(), help=f"the {side} result file")
    for side in ("measured", "simulated"):
        parser.add_argument(
            f"--{side}-format",
            type=one_of(tuple(FORMATS)),
            metavar="FORMAT",
            help=f"what wrote the {side} file (default: found out)",
        )
        parser.add_argument(
            f"--{side}-run",
            type=positive,
            metavar="N",
            help=f"which run of the {side} file, from 1, if it has several",
        )
    parser.add_argument(
        "--format", choices=tuple(_TEXTS), default="table", help="what to print (default: %(default)s)"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with the distributions")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    inputs = [arguments.measured, arguments.simulated]
    if arguments.html is not None:
        check_writable(arguments.html, inputs, "--html")
        check_page(arguments.html, "--html")
    measured = read_run(arguments.measured, arguments.measured_format, arguments.measured_run)
    simulated = read_run(arguments.simulated, arguments.simulated_format, arguments.simulated_run)
    comparison = compare_runs(measured, simulated)
    text = _TEXTS[arguments.format](comparison)
    return deliver(_PROG, text, arguments.html, lambda: comparison_page(comparison), "--html")
