"""Pooled gaps against the plain list of all of them."""

from __future__ import annotations

import math
import tracemalloc
from array import array
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisimulate.engine.gap_log import PASS_WIDTH, RUN_WIDTH, GapLog, rows
from aisimulate.engine.sequence import COMPLETED
from aisimulate.replay import gap_blocks
from aisimulate.replay.gaps import GapSummary, exact_dot, summarize_gaps
from aisimulate.replay.statistics import PERCENTILES

from .report_builders import FormulaTimer, gap_log, rejected, sequence

FORMULAS = (
    lambda batch, context: 5_000_000,
    lambda batch, context: 1000 * batch + context,
    lambda batch, context: (batch * 7919 + context * 104_729) % 50_000_017,  # not monotone
    lambda batch, context: context % 3,  # many gaps of 0 ns
    lambda batch, context: 3_000_000_000 + context * 1_000_003,  # wide bins: several refinements
)

runs = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 5000), st.integers(1, 70), st.integers(1, 9), st.just(0)),
    max_size=8,
)
pass_gaps = st.lists(st.tuples(st.integers(0, 10**10), st.integers(1, 9), st.just(0)), max_size=8)
series_gaps = st.lists(
    st.tuples(st.lists(st.integers(0, 10**8), min_size=1, max_size=30), st.integers(1, 9)), max_size=4
)


@st.composite
def logs(draw):
    """One or two logs."""
    result = []
    for formula in draw(st.lists(st.sampled_from(FORMULAS), min_size=1, max_size=2)):
        log = GapLog(FormulaTimer(formula))
        log.runs = list(chain.from_iterable(draw(runs)))
        log.passes = list(chain.from_iterable(draw(pass_gaps)))
        log.pack()
        log.series = [(array("q", durations), weight, 0) for durations, weight in draw(series_gaps)]
        ended = sequence(status=draw(st.sampled_from([COMPLETED, None])), tokens=(1.0,))
        log.singles = [(gap, ended) for gap in draw(st.lists(st.integers(0, 10**9), max_size=3))]
        result.append(log)
    return result


def logged(some_logs):
    """Every (gap, weight), passes one by one."""
    for log in some_logs:
        for batch, context, passes, weight, _ in rows(log.packed_runs, RUN_WIDTH):
            yield from ((gap, weight) for gap in log.timer.durations_ns(batch, context, passes))
        yield from ((gap, weight) for gap, weight, _ in rows(log.packed_passes, PASS_WIDTH))
        for durations, weight, _ in log.series:
            yield from ((gap, weight) for gap in durations)
        yield from ((gap, 1) for gap, owner in log.singles if owner.status == COMPLETED)


def check_order(summary, values):
    """`values` sorted, in the unit of `summary`."""
    if not values:
        assert summary == (0.0,) * 9
        return
    assert (summary.min, summary.max) == (values[0], values[-1])
    for percent, value in zip(PERCENTILES, summary[3:8], strict=True):
        assert value == values[math.floor((len(values) - 1) * percent / 100 + 0.5)]


def check_moments(summary, values, pairs):
    """Gaps taken back cancel up to the rounding of what they were: `pairs` are all values logged."""
    if not values:
        return
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    logged_sum = sum(abs(weight) * value for value, weight in pairs) / len(values)
    logged_squares = sum(abs(weight) * value * value for value, weight in pairs) / len(values)
    assert summary.mean == pytest.approx(mean, rel=1e-13, abs=1e-14 * logged_sum)
    assert summary.std == pytest.approx(std, rel=1e-9, abs=math.sqrt(1e-14 * logged_squares))


@settings(max_examples=100, deadline=None)
@given(logs(), st.sampled_from([1, 7, 64, 1 << 14]))
def test_pooled_gaps_are_those_of_the_expanded_log(some_logs, block_passes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gap_blocks, "BLOCK_PASSES", block_passes)
        summary = summarize_gaps(some_logs)
    pairs = list(logged(some_logs))
    counts = Counter()
    for gap, weight in pairs:
        counts[gap] += weight
    gaps = sorted(counts.elements())
    rates = sorted(1e9 / gap for gap in gaps if gap)
    assert summary.count == len(gaps)
    assert summary.total_ns == sum(gaps)
    check_order(summary.itl_ms, [gap / 1e6 for gap in gaps])
    check_order(summary.rate_tok_s, rates)
    check_moments(summary.itl_ms, [gap / 1e6 for gap in gaps], [(gap / 1e6, weight) for gap, weight in pairs])
    check_moments(summary.rate_tok_s, rates, [(1e9 / gap, weight) for gap, weight in pairs if gap])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(10**6, 10**9), st.integers(1, 99)), min_size=1, max_size=20))
