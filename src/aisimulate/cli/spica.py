"""The `spica` command: one YAML in, ranked deployments out (spec 05 section 12)."""

from __future__ import annotations

import argparse
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.arguments import add_price_option, natural, positive, share
from aisimulate.cli.delivery import deliver
from aisimulate.cli.exit_codes import DONE, FAILED, INTERRUPTED, NOTHING_FEASIBLE, TERMINATED
from aisimulate.cli.guarded import guarded
from aisimulate.cli.output import fail
from aisimulate.cli.overrides import add_set_option, with_overrides
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.recorded import search_inputs
from aisimulate.cli.run_files import find_run, new_run_path, runs_folder
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.report.answer import answer_of_search, answer_text, first_origins
from aisimulate.report.dry_run import plan_description, plan_lines
from aisimulate.report.envelope import envelope_text, search_envelope
from aisimulate.report.files import check_writable
from aisimulate.report.near_misses import near_miss_lines
from aisimulate.report.ranking import ranking_lines
from aisimulate.report.search_file import read_search
from aisimulate.report.winner import rejection_notes
from aisimulate.spica.ledger import Ledger, LedgerError
from aisimulate.spica.observer import SilentObserver
from aisimulate.spica.plan import plan_search
from aisimulate.spica.progress import progress_observer
from aisimulate.spica.run_facts import asked_config
from aisimulate.spica.score import epsilon_front
from aisimulate.spica.search import run_search
from aisimulate.spica.summary import gates_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.search import SearchResult

_TABLE_ROWS = 10
_NOTHING_MEASURED = "interrupted before any candidate was measured"


def main(
    argv: Sequence[str] | None = None, *, prog: str = "aisimulate spica", default_format: str = "table"
) -> int:
    """Run the command.

    Return 0 done, 1 nothing feasible or failed, 2 bad input, 130 interrupted, 143 by SIGTERM.
    """
    arguments = _parser(prog, default_format).parse_args(argv)
    return guarded(prog, lambda: _run(arguments), interrupted=_NOTHING_MEASURED)


