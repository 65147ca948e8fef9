"""Lines for the user on stderr, worth less than the work they speak of; and streams that nobody reads."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO


def say(text: str) -> None:
    """Write one line to stderr; a full, broken or closed stderr loses it."""
    if sys.stderr is None:
        return  # print() would fall back to stdout
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def mute(stream: TextIO) -> None:
    """Lead `stream` nowhere: what it still buffers would fail again when the interpreter ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
