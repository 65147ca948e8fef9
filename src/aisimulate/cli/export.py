"""The `export` command: a candidate of a recorded search as files that start it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.exit_codes import DONE
from aisimulate.cli.guarded import guarded
from aisimulate.cli.output import show
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.ranges import one_of
from aisimulate.cli.recorded import (
    add_run_argument,
    find_candidate,
    input_files,
    named_run,
    payload_of,
)
from aisimulate.core.console import say
from aisimulate.core.errors import InputError
from aisimulate.report.export.deployment import Export
from aisimulate.report.export.targets import TARGETS, export_candidate
from aisimulate.report.files import check_new, check_writable, write_file
from aisimulate.spica.run_facts import recorded_model_folder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from aisimulate.spica.recorded_run import RecordedRun

_PROG = "aisimulate export"
_REPLAY = "replay"
"""Not a way to start a candidate, but to see it at work: `aisimulate simulate` takes this payload."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 failed, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    return guarded(_PROG, lambda: _run(arguments))


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG,
        description="Write what starts a candidate: commands, or files for containers and Kubernetes; "
        "or the payload that replays it.",
        allow_abbrev=False,
    )
    add_run_argument(parser)
    parser.add_argument(
        "candidate", metavar="CANDIDATE", help="its number on the result page and in `runs show`, or `best`"
    )
    targets = (*TARGETS, _REPLAY)
    parser.add_argument(
        "--to", required=True, type=one_of(targets), metavar="TARGET", help=", ".join(targets)
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write the files there instead of to stdout"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace files of DIR that hold something else"
    )
    return parser


def _run(arguments: argparse.Namespace) -> int:
    run = named_run(arguments.run_name)
    if arguments.to == _REPLAY:
        export = _payload(run, arguments.candidate)
    else:
        _, candidate = find_candidate(run, arguments.candidate)
        export = export_candidate(candidate.config, run.config.goal, arguments.to, _model_folder(run))
    for remark in export.remarks:
        say(f"{_PROG}: not expressed: {remark}")
    if arguments.output is not None:
        return _write(export, arguments.output, input_files(run), overwrite=arguments.overwrite)
    if arguments.overwrite:
        raise InputError("--overwrite: has no effect without --output")
    return show(_PROG, _joined(export), DONE)


def _model_folder(run: RecordedRun) -> str | None:
    return recorded_model_folder(run.facts, run.config.search_space.model_name)


def _payload(run: RecordedRun, name: str) -> Export:
    """Write the replay of a candidate as a payload, with the records of its requests and decisions."""
    payload = payload_of(run, name)
    payload["spec"]["record_per_request"] = True
    return Export({"replay.json": json.dumps(payload, indent=2, allow_nan=False) + "\n"})


def _joined(export: Export) -> str:
    """Put all files into one text; each begins with its name where there are several."""
    if len(export.files) == 1:
        return next(iter(export.files.values()))
    return "\n".join(f"# ---- {name} ----\n{text}" for name, text in export.files.items())


def _write(export: Export, folder: Path, inputs: Sequence[Path], *, overwrite: bool) -> int:
    if folder.is_file():
        raise InputError(f"--output {folder}: is a file, expected a directory")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {folder}: cannot be made: {error.strerror or error}") from error
    paths = {folder / name: text for name, text in export.files.items()}
    for path, text in paths.items():
        check_writable(path, inputs)
        if not overwrite and not _holds(path, text):
            check_new(path)
    for path, text in paths.items():
        write_file(path, text)
        if path.suffix == ".sh":
            path.chmod(0o755)
    return show(_PROG, "".join(f"wrote {path}\n" for path in paths), DONE)


def _holds(path: Path, text: str) -> bool:
    """Whether a file is there and has this text, so that writing it again loses nothing."""
    try:
        return path.is_file() and path.read_bytes() == text.encode()
    except OSError:
        return False
