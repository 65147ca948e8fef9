"""Largest numbers a request may carry, and the check of whole numbers."""

from __future__ import annotations

from aisimulate.core.errors import InputError
from aisimulate.core.shown import show_python

MAX_TOKENS = 2**32 - 1
"""Longest prompt or output, and largest token id (32-bit)."""

MAX_PROMPT_TOKENS = 10_000_000
"""Longest prompt of the formats that only declare lengths: nothing else in such a file bounds it."""

MAX_HASH_ID = 2**64 - 1
"""Largest content id of a trace (64-bit)."""

MAX_INSTANT_MS = 4e12
"""Latest authored instant: 127 years. The clock itself ends at 2**62 ns, some years after that."""


def is_whole(value: object, low: int, high: int) -> bool:
    """Tell whether `value` is an int (no bool, no float) in low..high."""
    return type(value) is int and low <= value <= high


def require_whole(where: str, value: object, low: int, high: int) -> None:
    """Raise InputError, `where` first, unless `value` is an int in low..high."""
    if not is_whole(value, low, high):
        raise InputError(f"{where} {shown(value)}: must be a whole number from {low} to {high}")


def shown(value: object) -> str:
    """Spell an offending value on one line, cut to a readable length."""
    return show_python(value)
