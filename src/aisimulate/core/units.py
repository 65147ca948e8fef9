"""Whole-nanosecond time. Every duration is rounded once, by the rules here, and never again."""

from __future__ import annotations

import math
from fractions import Fraction

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

# Adding and subtracting 1.5 * 2**52 rounds a float of moderate size to the nearest integer.
_ROUNDER = 6755399441055744.0
_FAST_NS = 1e11


def duration_ns(ms: float) -> int:
    """Round a duration in ms to whole ns: the exact value of the double `ms / 1000`, ties to even.

    `round(ms * 1e6)` differs on decimal ties, which round token counts hit (spec 01 section 2.4).
    The fast path is taken when the product, exact to 1e-4 up to `_FAST_NS`, is clearly not near a tie.
    """
    scaled = ms * 1e6
    nearest = (scaled + _ROUNDER) - _ROUNDER
    if -0.4999 < scaled - nearest < 0.4999 and scaled < _FAST_NS:
        return int(nearest)
    return _exact_ns(ms / 1000.0)


def _exact_ns(seconds: float) -> int:
    numerator, denominator = seconds.as_integer_ratio()
    quotient, remainder = divmod(numerator * NS_PER_S, denominator)
    twice = 2 * remainder
    if twice > denominator or (twice == denominator and quotient & 1):
        quotient += 1
    return quotient


def scaled_ns(ns: int, speedup: float) -> int:
    """Divide a whole-ns duration by `speedup` and round again (0 and 1 mean unscaled, spec 01 1.1)."""
    if speedup in (0.0, 1.0):
        return ns
    return _exact_ns(ns / NS_PER_S / speedup)


def clock_ns(ms: float) -> int:
    """Place an authored instant (ms) on the clock: nearest whole ns, ties to even."""
    if float(ms).is_integer():  # `int.is_integer` is not in Python 3.11
        return int(ms) * NS_PER_MS
    return round(Fraction(ms) * NS_PER_MS)


def to_ms(ns: int) -> float:
    """Convert whole ns to float ms."""
    return ns / NS_PER_MS


def round_half_away(value: float) -> int:
    """Round a non-negative number half away from zero (`round` would give half to even).

    Exact: adding 0.5 first would round up the number just below a half, and odd numbers above 2**52.
    """
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)


def common_interval_s(first_s: float, second_s: float) -> float:
    """Give the greatest interval that divides both as they are written: 0.1 is a tenth, not its double."""
    first, second = Fraction(str(first_s)), Fraction(str(second_s))
    scale = math.lcm(first.denominator, second.denominator)
    return float(Fraction(math.gcd(int(first * scale), int(second * scale)), scale))
