"""The `init` command: a first search file from options, or from answers at the terminal."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.cli.arguments import positive
from aisimulate.cli.exit_codes import DONE
from aisimulate.cli.guarded import guarded
from aisimulate.cli.output import show
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.ranges import one_of, some_of
from aisimulate.cli.recorded import search_inputs
from aisimulate.config.yaml_file import read_yaml_text
from aisimulate.core.console import say
from aisimulate.core.errors import InputError
from aisimulate.report.dry_run import plan_lines
from aisimulate.report.files import check_new, check_writable, write_file
from aisimulate.report.first_config import GOALS, FirstConfig, first_config_text
from aisimulate.report.search_file import search_of
from aisimulate.spica.model_hw import fits_one_gpu_moe
from aisimulate.spica.parallel_enum import BACKENDS
from aisimulate.spica.plan import plan_search

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PROG = "aisimulate init"
_LOADS = ("request_rate", "concurrency", "kv_load")
_BOUNDS = ("ttft_ms", "itl_ms", "e2e_ms")
_USUAL_KV_LOAD = 0.8  # where the load is not searched itself


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 failed, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    return guarded(_PROG, lambda: _run(arguments))


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG,
        description="Write a commented search file; asks for what the options leave open.",
        epilog="Traffic: --trace, or --isl and --osl with one of --request-rate, --concurrency, --kv-load.",
        allow_abbrev=False,
    )
    parser.add_argument("--model", metavar="NAME", help="bundled name, or folder with a config.json")
    parser.add_argument("--gpu", metavar="NAME", help="kind of GPU, such as h200_sxm")
    parser.add_argument("--gpus", type=positive, metavar="N", help="most GPUs of a deployment")
    parser.add_argument(
        "--backend",
        type=some_of(BACKENDS),
        default=("vllm",),
        metavar="NAMES",
        help="engines to compare, of vllm,sglang,trtllm (default: vllm)",
    )
    parser.add_argument(
        "--mode",
        type=one_of(("agg", "disagg", "both")),
        default="both",
        metavar="NAME",
        help="agg, disagg or both",
    )
    parser.add_argument("--context-length", type=positive, metavar="N", help="longest sequence to serve")
    _add_traffic(parser)
    _add_goal(parser)
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead of to stdout")
    output.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    return parser


def _add_traffic(parser: OneLineParser) -> None:
    traffic = parser.add_argument_group("traffic")
    traffic.add_argument("--trace", metavar="FILE", help="a request trace (docs/traces.md)")
    traffic.add_argument("--trace-format", metavar="NAME", help="how to read it (default: mooncake)")
    traffic.add_argument("--isl", type=positive, metavar="N", help="tokens of a prompt")
    traffic.add_argument("--osl", type=positive, metavar="N", help="tokens of an answer")
    traffic.add_argument("--request-rate", type=float, metavar="X", help="requests per second")
    traffic.add_argument("--concurrency", type=positive, metavar="N", help="requests in flight")
    traffic.add_argument(
        "--kv-load", action="store_true", default=None, help="every load up to a full KV cache"
    )


def _add_goal(parser: OneLineParser) -> None:
    goal = parser.add_argument_group("goal")
    goal.add_argument("--goal", type=one_of(tuple(GOALS)), metavar="NAME", help=f"one of {', '.join(GOALS)}")
    for name in _BOUNDS:
        option = f"--{name.replace('_', '-')}"
        goal.add_argument(option, type=float, metavar="MS", help=f"bound of the SLA: {name}")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.output is None and arguments.overwrite:
        raise InputError("--overwrite: has no effect without --output")
    if arguments.output is not None:
        if not arguments.overwrite:
            check_new(arguments.output)
        check_writable(arguments.output)
    _ask_for_the_rest(arguments)
    answers = _answers(arguments)
    text = first_config_text(answers)
    config = search_of(read_yaml_text(text))  # as the search will read it
    if fits_one_gpu_moe(config.search_space):
        text = first_config_text(replace(answers, single_gpu_moe=True))
        config = search_of(read_yaml_text(text))
    if arguments.output is not None:
        check_writable(arguments.output, search_inputs(config))
    plan = plan_search(config)
    for line in plan_lines(plan):
        if not line.startswith(" "):
            say(f"{_PROG}: {line}")
    if arguments.output is None:
        return show(_PROG, text, DONE)
    write_file(arguments.output, text)
    return show(_PROG, f"wrote {arguments.output}: aisimulate spica --config {arguments.output}\n", DONE)


# What is asked ----------------------------------------------------------------------------------------


def _ask_for_the_rest(arguments: argparse.Namespace) -> None:
    """Ask for what no option gave. Raises InputError with the missing options where nobody can answer."""
    missing = [name for name in ("model", "gpu", "gpus") if getattr(arguments, name) is None]
    has_traffic = arguments.trace is not None or arguments.isl is not None
    if not missing and has_traffic:
        return
    if not sys.stdin.isatty():
        needed = [f"--{name}" for name in missing] + ["--trace, or --isl and --osl with a load"] * (
            not has_traffic
        )
        raise InputError(f"missing: {', '.join(needed)}")
    questions: dict[str, tuple[str, Callable[[str], Any]]] = {
        "model": ("Model (a bundled name, or a folder with config.json)", str),
        "gpu": ("Kind of GPU (such as h200_sxm, h100_sxm, b200_sxm)", str),
        "gpus": ("Most GPUs of a deployment", positive),
    }
    for name in missing:
        setattr(arguments, name, _asked(*questions[name]))
    if not has_traffic:
        _ask_for_traffic(arguments)
    if not _sla(arguments):
        arguments.ttft_ms = _asked(
            "Longest time to the first token in ms (empty: none)", float, optional=True
        )
        arguments.itl_ms = _asked("Longest time between tokens in ms (empty: none)", float, optional=True)


def _ask_for_traffic(arguments: argparse.Namespace) -> None:
    arguments.trace = _asked("Trace file (empty: synthetic traffic)", str, optional=True)
    if arguments.trace is not None:
        return
    arguments.isl = _asked("Tokens of a prompt", positive)
    arguments.osl = _asked("Tokens of an answer", positive)
    rate = _asked("Requests per second (empty: every load up to a full KV cache)", float, optional=True)
    arguments.request_rate, arguments.kv_load = rate, True if rate is None else None


def _asked(question: str, read: Callable[[str], Any], *, optional: bool = False) -> Any:  # noqa: ANN401
    """Ask until an answer can be read. The question goes to stderr, so that stdout stays the file."""
    while True:
        sys.stderr.write(f"{question}: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise InputError("the answers ended before the questions")
        text = line.strip()
        if not text and optional:
            return None
        try:
            if text:
                return read(text)
        except (ValueError, argparse.ArgumentTypeError) as error:
            say(f"  {error}")


# What is answered -------------------------------------------------------------------------------------


def _answers(arguments: argparse.Namespace) -> FirstConfig:
    goal = _goal(arguments)
    return FirstConfig(
        model=arguments.model,
        gpu=arguments.gpu,
        gpus=arguments.gpus,
        backends=arguments.backend,
        mode=arguments.mode,
        traffic=_traffic(arguments, goal),
        sla=_sla(arguments),
        goal=goal,
        context_length=arguments.context_length,
    )


def _sla(arguments: argparse.Namespace) -> dict[str, float]:
    """Gather the bounds that are set, in ms."""
    return {name: getattr(arguments, name) for name in _BOUNDS if getattr(arguments, name) is not None}


def _goal(arguments: argparse.Namespace) -> str:
    """Choose the goal that was given, or the one that the SLA and the load call for."""
    if arguments.goal is not None:
        return str(arguments.goal)
    if _sla(arguments):
        return "goodput_per_gpu"
    return "pareto" if arguments.kv_load else "throughput_per_gpu"


def _traffic(arguments: argparse.Namespace, goal: str) -> dict[str, Any]:
    given = {name: getattr(arguments, name) for name in _LOADS}
    loads = [name for name, value in given.items() if value is not None and value is not False]
    if arguments.trace is not None:
        return _trace(arguments, loads)
    if arguments.trace_format is not None:
        raise InputError("--trace-format: has no effect without --trace")
    if arguments.isl is None or arguments.osl is None:
        raise InputError("--isl and --osl: synthetic traffic needs both")
    if len(loads) != 1:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in loads) or "none"
        raise InputError(
            f"synthetic traffic needs one of --request-rate, --concurrency, --kv-load; got {named}"
        )
    values = {
        "request_rate": {"request_rate": arguments.request_rate, "num_request_ratio": 120},
        "concurrency": {"concurrency": arguments.concurrency, "num_request_ratio": 4},
        "kv_load": {
            "kv_load_ratio": [0.0, 1.0] if goal == "pareto" else _USUAL_KV_LOAD,
            "num_request_ratio": 4,
        },
    }
    return {"isl": arguments.isl, "osl": arguments.osl, **values[loads[0]]}


def _trace(arguments: argparse.Namespace, loads: list[str]) -> dict[str, Any]:
    others = [name for name in ("isl", "osl") if getattr(arguments, name) is not None]
    others += [name for name in loads if name != "concurrency"]
    if others:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise InputError(f"{named}: has no effect with --trace, which has lengths and times of its own")
    traffic: dict[str, Any] = {"trace_path": arguments.trace}
    if arguments.trace_format is not None:
        traffic["trace_format"] = arguments.trace_format
    if arguments.concurrency is not None:
        traffic["replay_concurrency"] = arguments.concurrency
    return traffic
