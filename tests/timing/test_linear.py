from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisimulate.core.errors import InputError, TimingError
from aisimulate.timing import LinearTiming
from timing import contract

# Steps of a run of one are 0.13 ns, so that most passes of a run are rounded alike and some are not.
TIMING = LinearTiming(4.5, 0.0625, 0.031, 0.00000013, 0.0125)
TIMER = TIMING.timer(0, 1.0, 1.0)

COEFFICIENTS = st.builds(
    LinearTiming, *(st.floats(0, most) for most in (20.0, 1.0, 0.5)), st.floats(0, 1e-3), st.floats(0, 0.5)
)


@settings(deadline=None)
@given(contract.runs(), COEFFICIENTS, st.sampled_from([0.0, 1.0, 3.0, 0.3]), st.floats(0, 1.2))
def test_contract(run: contract.Run, timing: LinearTiming, speedup: float, share: float) -> None:
    timer = timing.timer(0, 1.0, speedup)
    contract.check_run(timer, run)
    contract.check_cut(timer, run, int(share * timer.run_ns(*run)))


@given(st.lists(contract.runs(max_passes=20), max_size=5))
def test_expansion(many: list[contract.Run]) -> None:
    contract.check_tally(TIMER, many)


@pytest.mark.parametrize(
    "timing", [TIMING, LinearTiming(0.0, 1.0, 0.0, 0.25), LinearTiming(0.0, 1.0, 0.0, 0.0)]
)
def test_cuts_around_every_pass_end(timing: LinearTiming) -> None:
    contract.check_cuts(timing.timer(0, 1.0, 1.0), contract.Run(3, 90, 60))


def test_a_very_long_run_is_still_the_sum_of_its_passes() -> None:
    run = contract.Run(7, 123_456_789, 1_000_000)
    assert TIMER.run_ns(*run) == sum(TIMER.durations_ns(*run))


def test_prefill_wrapper_and_pickle() -> None:
    contract.check_prefill_wrapper(TIMER)
    contract.check_pickle(TIMING.timer(0, 2.0, 3.0), contract.Run(2, 640, 50))


def test_values() -> None:
    assert TIMER.prefill_ns(2, 100, 20) == 4_500_000 + 160 * 62_500
    assert TIMER.decode_ns(3, 3000) == 4_500_000 + 3 * 31_000 + round(3000 * 0.13)
    assert TIMER.beside_ns(3, 3000) == 3 * (31_000 + 12_500) + round(3000 * 0.13)
    assert TIMER.fused_ns([(0, 100), (60, 100)], 3, 3000) == TIMER.prefill_ns(1, 140, 0) + TIMER.beside_ns(
        3, 3000
    )
    contract.check_fused(TIMER, 3, 300)


def test_speedups_divide_the_coefficients() -> None:
    faster = TIMING.timer(0, 2.0, 4.0)
    assert faster.prefill_ns(1, 80, 0) == TIMER.prefill_ns(1, 80, 0) // 2
    assert faster.decode_ns(1, 1) == math.floor((4_500_000 + 31_000 + 0.13) / 4 + 0.5)
    with pytest.raises(TimingError, match="too long to represent"):
        LinearTiming(9e12, 0.0, 0.0, 0.0).timer(0, 1e-6, 1e-6)


@pytest.mark.parametrize("bad", [-1.0, math.inf, math.nan])
def test_coefficients_must_be_finite_and_not_negative(bad: float) -> None:
    with pytest.raises(InputError, match=r"timing_model\.context_token_ms"):
        LinearTiming(1.0, 1.0, 1.0, bad)
