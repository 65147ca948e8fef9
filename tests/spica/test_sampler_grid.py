from __future__ import annotations

import pytest
from sampler_contract import SMALL_SIZE, SamplerContract, identity, small_branch

from aisimulate.core.errors import InputError
from aisimulate.spica.finite_space import FiniteSpace
from aisimulate.spica.sampler import SAMPLER_POLICIES, make_branch_sampler
from aisimulate.spica.samplers.focused import FocusedSampler
from aisimulate.spica.samplers.grid import GridSampler
from aisimulate.spica.samplers.pool_gp_sampler import PoolGpSampler
from aisimulate.spica.samplers.quasi_random import QuasiRandomSampler
from aisimulate.spica.samplers.random_sampler import RandomSampler
from aisimulate.spica.samplers.vizier_sampler import VizierSampler


class TestGridSampler(SamplerContract):
    def make(self, branch, seed=1):
        return GridSampler(branch)

    def test_walks_in_the_order_of_the_space(self):
        branch = small_branch()
        points = [(p.selection, p.parallel_config) for p in FiniteSpace(branch)]
        given = [(s.selection, s.parallel_config) for s in self.make(branch).suggest(SMALL_SIZE + 5)]
        assert given == points

    def test_refuses_a_continuous_range(self):
        branch = small_branch(float_ranges={"kv_load_ratio": (0.0, 1.0)})
        with pytest.raises(InputError, match=r"workload\.kv_load_ratio is the range \[0\.0, 1\.0\]"):
            self.make(branch)


def test_the_factory_knows_every_policy(monkeypatch):
    monkeypatch.setattr("aisimulate.spica.sampler.require_sampler", lambda name: None)
    branch = small_branch()
    made = {
        policy: type(make_branch_sampler(branch, study_id="s", seed=3, policy=policy))
        for policy in SAMPLER_POLICIES
        if policy != "optuna"  # extra_optuna.py
    }
    assert made == {
        "pool-gp": PoolGpSampler,
        "random": RandomSampler,
        "quasi-random": QuasiRandomSampler,
        "grid": GridSampler,
        "focused": FocusedSampler,
        "vizier": VizierSampler,
    }


def test_the_factory_passes_the_seed_on():
    branch = small_branch()
    first, second, again = (
        [identity(s) for s in make_branch_sampler(branch, study_id="s", seed=seed).suggest(9)]
        for seed in (3, 4, 3)
    )
    assert first == again != second


def test_an_unknown_policy_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"sweep\.sampler: 'gird' is not one of .*did you mean 'grid'"):
        make_branch_sampler(small_branch(), study_id="s", policy="gird")
