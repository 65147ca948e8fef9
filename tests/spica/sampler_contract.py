"""What every `BranchSampler` must do. A sampler's tests subclass `SamplerContract` and give `make`."""

from __future__ import annotations

import json
from dataclasses import asdict

from aisimulate.spica.parallel_enum import ParallelShape, ReplicaParallelConfig
from aisimulate.spica.samplers.base import BranchSampler, Suggestion
from aisimulate.spica.search_space import BranchSpace


def small_branch(**changes) -> BranchSpace:
    """4 configs x 2 backends (one config for one backend only) x 2 x 2 x 4 router/planner states."""
    configs = tuple(ReplicaParallelConfig(ParallelShape(tp, 1, 1, 1), n) for tp in (1, 2) for n in (1, 2))
    both = frozenset({"vllm", "sglang"})
    fields = {
        "deployment_mode": "agg",
        "parallel_configs": configs,
        "supported_backends": dict.fromkeys(configs, both) | {configs[0]: frozenset({"vllm"})},
        "knob_choices": {
            "router_mode": ["round_robin", "kv_router"],
            "overlap_score_credit": [0.0, 0.5, 1.0],
            "planner_scaling_policy": ["disabled"],
            "agg_max_num_batched_tokens": [8192, 16384],
            "agg_max_num_seqs": [256, 512],
            "backend": ["vllm", "sglang"],
        },
        "gpu_budget": 4,
    }
    return BranchSpace(**(fields | changes))


def ranged_branch(low: float = 0.0, high: float = 1.0) -> BranchSpace:
    """A small branch with a continuous load."""
    return small_branch(float_ranges={"kv_load_ratio": (low, high)})


# 7 legal (backend, config) pairs x 4 engine settings x (1 round-robin + 3 kv-router) states.
SMALL_SIZE = 7 * 4 * 4


def identity(suggestion: Suggestion) -> str:
    """A suggestion's point, comparable between samplers and runs."""
    return json.dumps([suggestion.selection, asdict(suggestion.parallel_config)], sort_keys=True)


def drain(sampler: BranchSampler, count: int, asks: int) -> list[Suggestion]:
    """Ask `asks` times for `count`, telling every suggestion a result."""
    told: list[Suggestion] = []
    for _ in range(asks):
        for suggestion in sampler.suggest(count):
            sampler.observe(suggestion, {"objective": 1.0})
            told.append(suggestion)
    return told


class SamplerContract:
    """The suite; `finite` tells whether the sampler exhausts a finite space by itself.

    `fills` tells whether it always gives as many as asked for, as long as there are any.
    """

    finite = True
    fills = True

    def make(self, branch: BranchSpace, seed: int = 1) -> BranchSampler:
        raise NotImplementedError

    def test_keeps_its_branch(self):
        branch = small_branch()
        assert self.make(branch).branch is branch

    def test_never_gives_more_than_asked(self):
        sampler = self.make(small_branch())
        assert [len(sampler.suggest(count)) <= count for count in (1, 3, 8)] == [True] * 3

    def test_suggestions_are_complete_and_legal(self):
        branch = small_branch()
        for suggestion in drain(self.make(branch), 7, 8):
            selection = suggestion.selection
            assert selection["deployment_mode"] == "agg"
            assert set(selection) == {"deployment_mode", *branch.knob_choices}
            assert all(selection[knob] in choices for knob, choices in branch.knob_choices.items())
            assert selection["backend"] in branch.supported_backends[suggestion.parallel_config]

    def test_same_seed_same_suggestions(self):
        first, second = (drain(self.make(small_branch(), seed=5), 4, 6) for _ in range(2))
        assert [identity(s) for s in first] == [identity(s) for s in second]

    def test_takes_failures_as_well_as_results(self):
        sampler = self.make(small_branch())
        for suggestion in sampler.suggest(3):
            sampler.observe_infeasible(suggestion, "replay failed: broken")
        assert len(sampler.suggest(3)) in ((3,) if self.fills else (1, 2, 3))

    def test_a_finite_space_is_visited_once_and_then_exhausted(self):
        if not self.finite:
            return
        sampler = self.make(small_branch())
        seen = drain(sampler, 16, SMALL_SIZE // 16 + 1)
        assert len(seen) == len({identity(s) for s in seen}) == SMALL_SIZE
        assert sampler.suggest(1) == []


class DrawnContract(SamplerContract):
    """What holds besides for samplers that draw, and learn nothing."""

    def test_seeds_give_other_orders(self):
        orders = [
            [identity(s) for s in self.make(small_branch(), seed).suggest(SMALL_SIZE)] for seed in (1, 2)
        ]
        assert orders[0] != orders[1]
        assert sorted(orders[0]) == sorted(orders[1])

    def test_loads_lie_within_their_bounds_ends_first(self):
        loads = [s.selection["kv_load_ratio"] for s in drain(self.make(ranged_branch(0.25, 4.0)), 8, 50)]
        assert loads[:2] == [0.25, 4.0]
        assert len(loads) == 400
        assert all(0.25 <= load <= 4.0 for load in loads)
