"""Lines for the user on stderr. They are worth less than the work they speak of, so they never end it."""

from __future__ import annotations

import sys
from contextlib import suppress


def say(text: str) -> None:
    """Write one line to stderr; a full, broken or closed stderr loses it."""
    if sys.stderr is None:
        return  # print() would fall back to stdout
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
