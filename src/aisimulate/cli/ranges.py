"""Option values of the command line that argparse has no type for; a bad one is told in one line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from aisimulate.core.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DOUBLING = ".."


def whole_numbers(text: str) -> tuple[int, ...]:
    """Read `8`, `1,8,64` or `1024..8192` (doubling, the last value included), or a list of those."""
    values = [value for part in text.split(",") for value in _part(part)]
    return tuple(dict.fromkeys(values))


def whole_number(text: str) -> int:
    """Read one whole number that is not negative."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


class OneOf:
    """A type that takes one of the legal names and suggests the nearest one."""

    def __init__(self, legal: Sequence[str]) -> None:
        self.legal = tuple(legal)

    def __call__(self, text: str) -> str:
        """Return a legal name. Raises ArgumentTypeError for another."""
        if text not in self.legal:
            rule = f"{text!r} is not one of {', '.join(self.legal)}"
            raise argparse.ArgumentTypeError(f"{rule}{nearest(text, self.legal)}")
        return text


def one_of(legal: Sequence[str]) -> OneOf:
    """Give a type that takes one of the legal names."""
    return OneOf(legal)


def some_of(legal: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Give a type that takes legal names, separated by commas."""
    read = one_of(legal)
    return lambda text: tuple(dict.fromkeys(map(read, text.split(","))))


def _part(text: str) -> list[int]:
    first, doubling, last = text.partition(_DOUBLING)
    low, high = whole_number(first), whole_number(last if doubling else first)
    if high < low or (doubling and not low):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range from a low to a high number above 0")
    values = [low]
    while values[-1] * 2 < high:
        values.append(values[-1] * 2)
    return values if high == low else [*values, high]
