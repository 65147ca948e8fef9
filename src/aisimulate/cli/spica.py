"""The `spica` command: one YAML in, ranked deployments out (spec 05 section 12)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import ValidationError

from aisimulate.cli.exit_codes import BAD_INPUT, DONE, INTERRUPTED, NOTHING_FEASIBLE
from aisimulate.cli.parser import OneLineParser, fail
from aisimulate.config.messages import one_line
from aisimulate.core.errors import AISimulateError, InputError, TimingError
from aisimulate.report.dry_run import plan_description, plan_lines
from aisimulate.report.envelope import check_writable, envelope_text, search_envelope, write_file
from aisimulate.report.ranking import print_ranking, ranking_lines
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.observer import SilentObserver
from aisimulate.spica.plan import plan_search
from aisimulate.spica.progress import progress_observer
from aisimulate.spica.search import run_search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.search import SearchResult

_TABLE_ROWS = 10


def main(
    argv: Sequence[str] | None = None, *, prog: str = "aisimulate spica", default_format: str = "table"
) -> int:
    """Run the command; return 0 done, 1 nothing feasible or failed, 2 bad input, 130 interrupted."""
    arguments = _parser(prog, default_format).parse_args(argv)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print(f"{prog}: interrupted before anything was measured", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, TimingError) as error:
        return fail(prog, error, BAD_INPUT)
    except (AISimulateError, OSError) as error:
        return fail(prog, error, NOTHING_FEASIBLE)


def _parser(prog: str, default_format: str) -> OneLineParser:
    parser = OneLineParser(prog=prog, description="Find the deployments that serve a workload best.")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="the search, as YAML")
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write everything found as JSON")
    parser.add_argument("--top", type=_positive, metavar="N", help="show the N best")
    parser.add_argument(
        "--format",
        choices=("lines", "table", "json"),
        default=default_format,
        help="what to print (default: %(default)s)",
    )
    parser.add_argument("--seed", type=_natural, metavar="N", help="use N instead of sweep.random_seed")
    parser.add_argument("--quiet", action="store_true", help="no progress, notes or summary on stderr")
    parser.add_argument("--dry-run", action="store_true", help="print what would be searched, then stop")
    return parser


def _positive(text: str) -> int:
    return _whole(text, 1)


def _natural(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, low: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if value < low:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= {low}")
    return value


def _run(arguments: argparse.Namespace) -> int:
    config = load_config(arguments.config)
    if arguments.seed is not None:
        sweep = config.sweep.model_copy(update={"random_seed": arguments.seed})
        config = config.model_copy(update={"sweep": sweep})
    if arguments.output is not None:
        check_writable(arguments.output)
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
    if arguments.format == "json":
        print(envelope_text(plan_description(plan)), end="")
    else:
        print("\n".join(plan_lines(plan)))
    return DONE


def _search(config: SmartSearchConfig, arguments: argparse.Namespace) -> int:
    observer = SilentObserver() if arguments.quiet else progress_observer()
    result = run_search(config, observer=observer)
    if arguments.output is not None:
        write_file(arguments.output, envelope_text(search_envelope(result)))
    _print_result(result, arguments)
    if result.interrupted:
        print("interrupted: the ranking covers what was measured until then", file=sys.stderr)
        return INTERRUPTED
    return DONE if result.candidates else NOTHING_FEASIBLE


def _print_result(result: SearchResult, arguments: argparse.Namespace) -> None:
    if arguments.format == "json":
        print(envelope_text(search_envelope(result, top=arguments.top)), end="")
    elif result.candidates:
        goal = result.plan.config.goal
        if arguments.format == "table":
            print_ranking(goal, result.candidates, arguments.top or _TABLE_ROWS)
        else:
            print("\n".join(ranking_lines(goal, result.candidates, arguments.top)))
    if not result.candidates:
        print(f"no feasible candidate found {_hint(result)}", file=sys.stderr)


def _hint(result: SearchResult) -> str:
    reasons = result.progress.tally.reasons.most_common(1)
    if reasons:
        return f"(most frequent failure: {reasons[0][0]})"
    return "(check gpu_budget, context_length, backends and hardware_sku)"
