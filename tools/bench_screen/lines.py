"""What a benchmark prints: a figure, its bound, and whether it holds."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """One figure."""

    what: str
    figure: str
    bound: str
    holds: bool

    def text(self) -> str:
        """Write it out."""
        return f"{self.what:<46} {self.figure:<62} {self.bound:<16} {'' if self.holds else 'MISSED'}".rstrip()


def percent(share: float) -> str:
    """Write a share in per cent."""
    return f"{100 * share:.2f} %"
