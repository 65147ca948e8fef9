from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisimulate.core.errors import TimingError
from aisimulate.timing import PolynomialTiming
from aisimulate.timing.polynomial import PolynomialTimer, decode_ms, polynomial_timer, prefill_ms
from timing import contract

POOL = 16384 * 64
SPEEDUPS = (1.0, 0.0, 3.0, 1.7, 0.3)


def make(total: int, decode_speedup: float = 1.0) -> PolynomialTimer:
    return PolynomialTimer(total, 1.0, decode_speedup)


@settings(deadline=None)
@given(
    contract.runs(max_context=20_000),
    st.sampled_from([0, 1, 64, 5_000, 200_000, POOL]),
    st.sampled_from(SPEEDUPS),
    st.floats(0, 1.2),
)
def test_contract(run: contract.Run, total: int, speedup: float, share: float) -> None:
    timer = polynomial_timer(total, 1.0, speedup)
    contract.check_run(timer, run)
    contract.check_cut(timer, run, int(share * timer.run_ns(*run)))
    contract.check_rises(timer, run, run.passes)
    assert timer.beside_ns(run.batch, run.context_tokens) == timer.decode_ns(run.batch, run.context_tokens)


@settings(deadline=None)
@given(st.lists(contract.runs(max_passes=20), max_size=5), st.sampled_from([0, 64, 50_000, POOL]))
def test_expansion(many: list[contract.Run], total: int) -> None:
    contract.check_tally(polynomial_timer(total, 1.0, 1.0), many)


@pytest.mark.parametrize("speedup", [1.0, 7.0, 1e9, 1e-4])
@pytest.mark.parametrize("total", [0, 150, 400, 10_000])
def test_cuts_around_every_pass_end(total: int, speedup: float) -> None:
    contract.check_cuts(make(total, speedup), contract.Run(3, 92, 60))


def test_prefill_wrapper_and_pickle() -> None:
    contract.check_prefill_wrapper(make(POOL))
    contract.check_pickle(make(POOL, 3.0), contract.Run(2, 640, 50))


def test_decimal_ties_round_by_the_exact_double() -> None:
    """5,000 prefill tokens cost exactly ...592.5 ns on paper; the double decides upwards."""
    assert make(POOL).prefill_ns(1, 5000, 0) == 102_943_593
    assert make(POOL).prefill_ns(5, 1100, 100) == 102_943_593


@pytest.mark.parametrize(
    ("context_tokens", "total", "ms"),
    [(0, 1000, 5.74), (1000, 1000, 34.01), (5000, 1000, 34.01), (500, 1000, 26.31), (7, 0, 34.01)],
)
def test_decode_values(context_tokens: int, total: int, ms: float) -> None:
    assert make(total).decode_ns(1, context_tokens) == pytest.approx(ms * 1e6, abs=1)


def test_prefill_value() -> None:
    assert prefill_ms(4096) == pytest.approx(4.209989e-7 * 4096**2 + 1.518344e-2 * 4096 + 16.50142, rel=1e-12)
    assert PolynomialTimer(POOL, 2.0, 1.0).prefill_ns(1, 5000, 0) == 51_471_796


def exact_ns(ms: float) -> int:
    return round(Fraction(ms / 1000.0) * 10**9)


@pytest.mark.parametrize("total", [100_000, 131_072, 70_001])
def test_every_table_entry_is_the_exact_rounding(total: int) -> None:
    timer = make(total)
    table = timer.durations_ns(1, 0, total + 5)
    assert table == [exact_ns(decode_ms(tokens, total)) for tokens in range(total + 5)]
    assert table == sorted(table)


@pytest.mark.parametrize("speedup", [3.0, 7.0, 1.7, 0.3, 1e-6])
def test_scaled_table_agrees_with_the_scalar_rule(speedup: float) -> None:
    total = 20_000
    timer = make(total, speedup)
    table = timer.durations_ns(1, 0, total + 5)
    whole = [exact_ns(decode_ms(tokens, total)) for tokens in range(total + 5)]
    assert table == [round(Fraction(ns / 10**9 / speedup) * 10**9) for ns in whole]
    assert table == sorted(table)


def test_sums_beyond_float_precision_are_exact() -> None:
    timer = make(4_000, 1e-6)
    contract.check_run(timer, contract.Run(1, 1, 3_999))


def test_the_table_grows_by_chunks_and_stops_at_the_pool() -> None:
    timer = make(POOL)
    assert len(timer._table) == 0
    timer.run_ns(1, 10, 100)
    assert len(timer._table) == 1 << 13
    timer.run_ns(63, POOL - 630, 100)
    assert len(timer._table) == POOL
    small = make(100)
    small.run_ns(7, 1, 100)
    assert len(small._table) == 100


def test_the_table_stays_empty_for_single_passes_and_wide_batches() -> None:
    timer = make(POOL)
    timer.decode_ns(1, 500_000)
    timer.run_ns(2, 500_000, 8)
    timer.run_ns(64, 10, 10_000)
    assert len(timer._table) == 0


def test_equal_parameters_share_one_timer() -> None:
    assert PolynomialTiming().timer(77, 1.0, 2.0) is PolynomialTiming().timer(77, 1.0, 2.0)


@pytest.mark.parametrize("speedup", [1e-300, 1e-12])
def test_absurd_slowdowns_are_refused(speedup: float) -> None:
    with pytest.raises(TimingError, match="decode_speedup_ratio"):
        make(100, speedup)


@pytest.mark.parametrize("batch", [1, 2, 3, 4])
@pytest.mark.parametrize("speedup", [1.0, 1e-4])
def test_runs_cost_the_same_once_running_sums_are_kept(batch: int, speedup: float) -> None:
    """Sums start after some use and follow the growing table; every way of adding up agrees."""
    total = 60_000
    expected = make(total, speedup).durations_ns(1, 0, total)
    timer = make(total, speedup)
    for longest in (9_000, 20_000, 40_000):
        for start in range(100):
            stop = longest - start
            passes = -(-(stop - start) // batch)
            durations = expected[start : start + passes * batch : batch]
            assert timer.run_ns(batch, start, passes) == sum(durations)
            assert timer.passes_until(batch, start, passes, sum(durations[:-7])) == (
                passes - 7,
                sum(durations[:-7]),
            )
    # Such long durations as a speed-up of 1e-4 gives add up beyond what a float holds.
    kept = [n == batch for n in range(4)] if speedup == 1.0 else [False]
    assert [len(sums) > 40_000 for sums in timer._sums] == kept


@pytest.mark.parametrize("speedup", SPEEDUPS)
def test_one_forward_has_one_fixed_part(speedup: float) -> None:
    timer = polynomial_timer(5_000, 1.0, speedup)
    contract.check_fused(timer, 7, 2_000)
    tokens = timer.prefill_ns(1, 30 + 7, 0)
    attention = timer.decode_ns(7, 2_000) - timer.decode_ns(7, 0)
    assert timer.fused_ns([(10, 20), (5, 25)], 7, 2_000) == tokens + attention
