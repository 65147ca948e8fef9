"""Types of command-line arguments."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """Read a whole number of at least 0."""
    return _whole(text, 0)


def _whole(text: str, low: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if value < low:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= {low}")
    return value
