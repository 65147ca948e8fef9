"""`aisimulate runs`: what earlier searches found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.arguments import add_price_option, positive
from aisimulate.cli.exit_codes import DONE, FAILED
from aisimulate.cli.guarded import guarded
from aisimulate.cli.output import show
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.recorded import (
    add_run_argument,
    find_candidate,
    input_files,
    named_run,
    ranked_candidates,
    run_of,
    unchanged_config,
)
from aisimulate.cli.run_files import all_runs
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.report.again import again_text, replay_again, replay_with_seeds, spread_text
from aisimulate.report.files import check_writable, write_file
from aisimulate.report.run_documents import again_json, comparison_json, list_json, show_json
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
    compared = commands.add_parser("compare", help="two runs side by side: what was asked, best, fronts")
    compared.set_defaults(run=_compare)
    replayed = commands.add_parser("replay", help="replay candidates alone, and hold them against the record")
    replayed.set_defaults(run=_replay)
    for command in (shown, exported, compared, replayed):
        add_run_argument(command)
    for command in (listed, shown, compared, replayed):
        command.add_argument(
            "--format", choices=("table", "json"), default="table", help="default: %(default)s"
        )
    compared.add_argument("other", metavar="OTHER", help="the run to compare it with")
    replayed.add_argument(
        "candidates",
        nargs="*",
        metavar="CANDIDATE",
        help="the numbers in `runs show`, or `best` (default: the whole ranking or front)",
    )
    replayed.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help="also with N other seeds, and show how far apart the results lie",
    )
    return parser


def _list(arguments: argparse.Namespace) -> int:
    runs = []
    for path in all_runs():
        try:
            runs.append(run_of(path))
        except (AISimulateError, ValueError) as error:
            say(f"{_PROG}: {error}")
    return show(_PROG, list_json(runs) if arguments.format == "json" else list_text(runs), DONE)


def _show(arguments: argparse.Namespace) -> int:
    run = named_run(arguments.run_name)
    if arguments.format == "table":
        return show(_PROG, show_text(run, arguments.top, arguments.gpu_hour_price), DONE)
    if arguments.gpu_hour_price is not None:
        raise InputError("--gpu-hour-price: adds a column to the table, and nothing to --format json")
    return show(_PROG, show_json(run, arguments.top), DONE)


def _export(arguments: argparse.Namespace) -> int:
    run = named_run(arguments.run_name)
    text = _EXPORTS[arguments.format](run)
    if arguments.output is None:
        return show(_PROG, text, DONE)
    check_writable(arguments.output, input_files(run))
    write_file(arguments.output, text)
    return DONE


def _compare(arguments: argparse.Namespace) -> int:
    left, right = (named_run(name) for name in (arguments.run_name, arguments.other))
    written = comparison_json if arguments.format == "json" else comparison_text
    return show(_PROG, written(left, right), DONE)


def _replay(arguments: argparse.Namespace) -> int:
    run = named_run(arguments.run_name)
    chosen = [find_candidate(run, name) for name in dict.fromkeys(arguments.candidates)]
    chosen = chosen or ranked_candidates(run)
    if not chosen:
        raise InputError(f"{run.name}: has no feasible candidate")
    config, repeats, spreads = unchanged_config(run), [], []
    for place, (number, candidate) in enumerate(chosen, 1):
        repeats.append(replay_again(config, number, candidate))
        if arguments.seeds is not None:
            spreads.append(replay_with_seeds(config, number, candidate, arguments.seeds))
        say(f"{_PROG}: {place} of {len(chosen)} replayed")
    if arguments.format == "json":
        text = again_json(run.config.goal, repeats, spreads)
    else:
        text = again_text(run.config.goal, repeats)
        text += "\n" + spread_text(run.config.goal, spreads) if spreads else ""
    return show(_PROG, text, FAILED if any(again.differences for again in repeats) else DONE)
