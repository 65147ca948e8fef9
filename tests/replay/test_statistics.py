from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.replay.statistics import PERCENTILES, Summary, percentile_rank, summarize

finite = st.integers(0, 10**15).map(lambda ns: ns / 10**6)


def test_empty_sample_has_nine_zeros():
    assert summarize(np.array([])) == Summary() == (0.0,) * 9


def test_ranks_round_half_up_where_python_rounds_half_to_even():
    assert percentile_rank(7, 75) == 5  # 4.5
    assert percentile_rank(2, 50) == 1  # 0.5
    assert percentile_rank(11, 95) == 10  # 9.5
    assert [percentile_rank(1, percent) for percent in PERCENTILES] == [0] * 5


@given(st.integers(1, 10**7), st.sampled_from(PERCENTILES))
def test_rank_is_the_rounded_position(count, percent):
    position = (count - 1) * percent / 100
    assert percentile_rank(count, percent) == math.floor(position + 0.5) <= count - 1


@given(st.lists(finite, min_size=1, max_size=60))
def test_summary_against_the_definitions(values):
    summary = summarize(np.array(values))
    ordered = sorted(values)
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    assert summary.min == ordered[0]
    assert summary.max == ordered[-1]
    assert summary.mean == pytest.approx(mean, rel=1e-15)
    assert summary.std == pytest.approx(std, rel=1e-9, abs=1e-14 * ordered[-1])
    for percent, value in zip(PERCENTILES, summary[3:8], strict=True):
        assert value == ordered[math.floor((len(values) - 1) * percent / 100 + 0.5)]


@given(finite, st.integers(1, 50))
def test_equal_values_have_no_spread(value, count):
    assert summarize(np.full(count, value)) == (*[value] * 8, 0.0)


@given(st.lists(finite, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_order_of_the_sample_does_not_matter(values, random):
    shuffled = random.sample(values, len(values))
    assert summarize(np.array(values)) == summarize(np.array(shuffled))


def test_results_are_plain_floats():
    assert {type(value) for value in summarize(np.array([1.0, 2.0]))} == {float}
