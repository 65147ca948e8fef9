"""`aisimulate runs`: what earlier searches found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.arguments import add_price_option, positive
from aisimulate.cli.exit_codes import DONE
from aisimulate.cli.guarded import guarded
from aisimulate.cli.output import show
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.recorded import add_run_argument, named_run, run_of
from aisimulate.cli.run_files import all_runs, find_run
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError
from aisimulate.report.files import check_writable, write_file
from aisimulate.report.runs import comparison_text, export_csv, export_json, list_text, show_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_PROG = "aisimulate runs"
_EXPORTS = {"json": export_json, "csv": export_csv}
_ROWS = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 failed, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    return guarded(_PROG, lambda: int(arguments.run(arguments)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=_PROG, description="List, show, export and compare the records of searches.")
    commands = parser.add_subparsers(
        dest="command", required=True, parser_class=OneLineParser, metavar="COMMAND"
    )
    listed = commands.add_parser("list", help="the runs, oldest first")
    listed.set_defaults(run=_list)
    shown = commands.add_parser("show", help="the ranking of a run, so far")
    shown.add_argument("--top", type=positive, default=_ROWS, metavar="N", help="show the N best")
    add_price_option(shown)
    shown.set_defaults(run=_show)
    exported = commands.add_parser("export", help="every attempt of a run, for other programs")
    exported.add_argument("--format", choices=tuple(_EXPORTS), default="json", help="default: %(default)s")
    exported.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write there instead of to stdout"
    )
    exported.set_defaults(run=_export)
    compared = commands.add_parser("compare", help="the best of two runs, side by side")
    compared.set_defaults(run=_compare)
    for command in (shown, exported, compared):
        add_run_argument(command)
    compared.add_argument("other", metavar="OTHER", help="the run to compare it with")
    return parser


def _list(arguments: argparse.Namespace) -> int:
    runs = []
    for path in all_runs():
        try:
            runs.append(run_of(path))
        except (AISimulateError, ValueError) as error:
            say(f"{_PROG}: {error}")
    return show(_PROG, list_text(runs), DONE)


def _show(arguments: argparse.Namespace) -> int:
    return show(
        _PROG, show_text(named_run(arguments.run_name), arguments.top, arguments.gpu_hour_price), DONE
    )


def _export(arguments: argparse.Namespace) -> int:
    path = find_run(arguments.run_name)
    text = _EXPORTS[arguments.format](run_of(path))
    if arguments.output is None:
        return show(_PROG, text, DONE)
    check_writable(arguments.output, [path])
    write_file(arguments.output, text)
    return DONE


def _compare(arguments: argparse.Namespace) -> int:
    left, right = (named_run(name) for name in (arguments.run_name, arguments.other))
    return show(_PROG, comparison_text(left, right), DONE)
