from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.core.errors import InputError
from aisimulate.timing import FixedTiming
from timing import contract

TIMER = FixedTiming(20.5, 7.25).timer(0, 1.0, 1.0)


@given(contract.runs(), st.integers(-5, 10**10))
def test_contract(run: contract.Run, elapsed_ns: int) -> None:
    contract.check_run(TIMER, run)
    contract.check_cut(TIMER, run, elapsed_ns)
    contract.check_rises(TIMER, run, run.passes)
    assert TIMER.beside_ns(run.batch, run.context_tokens) == TIMER.decode_ns(run.batch, run.context_tokens)


@given(st.lists(contract.runs(max_passes=20), max_size=5))
def test_expansion(many: list[contract.Run]) -> None:
    contract.check_tally(TIMER, many)


def test_cuts_around_every_pass_end() -> None:
    contract.check_cuts(TIMER, contract.Run(3, 90, 12))
    contract.check_cuts(FixedTiming(1.0, 0.0).timer(0, 1.0, 1.0), contract.Run(3, 90, 12))


def test_prefill_wrapper_and_pickle() -> None:
    contract.check_prefill_wrapper(TIMER)
    contract.check_pickle(TIMER, contract.Run(2, 64, 5))


def test_values_and_speedups() -> None:
    assert TIMER.prefill_ns(4, 100, 0) == 20_500_000
    assert TIMER.decode_ns(4, 100) == 7_250_000
    faster = FixedTiming(20.5, 7.25).timer(0, 3.0, 7.0)
    assert faster.prefill_ns(1, 1, 0) == 6_833_333
    assert faster.decode_ns(1, 1) == 1_035_714
    unscaled = FixedTiming(20.5, 7.25).timer(0, 0.0, 0.0)
    assert (unscaled.prefill_ns(1, 1, 0), unscaled.decode_ns(1, 1)) == (20_500_000, 7_250_000)


@pytest.mark.parametrize("bad", [-1.0, math.inf, math.nan])
def test_times_must_be_finite_and_not_negative(bad: float) -> None:
    with pytest.raises(InputError, match=r"timing_model\.prefill_ms"):
        FixedTiming(bad, 1.0)
    with pytest.raises(InputError, match=r"timing_model\.decode_ms"):
        FixedTiming(1.0, bad)


def test_one_forward_lasts_as_long_as_the_longer() -> None:
    contract.check_fused(TIMER, 3, 300)
    assert TIMER.fused_ns([(0, 5), (3, 9)], 0, 0) == 20_500_000
    assert TIMER.fused_ns([(0, 5)], 4, 100) == 20_500_000
    assert FixedTiming(2.0, 7.25).timer(0, 1.0, 2.0).fused_ns([(0, 5)], 4, 100) == 3_625_000
