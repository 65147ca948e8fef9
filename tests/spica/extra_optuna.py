"""Samplers of Optuna, which the extra `optuna` brings: `make extra` runs this."""

from __future__ import annotations

import pytest
from sampler_contract import SamplerContract, drain, identity, small_branch
from search_fakes import SeqsEvaluator, forget_the_model, make_branch, make_config

from aisimulate.spica.sampler import make_branch_sampler
from aisimulate.spica.sampler_names import SAMPLER_ALGORITHMS
from aisimulate.spica.samplers.optuna_sampler import OptunaSampler
from aisimulate.spica.search import run_search


class TestTpe(SamplerContract):
    finite = False
    algorithm = "tpe"

    def make(self, branch, seed=1):
        return OptunaSampler(branch, seed=seed, algorithm=self.algorithm)

    def test_it_learns_where_it_is_good(self):
        """The best of sixty suggestions is good, and the last ones are better on average."""
        branch = small_branch(
            knob_choices={"agg_max_num_seqs": list(range(1, 257)), "backend": ["vllm"]},
            float_ranges={"kv_load_ratio": (0.0, 1.0)},
        )
        sampler = self.make(branch, seed=3)
        values = []
        for _ in range(15):
            for suggestion in sampler.suggest(4):
                selection = suggestion.selection
                off = abs(selection["agg_max_num_seqs"] / 256 - 0.3)
                value = -off - abs(selection["kv_load_ratio"] - 0.7)
                sampler.observe(suggestion, {"objective": value})
                values.append(value)
        assert max(values) > -0.15
        assert sum(values[30:]) > sum(values[:30])


class TestNsga2(TestTpe):
    algorithm = "nsga2"
    test_it_learns_where_it_is_good = None


@pytest.mark.parametrize("algorithm", SAMPLER_ALGORITHMS["optuna"])
def test_several_objectives_in_their_directions(algorithm):
    sampler = make_branch_sampler(
        small_branch(),
        study_id="s",
        policy="optuna",
        algorithm=algorithm,
        objectives=[("throughput_per_gpu", True), ("e2e_latency", False)],
    )
    for suggestion in sampler.suggest(5):
        gpus = suggestion.parallel_config.total_gpus
        sampler.observe(suggestion, {"e2e_latency": 1.0 / gpus, "throughput_per_gpu": 1.0 / gpus})
    assert [direction.name for direction in sampler._study.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert len(sampler.suggest(3)) == 3


def test_seeds_give_other_suggestions():
    first, second = (
        [identity(s) for s in drain(OptunaSampler(small_branch(), seed=n), 4, 3)] for n in (1, 2)
    )
    assert first != second


def test_a_search_with_optuna(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=range(1, 101))])
    config = make_config(sampler="optuna", sampler_algorithm="tpe", max_rounds=8, candidates_per_round=5)
    result = run_search(config, evaluator=SeqsEvaluator())
    assert result.plan.policies == {"agg": "optuna"}
    assert result.candidates[0].score > 90
