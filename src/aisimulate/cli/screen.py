"""The `screen` command: estimates of a whole search space by formulas, in seconds (spec 08 section 5)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.arguments import positive
from aisimulate.cli.exit_codes import DONE, NOTHING_FEASIBLE
from aisimulate.cli.guarded import guarded
from aisimulate.cli.output import show
from aisimulate.cli.overrides import add_set_option
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.spica import load_config
from aisimulate.core.console import say
from aisimulate.report.json_text import json_text
from aisimulate.report.screen import screen_description, screen_text
from aisimulate.spica.screen.answer import screen_config

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from aisimulate.spica.screen.answer import ScreenAnswer

_PROG = "aisimulate screen"
_ROWS = 10
_PROGRESS_S = 2.0  # between two lines of progress


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 nothing can run or failed, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    return guarded(_PROG, lambda: _run(arguments))


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG,
        description="Estimate every deployment of a search by formulas, without a replay: the best and the "
        "Pareto front, with doubts where they cannot be trusted.",
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="the search, as YAML")
    add_set_option(parser)
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="what to print (default: %(default)s)"
    )
    parser.add_argument(
        "--top", type=positive, default=_ROWS, metavar="N", help="show N (default: %(default)s)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, notes or cost on stderr")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    config = load_config(arguments.config, arguments.overrides)
    started_s, progress = time.process_time(), _Progress()
    answer = screen_config(config, top=arguments.top, on_block=None if arguments.quiet else progress)
    used_s = time.process_time() - started_s
    if not arguments.quiet:
        _remark(answer, used_s)
    is_json = arguments.format == "json"
    text = json_text(screen_description(answer)) if is_json else screen_text(answer)
    return show(_PROG, text, DONE if answer.front else NOTHING_FEASIBLE)


def _remark(answer: ScreenAnswer, used_s: float) -> None:
    for note in answer.notes:
        say(f"note: {note}")
    rate = answer.points / max(used_s, 1e-9)
    copies = f" ({answer.computed:,} computed, the others are copies)" * (answer.computed < answer.points)
    say(
        f"estimated {answer.points:,} deployments{copies} in {used_s:.1f} CPU s, {rate:,.0f} per s, "
        "start-up included"
    )


class _Progress:
    """Says now and then how far a long screen is."""

    def __init__(self) -> None:
        self._said_s = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Take note of the rows done."""
        now_s = time.monotonic()
        if now_s - self._said_s >= _PROGRESS_S and done < total:
            self._said_s = now_s
            say(f"screen: {done:,} of {total:,}")
