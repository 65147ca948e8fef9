"""`aisimulate COMMAND ...`. Only the chosen command is imported, so that --help and errors are instant.

Nothing else is imported with this module: Ctrl-C is one line from the first moments on.
"""

from __future__ import annotations

import sys

from aisimulate import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import NoReturn

    from aisimulate.cli.parser import OneLineParser

# name -> (module with a `main(argv) -> exit code`, what it answers)
COMMANDS = {
    "init": ("aisimulate.cli.init", "write a first search file for your model, GPUs, traffic and SLA"),
    "spica": ("aisimulate.cli.spica", "find the deployments that serve a workload best"),
    "screen": ("aisimulate.cli.screen", "estimate every deployment of a search by formulas, in seconds"),
    "recommend": ("aisimulate.cli.recommend", "the same by another name"),
    "runs": ("aisimulate.cli.runs", "list, show, export and compare the records of searches"),
    "report": ("aisimulate.cli.report", "write the result page of a search, one HTML file"),
    "export": ("aisimulate.cli.export", "write what starts a candidate: commands, containers, Kubernetes"),
    "simulate": ("aisimulate.cli.simulate", "replay a workload on one deployment"),
    "whatif": (
        "aisimulate.cli.whatif",
        "tell what a result hangs on: replays with one assumption changed",
    ),
    "compare": ("aisimulate.cli.compare", "set the result of a benchmark beside that of a simulation"),
    "calibrate": ("aisimulate.cli.calibrate", "fit pass times to a log of requests of your own"),
    "perf": (
        "aisimulate.cli.perf",
        "ask the performance model about one engine: pass times, KV capacity, data",
    ),
    "doctor": ("aisimulate.cli.doctor", "tell what this installation has, and whether it can work"),
    "completion": ("aisimulate.cli.completion", "print what lets a shell complete this command line"),
    "trace": ("aisimulate.cli.trace", "describe, check or convert a request trace"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 nothing feasible, 2 bad input, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments and arguments[0] in COMMANDS:
            return _run(COMMANDS[arguments[0]][0], arguments[1:])
        _complain(arguments)
    except KeyboardInterrupt:  # while the command was still being loaded
        from aisimulate.cli.exit_codes import INTERRUPTED  # noqa: PLC0415 - see above
        from aisimulate.core.console import say  # noqa: PLC0415

        say("aisimulate: interrupted")
        return INTERRUPTED


def _run(module: str, arguments: list[str]) -> int:
    from aisimulate.cli.termination import cleaning_up  # noqa: PLC0415 - see above

    with cleaning_up():
        code: int = _load(module).main(arguments)
    return code


def _load(module: str) -> ModuleType:
    """Import a command; an interrupt comes out as itself, also where Python 3.11 wraps it into an error."""
    import importlib  # noqa: PLC0415 - see above

    try:
        return importlib.import_module(module)
    except RuntimeError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise


def _complain(arguments: list[str]) -> NoReturn:
    """Say what the command line lacks, or print the help or the version; then exit."""
    parser = _parser()
    parser.error(_command_problem(parser.parse_args(arguments).command))


def _command_problem(name: str | None) -> str:
    from aisimulate.core.errors import nearest  # noqa: PLC0415 - see above

    if name is None:
        return f"a command is needed: {', '.join(COMMANDS)}"
    return f"unknown command {name!r}{nearest(name, COMMANDS)}"


def _parser() -> OneLineParser:
    from argparse import RawDescriptionHelpFormatter  # noqa: PLC0415 - see above

    from aisimulate.cli.parser import OneLineParser  # noqa: PLC0415

    commands = "\n".join(f"  {name:<11}{text}" for name, (_, text) in COMMANDS.items())
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
