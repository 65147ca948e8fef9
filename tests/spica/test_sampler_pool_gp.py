"""The default sampler: its contract, and that learning pays."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from sampler_contract import SamplerContract, identity, small_branch

from aisimulate.spica.parallel_enum import ParallelShape, ReplicaParallelConfig
from aisimulate.spica.samplers.branch_pool import BranchPool
from aisimulate.spica.samplers.pool_gp_sampler import PoolGpSampler, positive
from aisimulate.spica.samplers.pool_parts import RANGE_STEPS


def wide_branch(**changes):
    """32 replicas x 5 shapes x 2 backends x 9 engine settings."""
    configs = tuple(
        ReplicaParallelConfig(ParallelShape(tp, 1, 1, 1), n) for tp in (1, 2, 4, 8, 16) for n in range(1, 33)
    )
    fields = {
        "parallel_configs": configs,
        "supported_backends": dict.fromkeys(configs, frozenset({"vllm", "sglang"})),
        "knob_choices": {
            "router_mode": ["round_robin"],
            "planner_scaling_policy": ["disabled"],
            "agg_max_num_batched_tokens": [4096, 8192, 16384],
            "agg_max_num_seqs": [128, 256, 512],
            "backend": ["vllm", "sglang"],
        },
    }
    return small_branch(**(fields | changes))


def score(suggestion):
    """A smooth hill over the wide branch, best at tp 4 x 11 on sglang with 8192 and 256."""
    config, selection = suggestion.parallel_config, suggestion.selection
    away = (math.log2(config.shape.tp) - 2) ** 2 + (math.log2(config.replicas) - math.log2(11)) ** 2
    away += 0.3 * (selection["backend"] != "sglang")
    away += 0.1 * (selection["agg_max_num_batched_tokens"] != 8192) + 0.1 * (
        selection["agg_max_num_seqs"] != 256
    )
    return 100.0 * math.exp(-0.3 * away)


def asks_until(sampler, level, most):
    """How many measurements it takes to reach `level`."""
    for count in range(0, most, 8):
        for suggestion in sampler.suggest(8):
            if score(suggestion) >= level:
                return count
            sampler.observe(suggestion, {"objective": score(suggestion)})
    return most


class TestPoolGpSampler(SamplerContract):
    def make(self, branch, seed=1):
        return PoolGpSampler(branch, seed=seed)

    def test_it_learns(self):
        reached = [asks_until(self.make(wide_branch(), seed), 99.9, 160) for seed in (1, 2, 3)]
        assert max(reached) <= 80  # of 2,880 points

    def test_costs_are_learnt_as_well(self):
        sampler, best = self.make(wide_branch()), -1e9
        for _ in range(8):
            for suggestion in sampler.suggest(8):
                cost = -1e4 / score(suggestion)
                best = max(best, cost)
                sampler.observe(suggestion, {"objective": cost})
        assert best == pytest.approx(-100.0, rel=0.02)

    def test_it_goes_on_exactly_from_what_it_was_told(self):
        first, second = self.make(wide_branch()), self.make(wide_branch())
        for sampler in (first, second):
            for _ in range(4):
                for suggestion in sampler.suggest(6):
                    sampler.observe(suggestion, {"objective": score(suggestion)})
        assert [identity(s) for s in first.suggest(8)] == [identity(s) for s in second.suggest(8)]

    def test_a_range_is_searched_in_steps_and_never_twice(self):
        branch = small_branch(float_ranges={"kv_load_ratio": (0.2, 0.8)})
        sampler = PoolGpSampler(branch, objectives=[("a", True), ("b", True)], seed=1)
        seen = []
        for _ in range(6):
            for suggestion in sampler.suggest(8):
                load = suggestion.selection["kv_load_ratio"]
                assert 0.2 <= load <= 0.8
                seen.append(identity(suggestion))
                sampler.observe(suggestion, {"a": load, "b": 1.0 - load})
        assert len(set(seen)) == len(seen) == 48

    @pytest.mark.parametrize("objectives", [2, 3])
    def test_zeros_and_failures_do_no_harm(self, objectives):
        names = [(f"m{place}", place != 1) for place in range(objectives)]
        sampler = PoolGpSampler(wide_branch(), objectives=names, seed=2)
        rng = random.Random(0)
        for _ in range(5):
            for suggestion in sampler.suggest(8):
                if rng.random() < 0.3:
                    sampler.observe_infeasible(suggestion, "no room")
                else:
                    values = {name: rng.choice([0.0, rng.random()]) for name, _ in names}
                    sampler.observe(suggestion, values)
        assert len(sampler.suggest(8)) == 8


def test_few_infeasible_points_are_asked_for_once_it_is_clear_where_they_are():
    sampler, refused = PoolGpSampler(wide_branch(), seed=3), []
    for _ in range(12):
        bad = 0
        for suggestion in sampler.suggest(8):
            if suggestion.parallel_config.total_gpus > 32:  # where the best score would be
                bad += 1
                sampler.observe_infeasible(suggestion, "too large")
            else:
                sampler.observe(suggestion, {"objective": score(suggestion)})
        refused.append(bad)
    assert sum(refused[-4:]) < 16  # of 32; of all points, 70 % are too large


def test_positive_values():
    assert positive(3.0, maximise=True) == 3.0
    assert positive(-4.0, maximise=True) == positive(4.0, maximise=False) == 0.25
    assert positive(0.0, maximise=True) == 0.0


class TestBranchPool:
    def test_keys_and_points_are_one_to_one(self):
        pool = BranchPool(small_branch())
        keys = pool.draw(10, np.random.default_rng(0))
        points = [repr(pool.point(key)) for key in keys]
        assert pool.is_listed
        assert len(set(points)) == len(set(keys)) == 112

    def test_neighbours_differ_in_little(self):
        pool, rng = BranchPool(wide_branch()), np.random.default_rng(0)
        key = pool.draw(1, rng)[0]
        whole = pool.features([key])[0]
        for near in pool.near(key, 200, rng):
            assert np.count_nonzero(pool.features([near])[0] != whole) <= 8

    def test_neighbours_reach_every_replica_count(self):
        pool, rng = BranchPool(wide_branch()), np.random.default_rng(0)
        (key,) = [k for k in pool.draw(1, rng) if pool.point(k)][:1]
        seen = {key}
        for _ in range(40):
            seen |= {near for start in sorted(seen)[:40] for near in pool.near(start, 20, rng)}
        assert len({pool.point(k)[0].parallel_config for k in seen}) == 160

    def test_moved_points_keep_their_knobs(self):
        pool, rng = BranchPool(wide_branch()), np.random.default_rng(0)
        key = pool.draw(1, rng)[0]
        moved = [pool.point(other)[0] for other in pool.moved(key, 50, rng)]
        knobs = {k: v for k, v in pool.point(key)[0].selection.items() if k != "backend"}
        assert all(knobs.items() <= point.selection.items() for point in moved)
        assert len({(point.selection["backend"], point.parallel_config) for point in moved}) == 50

    def test_caches_are_bounded_and_change_nothing(self, monkeypatch):
        branch = small_branch(float_ranges={"kv_load_ratio": (0.0, 1.0)})
        pool = BranchPool(
            branch, lambda points: [[chosen["kv_load_ratio"] + config.replicas] for chosen, config in points]
        )
        rng = np.random.default_rng(1)
        keys = [pool.draw(60, rng) for _ in range(4)]
        whole = [(pool.features(some), pool.screen(some)) for some in keys]
        monkeypatch.setattr("aisimulate.spica.samplers.branch_pool._MOST_CACHED", 50)
        for some, (features, screened) in zip(keys, whole, strict=True):
            assert (pool.features(some) == features).all()
            assert (pool.screen(some) == screened).all()
            assert len(pool._screened) <= 50 + len(some)

    def test_points_are_alike_where_what_differs_is_nothing_to_the_screen(self):
        def screen(points):
            return [
                [min(chosen["kv_load_ratio"], 0.5) * chosen["agg_max_num_batched_tokens"]]
                for chosen, _ in points
            ]

        branch = small_branch(float_ranges={"kv_load_ratio": (0.0, 1.0)})
        keys = BranchPool(branch).draw(2000, np.random.default_rng(2))
        pool, alike = BranchPool(branch, screen), {}
        for key, likeness in zip(keys, pool.likenesses(keys), strict=True):
            alike.setdefault(likeness, []).append(pool.point(key))
        assert BranchPool(branch).likenesses(keys) is None
        assert any(_kinds_of(group, "agg_max_num_seqs") > 1 for group in alike.values())
        assert any(len({p.parallel_config.replicas for p, _ in group}) > 1 for group in alike.values())
        for group in alike.values():
            assert _kinds_of(group, "agg_max_num_batched_tokens") == _kinds_of(group, "router_mode") == 1
            assert len({point.parallel_config.shape for point, _ in group}) == 1
            loads = [min(floats["kv_load_ratio"], 0.5) for _, floats in group]
            assert max(loads) <= 1.003 * min(loads)

    def test_loads_are_half_low(self):
        pool = BranchPool(small_branch(float_ranges={"kv_load_ratio": (0.0, 1.0)}))
        steps = [steps[0] for _, steps in pool.draw(4000, np.random.default_rng(1))]
        low = sum(step <= RANGE_STEPS // 100 for step in steps) / len(steps)
        assert 0.12 < low < 0.26


def _kinds_of(group, knob):
    return len({point.selection[knob] for point, _ in group})