def _parser(prog: str = "aisimulate spica", default_format: str = "table") -> OneLineParser:
    parser = OneLineParser(prog=prog, description="Find the deployments that serve a workload best.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", type=Path, metavar="FILE", help="the search, as YAML")
    source.add_argument(
        "--resume",
        metavar="RUN",
        help="go on with an interrupted search (a name of `runs list`, a file, `last`)",
    )
    add_set_option(parser)
    record = parser.add_mutually_exclusive_group()
    record.add_argument(
        "--run",
        type=Path,
        metavar="FILE",
        help="record the search there (default: a new file among the runs)",
    )
    record.add_argument("--no-run", action="store_true", help="do not record the search")
    parser.add_argument("--seed", type=natural, metavar="N", help="use N instead of sweep.random_seed")
    parser.add_argument(
        "--check", action="store_true", help="check the invariants of every replay; who breaks one fails"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be searched, then stop")
    _add_output(parser, default_format)
    parser.set_defaults(prog=prog)
    return parser


def _add_output(parser: OneLineParser, default_format: str) -> None:
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="also write every attempt (or the planned search) as JSON",
    )
    parser.add_argument(
        "--epsilon",
        type=share,
        metavar="SHARE",
        help="of a Pareto front, leave out points within this share (such as 0.01) of one that is shown",
    )
    parser.add_argument("--top", type=positive, metavar="N", help="show the N best")
    parser.add_argument(
        "--format",
        choices=("lines", "table", "json"),
        default=default_format,
        help="what to print (default: %(default)s)",
    )
    add_price_option(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress, notes or summary on stderr")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.gpu_hour_price is not None and (arguments.format != "table" or arguments.dry_run):
        raise InputError("--gpu-hour-price: adds a column to the table of a result, and nothing else")
    if arguments.resume is not None:
        return _resume(arguments)
    if arguments.dry_run:
        _refuse_unused(arguments)
    config = load_config(arguments.config, arguments.overrides)
    if arguments.seed is not None:
        sweep = config.sweep.model_copy(update={"random_seed": arguments.seed})
        config = config.model_copy(update={"sweep": sweep})
    if arguments.output is not None:
        check_writable(arguments.output, [arguments.config, *search_inputs(config)])
    if arguments.dry_run:
        return _dry_run(config, arguments)
    ledger = _new_ledger(arguments)
    with nullcontext() if ledger is None else ledger:
        return _search(config, arguments, ledger)


def _refuse_unused(arguments: argparse.Namespace) -> None:
    """Refuse what a dry run would ignore."""
    given = {
        "--top": arguments.top,
        "--epsilon": arguments.epsilon,
        "--check": arguments.check or None,
        "--run": arguments.run,
    }
    for option, value in given.items():
        if value is not None:
            raise InputError(f"{option}: has no effect with --dry-run, which measures nothing")


def _resume(arguments: argparse.Namespace) -> int:
    given = arguments.overrides or None
    unusable = {
        "--set": given,
        "--seed": arguments.seed,
        "--run": arguments.run,
        "--no-run": arguments.no_run or None,
    }
    for option, value in {**unusable, "--dry-run": arguments.dry_run or None}.items():
        if value is not None:
            raise InputError(f"{option}: has no effect with --resume, which goes on with what was asked")
    path = find_run(arguments.resume)
    with Ledger.open_ledger(path, writable=True) as ledger:
        asked = asked_config(ledger)
        if arguments.output is not None:
            check_writable(arguments.output, [path, *search_inputs(asked)])
        return _search(asked, arguments, ledger)


def _new_ledger(arguments: argparse.Namespace) -> Ledger | None:
    """Start the record of a search. Where it may not be written, and nobody asked for it, there is none."""
    if arguments.no_run:
        return None
    if arguments.run is not None:
        return Ledger.create(arguments.run)
    try:
        return Ledger.create(new_run_path())
    except (OSError, InputError, LedgerError) as error:
        if not arguments.quiet:
            say(f"{arguments.prog}: this search is not recorded: {error}")
        return None


def load_config(path: Path, overrides: Sequence[str] = ()) -> SmartSearchConfig:
    """Read and validate a search file, with what `--set` replaces in it.

    Raises:
        InputError: one line that names the file and what is wrong with it.
    """
    return read_search(path, lambda document: with_overrides(document, overrides))


def _dry_run(config: SmartSearchConfig, arguments: argparse.Namespace) -> int:
    plan = plan_search(config)
    description = envelope_text(plan_description(plan))
    text = description if arguments.format == "json" else "\n".join([*plan_lines(plan), ""])
    return deliver(arguments.prog, text, arguments.output, lambda: description)


def _search(config: SmartSearchConfig, arguments: argparse.Namespace, ledger: Ledger | None) -> int:
    if arguments.epsilon is not None and not config.goal.is_pareto:
        raise InputError(f"--epsilon: thins out a Pareto front, but the goal is {config.goal.target.value}")
    observer = SilentObserver() if arguments.quiet else progress_observer()
    result = run_search(config, observer=observer, ledger=ledger, check=arguments.check)
    code = _exit_code(result)
    if result.interrupted and not result.outcomes:
        arguments.output = None  # nothing was measured: an earlier result stays
    document = "" if arguments.output is None else envelope_text(search_envelope(result))
    text = _result_text(result, arguments, ledger)
    code = deliver(arguments.prog, text, arguments.output, lambda: document, code=code)
    remark = _remark(result)
    if remark:
        say(remark)
    if arguments.format != "table":  # which tells it below the winner
        for note in rejection_notes(result.candidates):
            say(f"note: the first candidate {note}")
    for line in near_miss_lines(result.near_misses):
        say(line)
    if (result.interrupted or result.out_of_time) and ledger is not None:
        say(f"to go on: aisimulate spica --resume {_called(ledger.path)}")
    return code if result.problem is None else fail(arguments.prog, result.problem, FAILED)


def _exit_code(result: SearchResult) -> int:
    if result.interrupted:
        return TERMINATED if result.terminated else INTERRUPTED
    return DONE if result.candidates else NOTHING_FEASIBLE


def _called(path: Path) -> str:
    """Name a run as short as --resume finds it."""
    return path.stem if path.parent == runs_folder() else str(path)


def _result_text(result: SearchResult, arguments: argparse.Namespace, ledger: Ledger | None) -> str:
    if arguments.format == "json":
        return envelope_text(search_envelope(result, top=arguments.top, epsilon=arguments.epsilon))
    goal, candidates = result.plan.config.goal, result.candidates
    if arguments.epsilon is not None:
        candidates = epsilon_front(candidates, arguments.epsilon)
    if not candidates:
        return ""
    if arguments.format == "table":
        top = arguments.top or _TABLE_ROWS
        answer = answer_of_search(result, _first_origins(result, ledger), candidates)
        return answer_text(answer, top, arguments.gpu_hour_price)
    return "\n".join([*ranking_lines(goal, candidates, arguments.top), ""])


def _first_origins(result: SearchResult, ledger: Ledger | None) -> str:
    """Say where the first candidate's pass times came from, and record it with the run.

    The answer stands without it: Ctrl-C, or a record that cannot be written, leaves it out.
    """
    origins = ""
    with suppress(KeyboardInterrupt, AISimulateError):
        origins = first_origins(result)
        if ledger is not None and origins and result.problem is None:
            ledger.describe(first_origins=origins)
    return origins


def _remark(result: SearchResult) -> str:
    """Say on one line why a result is missing or partial; empty for a complete one."""
    ending = _ending(result)
    if result.candidates:
        return f"{ending}: the ranking covers what was measured until then" if ending else ""
    if not ending:
        return f"no feasible candidate found {_hint(result)}"
    evaluated = result.progress.tally.evaluated
    if evaluated:
        return f"{ending}: none of the {evaluated} candidates evaluated until then was feasible"
    return f"{ending} before any candidate was measured"


def _ending(result: SearchResult) -> str:
    """Tell what ended a search early, if anything did."""
    if result.problem is not None:
        return "ended early"
    if result.interrupted:
        return "interrupted"
    limit = result.plan.config.sweep.max_seconds
    return f"out of time ({limit:g} s)" if result.out_of_time else ""


def _hint(result: SearchResult) -> str:
    tally = result.progress.tally
    if tally.reasons:
        return f"(most frequent failure: {tally.reasons.most_common(1)[0][0]})"
    if tally.gates:
        return f"(infeasible: {gates_text(tally)})"
    return "(check gpu_budget, context_length, backends and hardware_sku)"
