"""The `trace` command: describe, check or convert a request trace (docs/traces.md)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.cli.arguments import token_count
from aisimulate.cli.exit_codes import BAD_INPUT, DONE, FAILED, INTERRUPTED
from aisimulate.cli.output import fail, settle_stderr, show
from aisimulate.cli.parser import OneLineParser
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError, InputError, UnsupportedError
from aisimulate.report.files import check_new, check_writable, write_lines
from aisimulate.report.json_text import json_text
from aisimulate.report.trace_summary import trace_summary
from aisimulate.report.trace_text import counts_text, summary_text
from aisimulate.workload.formats import (
    ACCUMULATING_FORMATS,
    BLANK_FORMATS,
    TRACE_FORMATS,
    check_format,
    load_trace,
    wrong_format_hint,
)
from aisimulate.workload.mooncake_rows import mooncake_rows
from aisimulate.workload.problems import all_problems
from aisimulate.workload.time_doubts import time_doubts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from aisimulate.workload.loaded import LoadedTrace

_PROG = "aisimulate trace"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 could not write, 2 bad input or a trace with problems."""
    arguments = _parser().parse_args(argv)
    prog = f"{_PROG} {arguments.action}"
    try:
        check_format(arguments.trace_format)
        code: int = arguments.run(prog, arguments)
    except KeyboardInterrupt:
        say(f"{prog}: interrupted")
        return INTERRUPTED
    except InputError as error:
        return fail(prog, error, BAD_INPUT)
    except (AISimulateError, OSError) as error:
        return fail(prog, error, FAILED)
    except MemoryError:
        return fail(prog, f"{arguments.files[0]}: does not fit into memory", FAILED)
    finally:
        settle_stderr()
    return code


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=_PROG, description="Describe, check or convert a request trace.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = partial(_add_action, actions)
    add("stats", _stats, "count requests; rates, lengths, and how much of the prompts came before")
    add("validate", _validate, "list what is wrong, one line each; exit with 2 if anything is")
    convert = add("convert", _convert, "write the trace as Mooncake JSON Lines")
    convert.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="where to write it")
    convert.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    return parser


def _add_action(actions: Any, name: str, run: Any, text: str) -> OneLineParser:  # noqa: ANN401 - argparse's
    parser: OneLineParser = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("files", nargs="+", type=Path, metavar="TRACE", help="the trace; gzip is unpacked")
    parser.add_argument(
        "--trace-format",
        default="mooncake",
        metavar="NAME",
        help=f"how to read it (default: %(default)s): {', '.join(TRACE_FORMATS)}",
    )
    parser.add_argument(
        "--trace-block-size",
        type=token_count,
        metavar="TOKENS",
        help="tokens that one content id stands for (default: what the format says, else 512)",
    )
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="what to print (default: %(default)s)"
    )
    parser.set_defaults(run=run)
    return parser


# stats ------------------------------------------------------------------------------------------------


def _stats(prog: str, arguments: argparse.Namespace) -> int:
    trace = _load(arguments)
    summary = trace_summary(trace, arguments.trace_format)
    notes = _remarks(trace, arguments)
    if arguments.format == "json":
        return show(prog, _json(arguments, trace, {**summary, "notes": notes}), DONE)
    _say_notes(notes)
    return show(prog, summary_text(summary), DONE)


# validate ---------------------------------------------------------------------------------------------


def _validate(prog: str, arguments: argparse.Namespace) -> int:
    trace: LoadedTrace | None = None
    with all_problems() as problems:
        try:
            trace = _load(arguments)
        except InputError as error:
            if isinstance(error, UnsupportedError):
                raise
            problems.add(str(error))
    notes = [] if trace is None else _notes(trace, arguments)
    if trace is not None and problems.count:  # a reading that failed says so itself
        notes += _format_notes(arguments)
    for doubt in () if trace is None else trace.doubts:
        problems.add(doubt)
    counts = {} if trace is None else _counts(trace)
    code = BAD_INPUT if problems.count else DONE
    if arguments.format == "json":
        values = {**counts, "problem_count": problems.count, "problems": problems.found, "notes": notes}
        return show(prog, _json(arguments, trace, values), code)
    _say_notes(notes)
    more = problems.count - len(problems.found)
    lines = [*problems.found, *[f"... and {more} more problems"] * bool(more)]
    if not problems.count:
        lines = [f"ok: {counts_text(counts)}"]
    return show(prog, "\n".join([*lines, ""]), code)


# convert ----------------------------------------------------------------------------------------------


def _convert(prog: str, arguments: argparse.Namespace) -> int:
    if arguments.trace_format in ACCUMULATING_FORMATS:
        raise UnsupportedError(
            f"trace format {arguments.trace_format!r} cannot be converted: its prompts contain outputs, "
            "which have no content ids"
        )
    output: Path = arguments.output
    if not arguments.overwrite:
        check_new(output)
    check_writable(output, arguments.files)
    trace = _load(arguments)
    _say_notes(_remarks(trace, arguments))
    write_lines(output, mooncake_rows(trace))
    if not output.is_file():
        return DONE  # a pipe or a device: what it received stays alone
    counts = _counts(trace)
    if arguments.format == "json":
        written = {"output": str(output), "output_trace_block_size": trace.block_tokens}
        return show(prog, _json(arguments, trace, {**counts, **written}), DONE)
    text = f"wrote {counts_text(counts)} to {output}, trace_block_size {trace.block_tokens}\n"
    return show(prog, text, DONE)


# All of them ------------------------------------------------------------------------------------------


def _load(arguments: argparse.Namespace) -> LoadedTrace:
    return load_trace(arguments.files, arguments.trace_format, arguments.trace_block_size)


def _notes(trace: LoadedTrace, arguments: argparse.Namespace) -> list[str]:
    untimed = (
        [] if trace.untimed is None else [f"{trace.untimed} has no time: replays need a concurrency cap"]
    )
    return trace.notes + untimed + time_doubts(trace.sessions, arguments.trace_format)


def _format_notes(arguments: argparse.Namespace) -> list[str]:
    hint = wrong_format_hint(arguments.files, arguments.trace_format, arguments.trace_block_size)
    return [f"{arguments.files[0]}:{hint}"] * bool(hint)


def _remarks(trace: LoadedTrace, arguments: argparse.Namespace) -> list[str]:
    return trace.doubts + _notes(trace, arguments)


def _say_notes(notes: list[str]) -> None:
    for note in notes:
        say(f"note: {note}")


def _counts(trace: LoadedTrace) -> dict[str, int]:
    turns = [turn for session in trace.sessions for turn in session.turns]
    return {
        "requests": len(turns),
        "sessions": len(trace.sessions),
        "input_tokens": sum(turn.input_tokens for turn in turns),
        "output_tokens": sum(turn.output_tokens for turn in turns),
    }


def _json(arguments: argparse.Namespace, trace: LoadedTrace | None, values: dict[str, Any]) -> str:
    blank = trace is None or arguments.trace_format in BLANK_FORMATS
    head = {
        "files": [str(path) for path in arguments.files],
        "trace_format": arguments.trace_format,
        "trace_block_size": None if blank or trace is None else trace.block_tokens,
    }
    return json_text({**head, **values})
