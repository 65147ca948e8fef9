"""The `calibrate` command: pass times fitted to a log of requests of one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.arguments import positive
from aisimulate.cli.calibrate_table import asks_for_table
from aisimulate.cli.calibrate_table import main as calibrate_table
from aisimulate.cli.delivery import deliver
from aisimulate.cli.guarded import guarded
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.ranges import one_of
from aisimulate.config.calibration_file import calibration_text
from aisimulate.core.console import say
from aisimulate.core.errors import InputError
from aisimulate.fidelity.calibrate.calibration import EVALUATIONS, FIT_REQUESTS, MODES, Options, calibrate
from aisimulate.fidelity.calibrate.look_ahead import CHOICES
from aisimulate.fidelity.calibrate.prompts import has_prompts, with_prompts
from aisimulate.fidelity.calibrate.request_log import read_log
from aisimulate.fidelity.calibrate.settings import read_settings
from aisimulate.fidelity.measured.formats import FORMATS
from aisimulate.report.calibration import outcome_json, outcome_table
from aisimulate.report.files import check_writable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from aisimulate.config.payload import Execution
    from aisimulate.fidelity.calibrate.request_log import RequestLog

_PROG = "aisimulate calibrate"
_NO_PROMPTS = (
    "enable_prefix_caching is on, and without --prompts no prompt is found in the cache: "
    "if the measured ones shared prefixes, the factors stand for that, and hold for no other load"
)
_TEXTS = {"table": outcome_table, "json": outcome_json}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 failed, 2 bad input, 130 interrupted."""
    words = sys.argv[1:] if argv is None else argv
    if asks_for_table(words):
        return calibrate_table(words)
    arguments = _parser().parse_args(words)
    return guarded(_PROG, lambda: _run(arguments))


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG,
        description="Fit the pass times of an engine to a log of its requests.",
        epilog=f"Formats: {', '.join(FORMATS)}. With --table FILE: from a benchmark table "
        "(--table FILE --help). docs/calibration.md explains what is fitted, and when not.",
        allow_abbrev=False,
    )
    parser.add_argument("log", type=Path, metavar="LOG", help="the requests of a measured run")
    parser.add_argument(
        "--engine", type=Path, required=True, metavar="FILE", help="the engine's settings, as for `simulate`"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the calibration file to write")
    _add_log_options(parser)
    _add_fit_options(parser)
    parser.add_argument(
        "--format", choices=tuple(_TEXTS), default="table", help="what to print (default: %(default)s)"
    )
    return parser


def _add_log_options(parser: OneLineParser) -> None:
    parser.add_argument(
        "--log-format",
        type=one_of(tuple(FORMATS)),
        metavar="FORMAT",
        help="what wrote the log (default: found out)",
    )
    parser.add_argument(
        "--run", type=positive, metavar="N", help="which run of the log, from 1, if it has several"
    )
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="token ids or block ids of the prompts, one JSON object a line (default: those in the log)",
    )


def _add_fit_options(parser: OneLineParser) -> None:
    parser.add_argument(
        "--fit-requests",
        type=positive,
        metavar="N",
        default=FIT_REQUESTS,
        help="fit to the first N requests, score the others (default: %(default)s)",
    )
    parser.add_argument(
        "--timing-mode",
        type=one_of(MODES),
        metavar="MODE",
        help=f"how mixed passes are timed: {', '.join(MODES)} (default: what fits best)",
    )
    parser.add_argument(
        "--look-ahead",
        type=one_of(CHOICES),
        metavar="N",
        help="passes are planned so many before they begin: 0, 1, or best, which tries both (default: best if"
        " the log tells when requests were scheduled and the settings leave it open, else as these say)",
    )
    parser.add_argument(
        "--table-free", action="store_true", help="find a step model instead of factors on measured times"
    )
    parser.add_argument(
        "--evaluations",
        type=positive,
        metavar="N",
        default=EVALUATIONS,
        help="replays at most for the search of each way (default: %(default)s)",
    )
    for name in ("model", "system"):
        parser.add_argument(f"--{name}", metavar="NAME", help=f"the {name}, where the settings do not tell")
    parser.add_argument("--engine-version", metavar="TEXT", help="the engine's version that was measured")


def _run(arguments: argparse.Namespace) -> int:
    inputs = [item for item in (arguments.log, arguments.engine, arguments.prompts) if item is not None]
    if arguments.output is not None:
        check_writable(arguments.output, inputs)
    execution = read_settings(arguments.engine, table_free=arguments.table_free)
    for note in execution.notes:
        say(f"{_PROG}: note: {note}")
    options = _options(arguments)
    outcome = calibrate(_log(arguments, execution), execution, options)
    text = _TEXTS[arguments.format](outcome)
    return deliver(_PROG, text, arguments.output, lambda: calibration_text(outcome.calibration))


def _log(arguments: argparse.Namespace, execution: Execution) -> RequestLog:
    log = read_log(arguments.log, arguments.log_format, arguments.run)
    for note in log.notes:
        say(f"{_PROG}: note: {note}")
    prompts = arguments.prompts
    if prompts is None and log.format == "vllm-clocks" and has_prompts(arguments.log):
        prompts = arguments.log
    if prompts is None:
        if execution.spec.engine.rank.enable_prefix_caching:
            say(f"{_PROG}: warning: {_NO_PROMPTS}")
        return log
    rank = execution.spec.engine.rank
    if not rank.enable_prefix_caching:
        raise InputError(f"--prompts {prompts}: has no effect without enable_prefix_caching")
    return with_prompts(log, prompts, rank.block_size)


def _options(arguments: argparse.Namespace) -> Options:
    if arguments.table_free and arguments.timing_mode is not None:
        raise InputError(f"--timing-mode {arguments.timing_mode}: has no effect with --table-free")
    return Options(
        fit_requests=arguments.fit_requests,
        timing_mode=arguments.timing_mode,
        look_ahead=arguments.look_ahead,
        table_free=arguments.table_free,
        evaluations=arguments.evaluations,
        model=arguments.model,
        system=arguments.system,
        engine_version=arguments.engine_version,
    )
