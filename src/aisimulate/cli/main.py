"""`aisimulate COMMAND ...`. Only the chosen command is imported, so that --help and errors are instant."""

from __future__ import annotations

import importlib
import sys
from argparse import RawDescriptionHelpFormatter
from typing import TYPE_CHECKING

from aisimulate import __version__
from aisimulate.cli.exit_codes import INTERRUPTED
from aisimulate.cli.parser import OneLineParser
from aisimulate.core.console import say
from aisimulate.core.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

# name -> (module with a `main(argv) -> exit code`, what it answers)
COMMANDS = {
    "spica": ("aisimulate.cli.spica", "find the deployments that serve a workload best"),
    "runs": ("aisimulate.cli.runs", "list, show, export and compare the records of searches"),
    "simulate": ("aisimulate.cli.simulate", "replay a workload on one deployment"),
    "perf": (
        "aisimulate.cli.perf",
        "ask the performance model about one engine: pass times, KV capacity, data",
    ),
    "trace": ("aisimulate.cli.trace", "describe, check or convert a request trace"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 nothing feasible, 2 bad input, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in COMMANDS:
        return _run(COMMANDS[arguments[0]][0], arguments[1:])
    parser = _parser()
    return parser.error(_command_problem(parser.parse_args(arguments).command))


def _run(module: str, arguments: list[str]) -> int:
    try:
        code: int = importlib.import_module(module).main(arguments)
    except KeyboardInterrupt:  # while the command was still being loaded
        say("aisimulate: interrupted")
        return INTERRUPTED
    return code


def _command_problem(name: str | None) -> str:
    if name is None:
        return f"a command is needed: {', '.join(COMMANDS)}"
    return f"unknown command {name!r}{nearest(name, COMMANDS)}"


def _parser() -> OneLineParser:
    commands = "\n".join(f"  {name:<10}{text}" for name, (_, text) in COMMANDS.items())
    parser = OneLineParser(
        prog="aisimulate",
        description="Which LLM-serving deployment should I run for this model, hardware, traffic and SLA?",
        epilog=f"commands:\n{commands}\n\n`aisimulate COMMAND --help` explains a command.",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"aisimulate {__version__}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="what to do (see below)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
