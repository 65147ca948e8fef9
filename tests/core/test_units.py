"""Whole-nanosecond time: each rounding rule against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.core.units import clock_ns, common_interval_s, duration_ns, round_half_away, scaled_ns, to_ms
from aisimulate.timing.polynomial import PolynomialTiming, prefill_ms

MILLIS = st.floats(0, 9e12, allow_nan=False) | st.integers(0, 10**12).map(lambda twice: twice * 5e-7)
MANY_TOKENS = 2**52 + 1


def exactly(ms: float) -> int:
    """The double `ms / 1000` in ns without any further error; Python rounds a fraction half to even."""
    return round(Fraction(ms / 1000.0) * 10**9)


@given(MILLIS)
def test_a_duration_is_the_exact_double_of_its_seconds_ties_to_even(ms):
    assert duration_ns(ms) == exactly(ms)


@pytest.mark.parametrize(
    ("ms", "ns", "by_product"),
    [
        (102.9435925, 102_943_593, 102_943_592),  # prefill of 5,000 tokens
        (1552.2789925, 1_552_278_993, 1_552_278_992),  # prefill of 45,000 tokens
        (0.1658855, 165_885, 165_886),
        (3.5e-06, 3, 4),
        (7.5, 7_500_000, 7_500_000),
        (0.0, 0, 0),
    ],
)
def test_decimal_ties_of_a_duration_are_decided_by_its_seconds(ms, ns, by_product):
    assert duration_ns(ms) == ns
    assert round(ms * 1e6) == by_product


def test_a_duration_of_many_years_is_exact_too():
    ms = 8_999_999_999_999.937  # its product with 1e6 is rounded to a multiple of 1024
    assert duration_ns(ms) == exactly(ms)


@given(st.integers(0, 10**12), st.floats(1e-3, 1e3))
def test_a_scaled_duration_is_rounded_once_more(ns, speedup):
    assert scaled_ns(ns, speedup) == (ns if speedup == 1 else exactly_scaled(ns, speedup))


def exactly_scaled(ns: int, speedup: float) -> int:
    return round(Fraction(ns / 10**9 / speedup) * 10**9)


@pytest.mark.parametrize("unscaled", [0, 0.0, 1, 1.0])
def test_a_ratio_of_zero_or_one_leaves_a_duration_alone(unscaled):
    assert scaled_ns(102_943_593, unscaled) == 102_943_593


@pytest.mark.parametrize(("ns", "speedup", "expected"), [(10, 3.0, 3), (5, 2.0, 3), (10**9, 0.5, 2 * 10**9)])
def test_scaling(ns, speedup, expected):
    assert scaled_ns(ns, speedup) == expected


@given(MILLIS)
def test_an_instant_is_the_nearest_nanosecond_ties_to_even(ms):
    assert clock_ns(ms) == round(Fraction(ms) * 10**6)


@pytest.mark.parametrize(
    ("ms", "ns"),
    [
        (7, 7_000_000),
        (0, 0),
        (2**60 + 1, (2**60 + 1) * 10**6),
        (7.0, 7_000_000),
        (2.0**-7, 7812),  # 7812.5
        (3 * 2.0**-7, 23438),  # 23437.5
        (0.1, 100_000),
    ],
)
def test_an_instant_may_be_whole_or_not(ms, ns):
    assert clock_ns(ms) == ns
    assert type(clock_ns(ms)) is int


@given(st.integers(0, 2**40))
def test_the_prefill_polynomial_is_rounded_by_the_same_rule(tokens):
    timer = PolynomialTiming().timer(1 << 20, 1.0, 1.0)
    assert timer.prefill_ns(1, tokens, 0) == (exactly(prefill_ms(tokens)) if tokens else 0)


def test_a_prefill_of_5000_tokens_is_a_decimal_tie():
    assert duration_ns(prefill_ms(5000)) == 102_943_593


@pytest.mark.parametrize(
    ("ns", "ms"), [(0, 0.0), (1, 1e-6), (1_500_000, 1.5), (3_546_869_000_000, 3_546_869.0)]
)
def test_nanoseconds_become_milliseconds(ns, ms):
    assert to_ms(ns) == ms


@given(st.floats(0, 1e15, allow_nan=False) | st.integers(0, 10**6).map(lambda twice: twice / 2))
def test_halves_round_away_from_zero(value):
    exact = Fraction(value)
    rounded = round_half_away(value)
    assert type(rounded) is int
    assert exact - Fraction(1, 2) < rounded <= exact + Fraction(1, 2)


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        (0.0, 0),
        (0.5, 1),
        (1.5, 2),
        (2.5, 3),
        (0.49999999999999994, 0),  # adding 0.5 gives 1.0
        (1.4999999999999998, 1),
        (float(MANY_TOKENS), MANY_TOKENS),  # adding 0.5 gives the next even number
        (3, 3),
    ],
)
def test_rounding_next_to_a_half(value, whole):
    assert round_half_away(value) == whole


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [(5, 180, 5), (2.5, 180.5, 0.5), (5.0, 180.1, 0.1), (0.1, 0.3, 0.1), (1e9, 0.001, 0.001)],
)
def test_a_common_interval_is_that_of_the_numbers_as_written(first, second, common):
    assert common_interval_s(first, second) == common_interval_s(second, first) == common
