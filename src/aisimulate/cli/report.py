"""The `report` command: the result page of a recorded search, as a file or live on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.arguments import add_price_option, natural, port
from aisimulate.cli.exit_codes import DONE
from aisimulate.cli.guarded import guarded
from aisimulate.cli.output import show
from aisimulate.cli.page_server import serve_page
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.recorded import add_run_argument, input_files, named_run, run_of
from aisimulate.cli.run_files import find_run
from aisimulate.core.console import say
from aisimulate.core.errors import InputError
from aisimulate.report.files import check_page, check_writable, write_file
from aisimulate.report.inside import look_inside
from aisimulate.report.page.candidates import candidate_rows
from aisimulate.report.page.render import page_html
from aisimulate.spica.candidate_payload import replayable_config
from aisimulate.spica.run_facts import changed_inputs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from aisimulate.report.inside import Inside
    from aisimulate.spica.recorded_run import RecordedRun

_PROG = "aisimulate report"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 failed, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    return guarded(_PROG, lambda: _run(arguments))


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG,
        description="Write the result page of a search: one HTML file that fetches nothing.",
        allow_abbrev=False,
    )
    add_run_argument(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where to write it (default: RUN.html, here)"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a FILE that is no page of ours, too"
    )
    add_price_option(parser)
    parser.add_argument(
        "--compare",
        metavar="OTHER",
        help="also set another run beside it: what was asked, and the best of both",
    )
    parser.add_argument(
        "--inside",
        type=natural,
        default=0,
        metavar="N",
        help="replay the N best again: their queues and caches over time, the origin of their pass times",
    )
    parser.add_argument(
        "--serve",
        action="store_true",
        help="show it at an address of this machine alone, up to date while the search runs",
    )
    parser.add_argument(
        "--port", type=port, metavar="N", help="the port to serve at (default: 0, which is any free one)"
    )
    return parser


def _run(arguments: argparse.Namespace) -> int:
    path = find_run(arguments.run_name)
    if arguments.serve:
        if arguments.output is not None:
            raise InputError("--output: has no effect with --serve, which writes no file")
        if arguments.compare is not None:
            raise InputError("--compare: has no effect with --serve")
        if arguments.inside:
            raise InputError("--inside: has no effect with --serve, whose candidates still change")
        if arguments.overwrite:
            raise InputError("--overwrite: has no effect with --serve, which writes no file")
        return serve_page(path, port=arguments.port or 0, gpu_hour_price=arguments.gpu_hour_price)
    if arguments.port is not None:
        raise InputError("--port: has no effect without --serve")
    output = arguments.output or Path(f"{path.stem}.html")
    run = run_of(path)
    check_writable(output, input_files(run))
    if not arguments.overwrite:
        check_page(output)
    other = None if arguments.compare is None else named_run(arguments.compare)
    inside = _inside(run, arguments.inside)
    text = page_html(run, gpu_hour_price=arguments.gpu_hour_price, inside=inside, other=other)
    write_file(output, text)
    written = f"wrote {output} ({len(text.encode()) / 1e6:.1f} MB)\n"
    return show(_PROG, written if output.is_file() else "", DONE)


def _inside(run: RecordedRun, most: int) -> dict[int, Inside]:
    """Replay the first candidates again; what was changed since their search is told, here and there."""
    if not most:
        return {}
    config = replayable_config(run)
    changes = changed_inputs(config, run.facts)
    for change in changes:
        say(f"{_PROG}: {change}")
    found = {row.number: look_inside(config, row.candidate) for row in candidate_rows(run)[:most]}
    for inside in found.values():
        inside.note = "; ".join([*changes, *([inside.note] if inside.note else [])])
    return found
