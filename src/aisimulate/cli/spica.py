"""The `spica` command: one YAML in, ranked deployments out (spec 05 section 12)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import ValidationError

from aisimulate.cli.arguments import natural, positive
from aisimulate.cli.exit_codes import BAD_INPUT, DONE, FAILED, INTERRUPTED, NOTHING_FEASIBLE
from aisimulate.cli.output import fail, settle_stderr, show
from aisimulate.cli.parser import OneLineParser
from aisimulate.config.messages import one_line
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError, InputError, TimingError
from aisimulate.report.dry_run import plan_description, plan_lines
from aisimulate.report.envelope import envelope_text, search_envelope
from aisimulate.report.files import WriteError, check_writable, write_file
from aisimulate.report.ranking import ranking_lines, ranking_text
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.observer import SilentObserver
from aisimulate.spica.plan import plan_search
from aisimulate.spica.progress import progress_observer
from aisimulate.spica.search import run_search
from aisimulate.spica.summary import gates_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.search import SearchResult

_TABLE_ROWS = 10
_NOTHING_MEASURED = "interrupted before any candidate was measured"


def main(
    argv: Sequence[str] | None = None, *, prog: str = "aisimulate spica", default_format: str = "table"
) -> int:
    """Run the command; return 0 done, 1 nothing feasible or failed, 2 bad input, 130 interrupted."""
    arguments = _parser(prog, default_format).parse_args(argv)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        say(f"{prog}: {_NOTHING_MEASURED}")
        return INTERRUPTED
    except (ValueError, TimingError) as error:
        return fail(prog, error, BAD_INPUT)
    except (AISimulateError, OSError) as error:
        return fail(prog, error, FAILED)
    finally:
        settle_stderr()


def _parser(prog: str, default_format: str) -> OneLineParser:
    parser = OneLineParser(prog=prog, description="Find the deployments that serve a workload best.")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="the search, as YAML")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="also write every attempt (or the planned search) as JSON"
    )
    parser.add_argument("--top", type=positive, metavar="N", help="show the N best")
    parser.add_argument(
        "--format",
        choices=("lines", "table", "json"),
        default=default_format,
        help="what to print (default: %(default)s)",
    )
    parser.add_argument("--seed", type=natural, metavar="N", help="use N instead of sweep.random_seed")
    parser.add_argument("--quiet", action="store_true", help="no progress, notes or summary on stderr")
    parser.add_argument(
        "--check", action="store_true", help="check the invariants of every replay; who breaks one fails"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be searched, then stop")
    parser.set_defaults(prog=prog)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    config = load_config(arguments.config)
    if arguments.seed is not None:
        sweep = config.sweep.model_copy(update={"random_seed": arguments.seed})
        config = config.model_copy(update={"sweep": sweep})
    if arguments.output is not None:
        trace = config.workload.trace_path
        check_writable(arguments.output, [arguments.config, *([Path(trace)] if trace else [])])
    return _dry_run(config, arguments) if arguments.dry_run else _search(config, arguments)


def load_config(path: Path) -> SmartSearchConfig:
    """Read and validate a search file.

    Raises:
        InputError: one line that names the file and what is wrong with it.
    """
    try:
        return SmartSearchConfig.from_yaml(path)
    except OSError as error:
        raise InputError(f"could not read config {str(path)!r}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"malformed YAML in {str(path)!r}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise InputError(f"invalid config {str(path)!r}: {one_line(error, '', SmartSearchConfig)}") from error


def _dry_run(config: SmartSearchConfig, arguments: argparse.Namespace) -> int:
    plan = plan_search(config)
    description = envelope_text(plan_description(plan))
    text = description if arguments.format == "json" else "\n".join([*plan_lines(plan), ""])
    return _deliver(arguments, description, text, DONE)


def _search(config: SmartSearchConfig, arguments: argparse.Namespace) -> int:
    observer = SilentObserver() if arguments.quiet else progress_observer()
    result = run_search(config, observer=observer, check=arguments.check)
    if result.interrupted:
        code = INTERRUPTED
    else:
        code = DONE if result.candidates else NOTHING_FEASIBLE
    if result.interrupted and not result.outcomes:
        arguments.output = None  # nothing was measured: an earlier result stays
    document = "" if arguments.output is None else envelope_text(search_envelope(result))
    code = _deliver(arguments, document, _result_text(result, arguments), code)
    remark = _remark(result)
    if remark:
        say(remark)
    return code


def _deliver(arguments: argparse.Namespace, document: str, text: str, code: int) -> int:
    """Write `document` to --output, if asked for, and `text` to stdout; neither waits for the other."""
    problem = None
    if arguments.output is not None:
        try:
            write_file(arguments.output, document)
        except WriteError as error:
            problem = error
    code = show(arguments.prog, text, code)
    return code if problem is None else fail(arguments.prog, problem, FAILED)


def _result_text(result: SearchResult, arguments: argparse.Namespace) -> str:
    if arguments.format == "json":
        return envelope_text(search_envelope(result, top=arguments.top))
    if not result.candidates:
        return ""
    goal = result.plan.config.goal
    if arguments.format == "table":
        return ranking_text(goal, result.candidates, arguments.top or _TABLE_ROWS)
    return "\n".join([*ranking_lines(goal, result.candidates, arguments.top), ""])


def _remark(result: SearchResult) -> str:
    """Say on one line why a result is missing or partial; empty for a complete one."""
    if result.candidates:
        return "interrupted: the ranking covers what was measured until then" if result.interrupted else ""
    if not result.interrupted:
        return f"no feasible candidate found {_hint(result)}"
    evaluated = result.progress.tally.evaluated
    if evaluated:
        return f"interrupted: none of the {evaluated} candidates evaluated until then was feasible"
    return _NOTHING_MEASURED


def _hint(result: SearchResult) -> str:
    tally = result.progress.tally
    if tally.reasons:
        return f"(most frequent failure: {tally.reasons.most_common(1)[0][0]})"
    if tally.gates:
        return f"(infeasible: {gates_text(tally)})"
    return "(check gpu_budget, context_length, backends and hardware_sku)"
