"""Numbers for people: the same style everywhere, thousands separated, never an exponent."""

from __future__ import annotations

import math

_SIGNIFICANT_DIGITS = 4
_ONE_DECIMAL_FROM = 10.0


def number_text(value: float) -> str:
    """Write one decimal, or 4 significant digits below 10."""
    size = abs(value)
    if size >= _ONE_DECIMAL_FROM or size == 0:
        return f"{value:,.1f}"
    decimals = _SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(size))
    return f"{value:.{decimals}f}"


def share_text(share: float) -> str:
    """Write a share (0 to 1) in per cent; a small one never looks like none, nor a large one like all."""
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    return f"{share:.1%}"


def percent_text(error: float, decimals: int) -> str:
    """Write a signed error in per cent; one that rounds to nothing has no sign."""
    text = f"{error:+.{decimals}%}"
    return text if text.strip("+-0.%") else text[1:]
