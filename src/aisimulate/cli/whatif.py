"""The `whatif` command: what a result hangs on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.arguments import positive
from aisimulate.cli.delivery import deliver
from aisimulate.cli.guarded import guarded
from aisimulate.cli.overrides import add_set_option
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.ranges import one_of
from aisimulate.cli.recorded import find_candidate, input_files, named_run, unchanged_config
from aisimulate.cli.simulate import load_payload
from aisimulate.core.console import say
from aisimulate.core.errors import InputError
from aisimulate.report.files import check_page, check_writable
from aisimulate.report.page.whatif import whatif_page
from aisimulate.report.shapes import candidate_text, telling_fields
from aisimulate.report.whatif import whatif_json, whatif_text
from aisimulate.spica.candidate_payload import candidate_payload
from aisimulate.spica.config_goal import OptimizationTarget
from aisimulate.whatif.catalogue import NAMES, VARIANTS
from aisimulate.whatif.effects import Subject, goal_of_payload, sensitivities
from aisimulate.whatif.order import robustness
from aisimulate.whatif.replays import usable_jobs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate
    from aisimulate.spica.recorded_run import RecordedRun
    from aisimulate.whatif.effects import Sensitivity
    from aisimulate.whatif.order import Robustness
    from aisimulate.whatif.replays import Task

_PROG = "aisimulate whatif"
_CLOSEST = 3
_TEXTS = {"table": whatif_text, "json": whatif_json}
_TARGETS = tuple(
    target.value
    for target in OptimizationTarget
    if target not in (OptimizationTarget.PARETO, OptimizationTarget.MIN_GPUS)
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 failed, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    return guarded(_PROG, lambda: _run(arguments))


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG,
        description="Replay a candidate, or a payload, under one changed assumption at a time.",
        epilog=f"Groups of variants: {', '.join(VARIANTS)} (docs/whatif.md).",
        allow_abbrev=False,
    )
    parser.add_argument("run_name", nargs="?", metavar="RUN", help="a name of `runs list`, a file, or `last`")
    parser.add_argument(
        "candidate", nargs="?", metavar="CANDIDATE", help="its number in `runs show`, or `best` (the default)"
    )
    parser.add_argument(
        "--payload", type=Path, metavar="FILE", help="a payload of `simulate` instead of a run"
    )
    add_set_option(parser)
    parser.add_argument("--goal", type=one_of(_TARGETS), metavar="TARGET", help="judge by this instead")
    parser.add_argument(
        "--only",
        type=one_of(NAMES),
        action="append",
        default=[],
        metavar="NAME",
        help="only this group or variant; may be given again",
    )
    parser.add_argument(
        "--top",
        type=positive,
        metavar="N",
        help=f"of a run: whether the order of its N closest candidates holds (default: {_CLOSEST})",
    )
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="replays at a time (default: the processors)"
    )
    parser.add_argument(
        "--format", choices=tuple(_TEXTS), default="table", help="what to print (default: %(default)s)"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with a tornado plot")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    if (arguments.payload is None) is (arguments.run_name is None):
        raise InputError("give a RUN, or --payload FILE")
    if arguments.payload is not None:
        return _of_payload(arguments)
    if arguments.overrides:
        raise InputError("--set: replaces values of a payload, and has no effect on a run")
    return _of_run(arguments)


def _of_payload(arguments: argparse.Namespace) -> int:
    if arguments.top is not None:
        raise InputError("--top: compares candidates of a run, and has no effect with --payload")
    if arguments.html is not None:
        check_writable(arguments.html, [arguments.payload], "--html")
        check_page(arguments.html, "--html")
    payload = load_payload(arguments.payload, arguments.overrides)
    target = goal_of_payload(payload, arguments.goal).target
    asked = _sensitivities(arguments, [Subject(arguments.payload.name, payload)], target)[0]
    return _deliver(arguments, asked, [asked], None, str(arguments.payload.resolve()))


def _of_run(arguments: argparse.Namespace) -> int:
    run = named_run(arguments.run_name)
    if arguments.html is not None:
        check_writable(arguments.html, input_files(run), "--html")
        check_page(arguments.html, "--html")
    _, chosen = find_candidate(run, arguments.candidate or "best")
    target = _target(arguments, run)
    compared = _closest(run, chosen, arguments.top or _CLOSEST)
    config = unchanged_config(run)
    subjects = [Subject(_label(run, one, compared), candidate_payload(config, one)) for one in compared]
    found = _sensitivities(arguments, subjects, target)
    asked = found[next(place for place, one in enumerate(compared) if one is chosen)]
    sign = -1.0 if target.maximize else 1.0
    ranked = sorted(found, key=lambda one: sign * one.value)
    order = robustness(ranked) if len(ranked) > 1 else None
    return _deliver(arguments, asked, ranked, order, str(run.path.resolve()))


def _target(arguments: argparse.Namespace, run: RecordedRun) -> OptimizationTarget:
    """Choose what candidates are judged by: of several objectives the first, of the fewest GPUs goodput."""
    if arguments.goal is not None:
        target = OptimizationTarget(arguments.goal)
        if target.needs_sla and run.config.goal.sla is None:
            raise InputError(f"--goal {target.value}: needs an SLA, and the search had none")
        return target
    target = run.config.goal.targets[0]
    return OptimizationTarget.GOODPUT if target is OptimizationTarget.MIN_GPUS else target


def _closest(run: RecordedRun, chosen: Candidate, most: int) -> list[Candidate]:
    """List the chosen candidate and the first of the ranking that measured differently, in their order."""
    found: list[Candidate] = []
    for candidate in run.candidates:
        room = most if any(one is chosen for one in found) else most - 1
        if candidate is chosen or (
            len(found) < room and all(candidate.metrics != one.metrics for one in (*found, chosen))
        ):
            found.append(candidate)
    return found if any(one is chosen for one in found) else [*found, chosen]


def _label(run: RecordedRun, candidate: Candidate, compared: Sequence[Candidate]) -> str:
    number = next(attempt.number for attempt, one in run.measured if one is candidate)
    return f"candidate {number}, {candidate_text(candidate, telling_fields(compared))}"


def _sensitivities(
    arguments: argparse.Namespace, subjects: Sequence[Subject], target: OptimizationTarget
) -> list[Sensitivity]:
    return sensitivities(
        subjects,
        target,
        VARIANTS,
        only=arguments.only,
        jobs=arguments.jobs or usable_jobs(),
        on_end=None if arguments.quiet else _progress,
    )


def _progress(task: Task, done: int, total: int) -> None:
    say(f"{_PROG}: replay {done} of {total}: {task.label}")


def _deliver(
    arguments: argparse.Namespace,
    asked: Sensitivity,
    ranked: Sequence[Sensitivity],
    order: Robustness | None,
    path: str,
) -> int:
    source = arguments.payload.name if arguments.payload is not None else f"run {Path(path).stem}"
    text = _TEXTS[arguments.format](asked, ranked, order)
    return deliver(
        _PROG, text, arguments.html, lambda: whatif_page(asked, ranked, order, source, [path]), "--html"
    )
