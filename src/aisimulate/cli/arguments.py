"""Types of command-line arguments."""

from __future__ import annotations

import argparse
import math

_MOST_TOKENS = 2**32 - 1
_MOST_DIGITS = 100
_LAST_PORT = 65535


def token_count(text: str) -> int:
    """Read a number of tokens, from 1 to what 32 bits hold."""
    value = positive(text)
    if value > _MOST_TOKENS:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {_MOST_TOKENS}")
    return value


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """Read a whole number of at least 0."""
    return _whole(text, 0)


def share(text: str) -> float:
    """Read a number above 0 and below 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and below 1")
    return value


def price(text: str) -> float:
    """Read a price: a finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number >= 0")
    return value


def add_price_option(parser: argparse.ArgumentParser) -> None:
    """Let a command take what a GPU costs, as `arguments.gpu_hour_price`."""
    parser.add_argument(
        "--gpu-hour-price", type=price, metavar="X", help="also show what a million output tokens cost"
    )


def port(text: str) -> int:
    """Read a TCP port, from 0 (any free one) to 65535."""
    value = natural(text)
    if value > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {_LAST_PORT}")
    return value


def _whole(text: str, low: int) -> int:
    is_number = text.isascii() and text.removeprefix("+").isdecimal()
    value = int(text) if is_number and len(text) <= _MOST_DIGITS else low - 1
    if value < low:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= {low}")
    return value
