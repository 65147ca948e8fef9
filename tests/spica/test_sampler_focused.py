"""The staged heuristic: what each stage tries, that it finds what it should, and that it ends."""

from __future__ import annotations

import pytest
from sampler_contract import SamplerContract, identity, small_branch
from search_fakes import SeqsEvaluator, forget_the_model, make_config

from aisimulate.core.errors import InputError
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.finite_space import FiniteSpace
from aisimulate.spica.focused_search import focused_search
from aisimulate.spica.loop import Stop
from aisimulate.spica.parallel_enum import DisaggParallelConfig, ParallelShape, ReplicaParallelConfig
from aisimulate.spica.samplers.focused import FocusedSampler
from aisimulate.spica.search import run_search


class TestFocusedSampler(SamplerContract):
    finite = False
    fills = False

    def make(self, branch, seed=1):
        return FocusedSampler(branch)


def pool(tp, replicas):
    return ReplicaParallelConfig(ParallelShape(tp, 1, 1, 1), replicas)


def agg_branch(budget=8, **knobs):
    configs = tuple(pool(tp, n) for tp in (1, 2, 4, 8) for n in range(1, budget // tp + 1))
    choices = {
        "router_mode": ["kv_router", "round_robin"],
        "overlap_score_credit": [0.0, 0.5, 1.0],
        "prefill_load_scale": [0.0, 1.0, 4.0],
        "router_temperature": [0.0],
        "planner_scaling_policy": ["disabled"],
        "agg_max_num_batched_tokens": [8192],
        "agg_max_num_seqs": [256, 512],
        "backend": ["vllm"],
    }
    return small_branch(
        parallel_configs=configs,
        supported_backends=dict.fromkeys(configs, frozenset({"vllm"})),
        knob_choices=choices | knobs,
        gpu_budget=budget,
    )


def pair_branch(budget=16):
    pools = [pool(tp, n) for tp in (1, 2, 4) for n in range(1, budget // tp + 1)]
    configs = tuple(
        DisaggParallelConfig(p, d) for p in pools for d in pools if p.total_gpus + d.total_gpus <= budget
    )
    return small_branch(
        deployment_mode="disagg",
        parallel_configs=configs,
        supported_backends=dict.fromkeys(configs, frozenset({"vllm"})),
        knob_choices={"router_mode": ["round_robin"], "decode_max_num_seqs": [256, 512], "backend": ["vllm"]},
        gpu_budget=budget,
    )


def climb(branch, value):
    """Run to the end; return the suggestions by stage, and the values in order."""
    sampler, stages, values = FocusedSampler(branch), [], []
    while stage := sampler.suggest(1000):
        stages.append(stage)
        for suggestion in stage:
            values.append(value(suggestion))
            sampler.observe(suggestion, {"objective": values[-1]})
    return stages, values


def test_the_first_stage_fills_the_budget_with_every_shape():
    stages, _ = climb(agg_branch(), lambda suggestion: 1.0)
    assert [s.parallel_config for s in stages[0]] == [pool(1, 8), pool(2, 4), pool(4, 2), pool(8, 1)]
    assert [s.parallel_config for s in stages[1]] == [pool(1, 4), pool(2, 2), pool(4, 1)]
    assert [s.parallel_config for s in stages[2]] == [pool(1, 2), pool(2, 1)]
    assert {s.selection["router_mode"] for stage in stages[:3] for s in stage} == {"kv_router"}


def test_pairs_take_equal_shapes_first_and_then_one_role_at_a_time():
    stages, _ = climb(pair_branch(), lambda suggestion: -abs(suggestion.parallel_config.prefill.shape.tp - 2))
    shapes = [
        [(s.parallel_config.prefill.shape.tp, s.parallel_config.decode.shape.tp) for s in stage]
        for stage in stages[:5]
    ]
    assert shapes == [
        [(1, 1), (2, 2), (4, 4)],
        [(1, 1), (2, 2), (4, 4)],
        [(1, 1), (2, 2)],
        [(1, 2), (4, 2)],
        [(2, 1), (2, 4)],
    ]
    gpus = [{s.parallel_config.total_gpus for s in stage} for stage in stages[:5]]
    assert gpus == [{16}, {8}, {4}, {16}, {16}]
    counts = [(s.parallel_config.prefill.replicas, s.parallel_config.decode.replicas) for s in stages[5]]
    assert counts == [(n, 8 - n) for n in (1, 2, 3, 5, 6, 7)]  # (4, 4) is known


def test_every_stage_starts_from_the_best_so_far_and_nothing_comes_twice():
    stages, values = climb(
        agg_branch(), lambda s: s.selection["overlap_score_credit"] - s.parallel_config.shape.tp
    )
    seen = [identity(s) for stage in stages for s in stage]
    assert len(seen) == len(set(seen)) == len(values)
    assert max(values) == 0.0
    assert {s.parallel_config.shape.tp for s in stages[-1]} == {1}


@pytest.mark.parametrize("branch", [agg_branch(), pair_branch()], ids=["agg", "disagg"])
def test_it_finds_the_optimum_of_a_separable_goal_with_a_share_of_the_points(branch):
    def value(suggestion):
        config, selection = suggestion.parallel_config, suggestion.selection
        roles = [config.prefill, config.decode] if isinstance(config, DisaggParallelConfig) else [config]
        work = sum(abs(role.shape.tp - 2) + abs(role.replicas - 3) for role in roles)
        knobs = (
            abs(selection.get("prefill_load_scale", 0.0) - 1.0) + selection.get("agg_max_num_seqs", 0) / 512
        )
        return -work - knobs

    points = list(FiniteSpace(branch))
    _, values = climb(branch, value)
    assert max(values) == max(value(point) for point in points)
    assert len(values) < len(points) / 2


def test_missed_bounds_steer_towards_what_meets_them():
    branch, tried = agg_branch(), []
    sampler = FocusedSampler(branch)
    while stage := sampler.suggest(1000):
        for suggestion in stage:
            config = suggestion.parallel_config
            tried.append(config)
            if config.shape.tp < 8:
                sampler.observe_missed(suggestion, {"ttft_ms": 1.0 / config.shape.tp})
            else:
                sampler.observe(suggestion, {"objective": -100.0})
    assert sampler._space.placements[sampler._best[0]][1] == pool(8, 1)


def test_nothing_but_failures_ends():
    branch = pair_branch()
    sampler, count = FocusedSampler(branch), 0
    while stage := sampler.suggest(7):
        count += len(stage)
        for suggestion in stage:
            sampler.observe_infeasible(suggestion, "replay failed")
    assert count == 3 + 3 + 2 + 6  # all shapes, and then there is nothing to start from


def test_a_front_or_a_range_is_refused(monkeypatch):
    with pytest.raises(InputError, match="focused climbs one goal"):
        FocusedSampler(agg_branch(), objectives=[("a", True), ("b", True)])
    with pytest.raises(InputError, match="focused needs a finite space"):
        FocusedSampler(small_branch(float_ranges={"kv_load_ratio": (0.0, 1.0)}))
    forget_the_model(monkeypatch, [agg_branch()])
    objectives = {"target": "pareto", "pareto_objectives": ["throughput", "ttft"]}
    front = make_config(policy="focused", goal=objectives)
    with pytest.raises(InputError, match=r"sweep\.policy: focused climbs one goal.*; use rapid"):
        run_search(front, evaluator=SeqsEvaluator())


class LatencyEvaluator(SeqsEvaluator):
    """TTFT falls with the size of an engine, throughput grows with the number of engines."""

    def evaluate(self, plan, *, concurrency_override=None):
        tp = plan.agg_engine_args["aic_tp_size"]
        return {
            "output_throughput_tok_s": float(plan.num_workers),
            "mean_ttft_ms": 800.0 / tp,
            "completed_requests": 8,
        }


def asked(**goal):
    config = make_config(goal={"target": "throughput", **goal}).model_dump(mode="json", exclude_unset=True)
    config["sweep"].pop("max_rounds")
    return SmartSearchConfig.model_validate(config)


def test_a_focused_search_from_python(monkeypatch):
    forget_the_model(monkeypatch, [agg_branch()])
    free = focused_search(asked(), evaluator=LatencyEvaluator())
    assert (free.best.config["tp"], free.best.config["replicas"]) == (1, 8)
    bound = focused_search(asked(sla={"ttft_ms": 250.0}), evaluator=LatencyEvaluator())
    assert (bound.best.config["tp"], bound.best.config["replicas"]) == (4, 2)
    assert len(bound.table) > len(bound.ranking) > 0
    assert bound.nearest == []


def test_a_focused_search_without_a_feasible_state_tells_the_nearest(monkeypatch):
    forget_the_model(monkeypatch, [agg_branch()])
    result = focused_search(asked(sla={"ttft_ms": 80.0}), evaluator=LatencyEvaluator())
    assert (result.best, result.ranking) == (None, [])
    assert result.nearest[0].config["tp"] == 8
    assert result.nearest[0].missed == pytest.approx({"ttft_ms": 0.25})


def test_policies_end_by_themselves_unless_rounds_are_asked_for(monkeypatch):
    forget_the_model(monkeypatch, [agg_branch()])
    size = FiniteSpace(agg_branch()).size
    config = asked().model_dump(mode="json", exclude_unset=True)
    config["sweep"] |= {"policy": "thorough", "candidates_per_round": 5}
    whole = run_search(SmartSearchConfig.model_validate(config), evaluator=LatencyEvaluator())
    assert len(whole.outcomes) == size
    assert (whole.branches[0].is_complete, whole.branches[0].stop) == (True, Stop.EXHAUSTED)
    config["sweep"] |= {"max_rounds": 2}
    part = run_search(SmartSearchConfig.model_validate(config), evaluator=LatencyEvaluator())
    assert (len(part.outcomes), part.branches[0].is_complete) == (10, False)


def test_a_policy_and_another_sampler_are_refused():
    with pytest.raises(ValueError, match="policy thorough chooses the sampler grid itself, got random"):
        make_config(policy="thorough", sampler="random")


class MostlyInfeasible(LatencyEvaluator):
    """Only the last point can be measured."""

    def evaluate(self, plan, *, concurrency_override=None):
        engine = plan.agg_engine_args
        if (engine["aic_tp_size"], engine["max_num_seqs"]) != (8, 512):
            raise ValueError("no")
        return super().evaluate(plan, concurrency_override=concurrency_override)


def test_a_thorough_search_goes_on_where_nothing_is_feasible(monkeypatch):
    branch = agg_branch(router_mode=["round_robin"])
    forget_the_model(monkeypatch, [branch])
    config = asked().model_dump(mode="json", exclude_unset=True)
    config["sweep"] |= {"policy": "thorough", "candidates_per_round": 1}
    result = run_search(SmartSearchConfig.model_validate(config), evaluator=MostlyInfeasible())
    assert len(result.outcomes) == FiniteSpace(branch).size == 30
    assert [candidate.config["tp"] for candidate in result.candidates] == [8]
