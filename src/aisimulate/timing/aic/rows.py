"""Decode times of one batch size, tabulated over context (spec 04 section 5).

AI Configurator is smooth in context but jagged in batch, so a row belongs to one exact batch and is
interpolated only along context: between knots (1 token, then 8 per octave) by a whole-ns line, whose
sum over any stretch is a closed form.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# First context, ns there, ns per further token, first context of the next segment.
Segment = tuple[int, int, int, int]


def knot_index(context: int) -> int:
    """Index of the segment that holds `context`: every context up to 16, then 8 segments per octave."""
    shift = context.bit_length() - 4
    return (shift << 3) + (context >> shift) if shift > 0 else context


def knot_context(index: int) -> int:
    """First context of a segment; the inverse of `knot_index` at the knots."""
    return ((index & 7) + 8) << ((index >> 3) - 1) if index >= 16 else index


class Row(dict[int, Segment]):
    """Segments by index, each made when it is first looked up. `price_ns` prices one context of the batch."""

    __slots__ = ("_knots_ns", "_price_ns")

    def __init__(self, price_ns: Callable[[int], int]) -> None:
        super().__init__()
        self._price_ns = price_ns
        self._knots_ns: dict[int, int] = {}

    def __missing__(self, index: int) -> Segment:
        first, end = knot_context(index), knot_context(index + 1)
        first_ns, end_ns, width = self._knot_ns(first), self._knot_ns(end), end - first
        # The second term keeps a steep fall from ending below zero after rounding.
        slope = max(round((end_ns - first_ns) / width), -(first_ns // width))
        segment = self[index] = (first, first_ns, slope, end)
        return segment

    def _knot_ns(self, context: int) -> int:
        known = self._knots_ns.get(context)
        if known is None:
            known = self._knots_ns[context] = self._price_ns(context)
        return known


class Rows(dict[int, Row]):
    """Rows by batch, each made when it is first looked up. `price_ns` prices one (batch, context)."""

    __slots__ = ("_price_ns",)

    def __init__(self, price_ns: Callable[[int, int], int]) -> None:
        super().__init__()
        self._price_ns = price_ns

    def __missing__(self, batch: int) -> Row:
        price_ns = self._price_ns
        row = self[batch] = Row(lambda context: price_ns(batch, context))
        return row


def ramp_ns(first_ns: int, slope: int, passes: int) -> int:
    """Sum of `passes` durations that start at `first_ns` and change by `slope`."""
    return passes * first_ns + slope * (passes * (passes - 1) >> 1)


def ramp_passes(first_ns: int, slope: int, needed_ns: int) -> int:
    """Smallest number of passes of a ramp that sum up to `needed_ns` > 0; the ramp must get there.

    The root of the quadratic is exact to a pass or so in floats; whole numbers settle it.
    """
    linear = first_ns - slope / 2
    root = sqrt(max(linear * linear + 2.0 * slope * needed_ns, 0.0))
    passes = max(1, ceil(2.0 * needed_ns / (linear + root)))
    while ramp_ns(first_ns, slope, passes) < needed_ns:
        passes += 1
    while passes > 1 and ramp_ns(first_ns, slope, passes - 1) >= needed_ns:
        passes -= 1
    return passes
