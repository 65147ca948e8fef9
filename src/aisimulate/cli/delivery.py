"""Leaving a result in a file that was asked for and on stdout; neither waits for the other to succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.cli.exit_codes import DONE, FAILED
from aisimulate.cli.output import fail, show
from aisimulate.report.files import WriteError, write_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def deliver(
    prog: str,
    text: str,
    path: Path | None,
    document: Callable[[], str],
    option: str = "--output",
    code: int = DONE,
) -> int:
    """Write what `document` gives to `path`, which `option` named, if it did, and `text` to stdout.

    Return `code`, or FAILED when one of them could not be written.
    """
    problem = None
    if path is not None:
        try:
            write_file(path, document(), option)
        except WriteError as error:
            problem = error
    code = show(prog, text, code)
    return code if problem is None else fail(prog, problem, FAILED)
