"""The `perf` command: what the performance model says about one engine, without a replay."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from aisimulate.cli.exit_codes import BAD_INPUT, DONE, FAILED, INTERRUPTED
from aisimulate.cli.output import fail, settle_stderr, show
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.ranges import one_of, some_of, whole_number, whole_numbers
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError, InputError, TimingError
from aisimulate.perf.questions import PHASES, USED_BY, Questions, ask, unused_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROG = "aisimulate perf"

_NAMES = (
    ("model", "bundled name, or folder with a config.json (also --model-name)"),
    ("system", "kind of GPU, such as h200_sxm (also --hardware-sku)"),
    ("backend", "vllm, sglang or trtllm (default: vllm)"),
    ("backend_version", "slot of the data (current, next, previous) or version (default: current)"),
    ("gemm_dtype", "data type of the weights"),
    ("moe_dtype", "data type of the experts"),
    ("fmha_dtype", "data type of prefill attention"),
    ("kv_cache_dtype", "data type of the KV cache"),
    ("comm_dtype", "data type of communication"),
    ("systems_path", "folder of other performance data"),
)
_SIZES = (
    ("tp", "tensor-parallel size (default: 1)"),
    ("pp", "pipeline-parallel size (default: 1)"),
    ("attention_dp", "attention-data-parallel size (default: 1)"),
    ("moe_tp_size", "tensor-parallel size of the experts"),
    ("moe_ep_size", "expert-parallel size"),
    ("nextn", "draft tokens per step (default: 0)"),
)
_FRACTIONS = (
    ("gpu_memory_utilization", "share of GPU memory to fill with vllm (default: 0.9)"),
    ("mem_fraction_static", "share of GPU memory to fill with sglang (default: 0.88)"),
    ("free_gpu_memory_fraction", "share of free GPU memory for KV with trtllm (default: 0.9)"),
)
_VALUES = (
    ("batch", "requests per attention-DP rank (default: 1,8,64)"),
    ("isl", "prompt lengths, cached prefix included (default: 1024,8192)"),
    ("prefix", "cached tokens of the prompts (default: 0)"),
    ("context", "lengths of decoding sequences (default: 1024,8192)"),
    ("prefill_batch", "prompts beside the decoding batch of a mixed pass (default: 1)"),
)
_CAPACITY = (
    ("block_size", "tokens of a KV block (default: the backend's)"),
    ("max_num_batched_tokens", "token budget of a pass (default: 8192)"),
)
_ALIASES = {"model": ("--model-name",), "system": ("--hardware-sku",)}
_SETTINGS = ("allow_model_download", *(name for name, _ in (*_NAMES, *_SIZES, *_FRACTIONS)))
_QUESTIONS = tuple(name for name, _ in (*_VALUES, *_CAPACITY))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 some figure could not be had, 2 bad input, 130 interrupted."""
    given = sys.argv[1:] if argv is None else argv
    arguments = _parser().parse_args([_dashed(argument) for argument in given])
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        say(f"{PROG}: interrupted")
        return INTERRUPTED
    except (InputError, TimingError) as error:  # a shape or data type that cannot be is bad input
        return fail(PROG, error, BAD_INPUT)
    except AISimulateError as error:
        return fail(PROG, error, FAILED)
    finally:
        settle_stderr()


def _run(arguments: argparse.Namespace) -> int:
    phases = _phases(arguments)
    _check_used(arguments, phases)
    from aisimulate.perf.model import PerfModel  # noqa: PLC0415 - a bad command line is told before
    from aisimulate.report.perf import perf_json, perf_text  # noqa: PLC0415 - as above

    model = PerfModel(**_given(arguments, _SETTINGS))
    answers = ask(model, Questions(phases=phases, **_given(arguments, _QUESTIONS)))
    write = perf_json if arguments.format == "json" else perf_text
    code = show(PROG, write(model, answers, operations=hasattr(arguments, "operations")), DONE)
    for problem in answers.problems:
        code = fail(PROG, problem, FAILED)
    return code


def _given(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in names if hasattr(arguments, name)}


def _phases(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Choose what to answer: as told, else what the given lengths speak of, else everything."""
    if arguments.phase is not None:
        phases: tuple[str, ...] = arguments.phase
        return phases
    prefill = any(hasattr(arguments, name) for name in ("isl", "prefix"))
    decode = hasattr(arguments, "context")
    if prefill == decode or hasattr(arguments, "prefill_batch"):
        return PHASES
    return ("prefill" if prefill else "decode", "capacity")


def _check_used(arguments: argparse.Namespace, phases: tuple[str, ...]) -> None:
    """Refuse options that were given and cannot act in the phases."""
    unused = unused_values(vars(arguments), phases)
    if unused:
        named = (f"--{name.replace('_', '-')} (used by {', '.join(USED_BY[name])})" for name in unused)
        raise InputError(f"no effect on {', '.join(phases)}: {'; '.join(named)}")


def _dashed(argument: str) -> str:
    """Let an option be spelt like the field of a payload: `--moe_tp_size`."""
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else argument


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=PROG,
        description="Pass times, KV capacity and data of one engine, straight from the performance model.",
        epilog="VALUES: whole numbers such as 8 or 1,8,64 or 1024..8192 (doubling).",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    engine = parser.add_argument_group("engine (names and defaults of the replay's aic timing)")
    _add(engine, _NAMES, str, "NAME")
    _add(engine, _SIZES, whole_number, "N")
    engine.add_argument(
        "--allow-model-download", action="store_true", help="fetch a model's config.json from Hugging Face"
    )
    questions = parser.add_argument_group("questions (every combination is answered)")
    _add(questions, _VALUES, whole_numbers, "VALUES")
    questions.add_argument(
        "--phase",
        type=some_of(PHASES),
        metavar="NAMES",
        default=None,
        help=f"answer only these of {','.join(PHASES)} (default: what the given lengths speak of)",
    )
    capacity = parser.add_argument_group("KV capacity")
    _add(capacity, _CAPACITY, whole_number, "N")
    _add(capacity, _FRACTIONS, float, "X")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format", type=one_of(("table", "json")), metavar="NAME", default="table", help="table or json"
    )
    output.add_argument("--operations", action="store_true", help="also list every operation")
    return parser


def _add(group: Any, options: Iterable[tuple[str, str]], kind: Any, metavar: str) -> None:  # noqa: ANN401 - argparse's
    for name, text in options:
        flags = (f"--{name.replace('_', '-')}", *_ALIASES.get(name, ()))
        group.add_argument(*flags, dest=name, type=kind, metavar=metavar, help=text)
