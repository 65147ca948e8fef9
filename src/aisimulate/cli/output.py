"""What a command leaves on its standard streams, also when they are full, closed or no longer read."""

from __future__ import annotations

import sys

from aisimulate.cli.exit_codes import FAILED
from aisimulate.core.console import mute, say


def fail(prog: str, message: object, code: int) -> int:
    """Say `prog: error: message` on one line of stderr; return `code`."""
    say(f"{prog}: error: {' '.join(str(message).split())}")
    return code


def show(prog: str, text: str, code: int) -> int:
    """Write `text` to stdout, unless it is empty; return `code`.

    When stdout cannot take it, say so on one line of stderr and return FAILED. A reader that has gone
    (`| head`) saw what it wanted, so that is no failure.
    """
    try:
        if text:
            _write(text)
    except BrokenPipeError:
        mute(sys.stdout)
    except OSError as error:
        if sys.stdout is not None:
            mute(sys.stdout)
        return fail(prog, f"could not write to stdout: {error.strerror or error}", FAILED)
    return code


def settle_stderr() -> None:
    """Drop what a full or broken stderr still holds; else it would spoil the exit code of the process."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        mute(sys.stderr)


def _write(text: str) -> None:
    if sys.stdout is None:
        raise OSError("it is closed")
    sys.stdout.write(text)
    sys.stdout.flush()
