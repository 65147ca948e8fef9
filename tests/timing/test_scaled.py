from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisimulate.core.errors import InputError
from aisimulate.timing import FixedTiming, LinearTiming, PolynomialTiming, ScaledTiming
from timing import contract

POOL = 50_000
INNER = [FixedTiming(20.5, 7.25), PolynomialTiming(), LinearTiming(4.5, 0.0625, 0.031, 0.00013, 0.0125)]
SPANS = [(100, 612), (0, 64)]


@settings(deadline=None)
@given(
    contract.runs(),
    st.sampled_from(INNER),
    st.sampled_from([0.5, 1.0, 1.17, 3.0]),
    st.sampled_from([0.5, 1.0, 1.17, 3.0]),
    st.booleans(),
    st.floats(0, 1.2),
)
def test_contract(run: contract.Run, inner, prefill: float, decode: float, half: bool, share: float) -> None:
    timer = ScaledTiming(inner, prefill, decode, half).timer(POOL, 1.0, 1.0)
    contract.check_run(timer, run)
    contract.check_cut(timer, run, int(share * timer.run_ns(*run)))
    contract.check_tally(timer, [run])


@pytest.mark.parametrize("inner", INNER)
def test_factors_of_one_change_nothing(inner) -> None:
    assert ScaledTiming(inner).timer(POOL, 1.0, 2.0) is inner.timer(POOL, 1.0, 2.0)


@pytest.mark.parametrize("inner", INNER)
def test_each_kind_of_pass_goes_by_its_own_factor(inner) -> None:
    plain, scaled = inner.timer(POOL, 1.0, 1.0), ScaledTiming(inner, 2.0, 3.0).timer(POOL, 1.0, 1.0)
    assert scaled.prefill_ns(2, 300, 20) == pytest.approx(2 * plain.prefill_ns(2, 300, 20), abs=2)
    assert scaled.beside_ns(3, 300) == pytest.approx(2 * plain.beside_ns(3, 300), abs=2)
    assert scaled.fused_ns(SPANS, 3, 300) == pytest.approx(2 * plain.fused_ns(SPANS, 3, 300), abs=4)
    assert scaled.decode_ns(3, 300) == pytest.approx(3 * plain.decode_ns(3, 300), abs=2)
    assert scaled.run_ns(3, 300, 50) == pytest.approx(3 * plain.run_ns(3, 300, 50), abs=150)


@pytest.mark.parametrize("inner", INNER)
def test_half_is_the_mean_of_two_forwards_and_one(inner) -> None:
    plain = inner.timer(POOL, 1.0, 1.0)
    half = ScaledTiming(inner, half=True).timer(POOL, 1.0, 1.0)
    apart = plain.prefill_ns(2, 338, 50) + plain.beside_ns(3, 300)
    assert half.fused_ns(SPANS, 3, 300) == (apart + plain.fused_ns(SPANS, 3, 300)) // 2
    assert half.fused_ns(SPANS, 0, 0) == (plain.prefill_ns(2, 338, 50) + plain.fused_ns(SPANS, 0, 0)) // 2
    assert half.decode_ns(3, 300) == plain.decode_ns(3, 300)


def test_ratios_and_factors_act_together() -> None:
    timer = ScaledTiming(FixedTiming(20.0, 10.0), 2.0, 3.0).timer(0, 4.0, 5.0)
    assert (timer.prefill_ns(1, 1, 0), timer.decode_ns(1, 1)) == (10_000_000, 6_000_000)
    unscaled = ScaledTiming(FixedTiming(20.0, 10.0), 2.0, 3.0).timer(0, 0.0, 0.0)
    assert (unscaled.prefill_ns(1, 1, 0), unscaled.decode_ns(1, 1)) == (40_000_000, 30_000_000)


def test_pickle() -> None:
    timer = ScaledTiming(PolynomialTiming(), 1.5, 1.25, half=True).timer(POOL, 1.0, 1.0)
    contract.check_pickle(timer, contract.Run(2, 640, 50))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_factors_must_be_finite_and_above_zero(bad: float) -> None:
    with pytest.raises(InputError, match="decode_scale"):
        ScaledTiming(FixedTiming(1.0, 1.0), 1.0, bad)