def test_moments_of_passes(pairs):
    log = GapLog(FormulaTimer(FORMULAS[0]))
    log.passes = [number for pair in pairs for number in (*pair, 0)]
    log.pack()
    summary = summarize_gaps([log])
    gaps = [gap for gap, weight in pairs for _ in range(weight)]
    assert summary.itl_ms.mean == sum(gaps) / len(gaps) / 10**6
    assert summary.itl_ms.std == pytest.approx(np.std(gaps) / 1e6, rel=1e-9, abs=1e-12)
    rates = [1e9 / gap for gap in gaps]
    assert summary.rate_tok_s.mean == pytest.approx(np.mean(rates), rel=1e-14)
    assert summary.rate_tok_s.std == pytest.approx(np.std(rates), rel=1e-9, abs=1e-9)


def test_no_gaps():
    assert summarize_gaps([]) == summarize_gaps([gap_log()]) == GapSummary()
    assert summarize_gaps([]).itl_ms == summarize_gaps([]).rate_tok_s == (0.0,) * 9


def test_gaps_of_zero_only_have_no_rate():
    summary = summarize_gaps([gap_log(passes=[(0.0, 3)])])
    assert summary.count == 3
    assert summary.itl_ms == summary.rate_tok_s == (0.0,) * 9


def test_singles_count_only_when_their_request_completed():
    done, cut, refused = sequence(tokens=(1.0,)), sequence(status=None), rejected()
    log = gap_log(singles=[(20_000_000, done), (30_000_000, cut), (40_000_000, refused)])
    summary = summarize_gaps([log])
    assert (summary.count, summary.total_ns) == (1, 20_000_000)


@pytest.mark.parametrize("gap_ns", [1, 2, 3, 1023, 1024, 1025, 2**31 - 1, 2**40 + 1, 2**53 - 1])
def test_single_gap_values_at_the_edges_of_the_bins(gap_ns):
    neighbours = [max(0, gap_ns - 1), gap_ns, min(2**53 - 1, gap_ns + 1)]
    log = GapLog(FormulaTimer(FORMULAS[0]))
    log.passes = [number for gap in neighbours for number in (gap, 1, 0)]
    log.pack()
    summary = summarize_gaps([log])
    ordered = sorted(neighbours)
    assert summary.itl_ms.min == ordered[0] / 1e6
    assert summary.itl_ms.median == ordered[1] / 1e6
    assert summary.itl_ms.max == ordered[2] / 1e6
    assert summary.total_ns == sum(neighbours)


def test_sum_is_exact_beyond_64_bits():
    log = gap_log(runs=[(1, 1, 1000, 10**6)], timer=FormulaTimer(lambda batch, context: 10**13 + context))
    summary = summarize_gaps([log])
    assert summary.total_ns == 10**6 * sum(10**13 + context for context in range(1, 1001)) > 2**63


def test_exact_dot_does_not_overflow():
    numbers, weights = np.array([2**52, 3]), np.array([2**20, 5])
    assert exact_dot(numbers, weights) == 2**72 + 15
    assert exact_dot(numbers[1:], weights[1:]) == 15


def test_equal_gaps_are_priced_once_per_sweep_and_have_no_spread():
    timer = FormulaTimer(lambda batch, context: 4_997_811)
    summary = summarize_gaps([gap_log(runs=[(3, 1, 50_000, 3)], timer=timer)])
    assert summary.itl_ms == (*[4.997811] * 8, 0.0)
    assert summary.rate_tok_s == (*[1e9 / 4_997_811] * 8, 0.0)
    assert timer.priced == 50_000  # no second sweep


def test_only_blocks_that_may_hold_a_wanted_gap_are_priced_again(monkeypatch):
    monkeypatch.setattr(gap_blocks, "BLOCK_PASSES", 1000)
    timer = FormulaTimer(lambda batch, context: 10_000_000 + 200 * context)
    runs = [(1, 500 * start, 500, 1) for start in range(1, 401)]
    summarize_gaps([gap_log(runs=runs, timer=timer)])
    again = timer.priced - 200_000
    # Eleven different ranks are wanted, each in a coarse bin that reaches into one or two of 200 blocks.
    assert 0 < again <= 2 * 11 * 1000


class RampTimer:
    """Vectorised, for logs too long for Python loops: the duration is the context."""

    def decodes_ns(self, batches, contexts):
        return contexts

    def tally_ns(self, batches, contexts, passes, weights):
        firsts = np.repeat(contexts - (np.cumsum(passes) - passes) * batches, passes)
        durations = firsts + np.arange(int(passes.sum())) * np.repeat(batches, passes)
        return durations, np.repeat(weights, passes)


def test_memory_does_not_grow_with_the_number_of_passes():
    log = gap_log(runs=[(1, 20_000_000 + 5000 * i, 2000, 1) for i in range(1400)], timer=RampTimer())
    summarize_gaps([log])
    tracemalloc.start()
    summary = summarize_gaps([log])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert summary.count == 2_800_000
    assert summary.itl_ms.min == 20.0
    assert summary.itl_ms.max == (20_000_000 + 5000 * 1399 + 1999) / 1e6
    assert peak_bytes < 15_000_000
