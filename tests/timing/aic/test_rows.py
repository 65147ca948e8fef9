"""The interpolation itself, without AI Configurator."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aisimulate.timing.aic.rows import Row, knot_context, knot_index, ramp_ns, ramp_passes


def test_knots_are_every_context_up_to_16_then_8_per_octave() -> None:
    knots = [knot_context(i) for i in range(40)]
    assert knots[:17] == list(range(17))
    assert knots[16:32] == [16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 60]
    assert {1 << e for e in range(25)} <= {knot_context(i) for i in range(1, 200)}
    assert knot_index(1 << 14) == 96


@given(st.integers(0, 1 << 24))
def test_a_context_lies_in_its_segment(context: int) -> None:
    index = knot_index(context)
    assert knot_context(index) <= context < knot_context(index + 1)


def test_a_row_prices_each_knot_once_and_only_when_needed() -> None:
    asked: list[int] = []

    def price_ns(context: int) -> int:
        asked.append(context)
        return 1000 * context

    row = Row(price_ns)
    assert row[knot_index(1000)] == (960, 960_000, 1000, 1024)
    assert row[knot_index(1024)] == (1024, 1_024_000, 1000, 1152)
    assert row[knot_index(1000)] == (960, 960_000, 1000, 1024)
    assert asked == [960, 1024, 1152]


def test_slope_is_rounded_to_whole_ns_and_never_ends_below_zero() -> None:
    width = 128
    assert Row(lambda c: 7_000 + (200 if c > 1024 else 0))[knot_index(1024)][2] == round(200 / width)
    first, first_ns, slope, end = Row(lambda c: 0 if c > 1024 else int(1.6 * width))[knot_index(1024)]
    assert (first, end) == (1024, 1152)
    assert first_ns + slope * width >= 0


@given(st.integers(0, 10**8), st.integers(-(10**4), 10**4), st.integers(1, 5_000), st.floats(0, 1))
def test_ramp_passes_is_minimal(first_ns: int, slope: int, length: int, share: float) -> None:
    slope = max(slope, -(first_ns // length))
    whole = ramp_ns(first_ns, slope, length)
    assert whole == sum(first_ns + slope * i for i in range(length))
    needed = max(1, int(whole * share))
    if needed > whole:
        return
    passes = ramp_passes(first_ns, slope, needed)
    assert 1 <= passes <= length
    assert ramp_ns(first_ns, slope, passes) >= needed
    assert passes == 1 or ramp_ns(first_ns, slope, passes - 1) < needed
