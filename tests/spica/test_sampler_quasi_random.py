from __future__ import annotations

from itertools import pairwise

import pytest
from sampler_contract import DrawnContract, ranged_branch, small_branch

from aisimulate.spica.samplers.load_draw import mixed_quantile
from aisimulate.spica.samplers.quasi_random import QuasiRandomSampler, radical_inverse
from aisimulate.spica.samplers.random_sampler import RandomSampler


class TestQuasiRandomSampler(DrawnContract):
    def make(self, branch, seed=1):
        return QuasiRandomSampler(branch, seed=seed)

    def test_it_is_more_even_than_random_draws(self):
        """Of 20 equal cells of a range, few suggestions leave fewer empty."""

        def empty(sampler):
            loads = [s.selection["kv_load_ratio"] for s in sampler.suggest(42)[2:]]
            cells = [mixed_quantile(n / 20, 0.1, 1.0) for n in range(21)]
            return sum(not any(low <= load < high for load in loads) for low, high in pairwise(cells))

        for seed in range(5):
            branch = ranged_branch(0.1, 1.0)
            assert empty(self.make(branch, seed)) < empty(RandomSampler(branch, seed=seed))

    def test_placements_come_equally_often(self):
        branch = small_branch()
        first = [s.parallel_config for s in self.make(branch).suggest(56)]
        counts = sorted(first.count(config) for config in branch.parallel_configs)
        # One config runs on one backend, the others on two.
        assert counts[0] in range(6, 11)
        assert counts[1] >= 14


@pytest.mark.parametrize(
    ("number", "base", "share"),
    [(0, 2, 0.0), (1, 2, 1 / 2), (2, 2, 1 / 4), (3, 2, 3 / 4), (6, 2, 3 / 8), (5, 3, 7 / 9), (9, 3, 1 / 27)],
)
def test_radical_inverse(number, base, share):
    assert radical_inverse(number, base) == pytest.approx(share)


@pytest.mark.parametrize(
    ("share", "low", "high", "value"),
    [(0.0, 0.5, 8.0, 0.5), (1.0, 0.5, 8.0, 8.0), (0.25, 0.0, 0.0, 0.0), (0.5, -3.0, -1.0, -2.0)],
)
def test_ends_of_the_mixture(share, low, high, value):
    assert mixed_quantile(share, low, high) == pytest.approx(value)


def test_half_of_the_mixture_is_logarithmic():
    # Of the log-uniform half, two thirds of its three decades lie below a tenth; of the other a tenth.
    assert mixed_quantile((2 / 3 + 0.1) / 2, 0.0, 1.0) == pytest.approx(0.1)
