from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisimulate.timing.ramps import tally_ramps

Ramp = tuple[int, int, int, int]


def listed(ramps: list[Ramp]) -> Counter[int]:
    counted: Counter[int] = Counter()
    for first, step, count, weight in ramps:
        for i in range(count):
            counted[first + i * step] += weight
    return counted


def tallied(ramps: list[Ramp]) -> Counter[int]:
    columns = np.array(ramps, dtype=np.int64).reshape(-1, 4).T
    values, counts = tally_ramps(*columns)
    counted: Counter[int] = Counter()
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        counted[value] += count
    return counted


def ramps(most_steps: int, most_passes: int) -> st.SearchStrategy[list[Ramp]]:
    numbers = (
        st.integers(0, 200),
        st.integers(1, most_steps),
        st.integers(0, most_passes),
        st.integers(1, 9),
    )
    return st.lists(st.tuples(*numbers), max_size=12)


@settings(deadline=None)
@given(st.one_of(ramps(2, 400), ramps(9, 60), ramps(1000, 3)))
def test_counts_every_value(many: list[Ramp]) -> None:
    assert tallied(many) == listed(many)


@pytest.mark.parametrize(
    "many",
    [
        [(5, 3, 200, 2), (6, 3, 200, 1), (7, 1, 600, 4), (5, 1, 600, 1)],  # few steps: counted by step
        [(i, i + 1, 40, 1) for i in range(20)],  # many steps over a short span: counted by value
        [(0, 1000, 3, 7), (10**12, 1, 2, 1)],  # far apart: listed
        [(10**12, 1, 0, 1), (3, 1, 50, 1), (3, 1, 50, 2)],  # an empty one beyond the others
    ],
)
def test_each_way_of_counting(many: list[Ramp]) -> None:
    assert tallied(many) == listed(many)
