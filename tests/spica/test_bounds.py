"""Goals beyond the reference's: latencies to minimise, strict SLAs, single bounds, sizing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from search_fakes import SeqsEvaluator, forget_the_model, make_branch, make_config
from spica_walk import RATE, changed, look

from aisimulate.config.messages import one_line
from aisimulate.core.errors import InputError
from aisimulate.report.envelope import search_envelope
from aisimulate.report.near_misses import near_miss_lines
from aisimulate.spica.bounds import missed_bounds, near_misses
from aisimulate.spica.config import Candidate, OptimizationGoal, OptimizationTarget, SmartSearchConfig
from aisimulate.spica.judge import judge
from aisimulate.spica.outcome import Outcome, Reason, Status
from aisimulate.spica.outcome_json import outcome_text, read_outcome
from aisimulate.spica.score import epsilon_front, objective_value, pareto_front, rank
from aisimulate.spica.search import run_search

REPORT = {
    "output_throughput_tok_s": 100.0,
    "mean_ttft_ms": 240.0,
    "mean_itl_ms": 20.0,
    "mean_e2e_latency_ms": 900.0,
    "num_ttft_samples": 8,
    "goodput_request_throughput_rps": 3.0,
    "goodput_output_throughput_tok_s": 60.0,
    "gpu_hours": 8.0000000001,
    "duration_ms": 3_600_000.0,
}


def goal(**fields):
    return OptimizationGoal.model_validate(fields)


def refusal(**config):
    with pytest.raises(ValidationError) as caught:
        make_config(**config)
    return one_line(caught.value, "", SmartSearchConfig)


@pytest.mark.parametrize(("target", "value"), [("ttft", 240.0), ("itl", 20.0), ("min_gpus", 8.0)])
def test_what_is_minimised(target, value):
    known = OptimizationTarget(target)
    assert not known.maximize
    assert objective_value(REPORT, known) == value
    sizing = {"sla": {"e2e_ms": 9}, "min_goodput_rps": 1} if target == "min_gpus" else {}
    asked = goal(target=target, **sizing)
    outcome = judge({"used_gpus": 8}, REPORT, asked)
    assert outcome.candidate.score == -value


def test_planners_minimise_latency_with_those_goals():
    for target in ("ttft", "itl", "e2e_latency"):
        assert goal(target=target).planner_optimization_target == "latency"


def test_fewer_gpus_rank_first_then_the_order():
    asked = goal(target="min_gpus", sla={"e2e_ms": 9}, min_goodput_rps=1)
    found = [
        judge({"used_gpus": gpus, "n": n}, REPORT | {"gpu_hours": float(gpus)}, asked).candidate
        for n, gpus in enumerate((8, 4, 6, 4))
    ]
    assert [candidate.config["n"] for candidate in rank(found)] == [1, 3, 2, 0]


@pytest.mark.parametrize(
    ("fields", "missed", "text"),
    [
        ({"sla": {"ttft_ms": 240, "itl_ms": 20}, "strict_sla": True}, {}, ""),
        (
            {"sla": {"ttft_ms": 200, "itl_ms": 10}, "strict_sla": True},
            {"ttft_ms": 0.2, "itl_ms": 1.0},
            "mean TTFT 240.0 ms > 200 ms (+20.0%), mean ITL 20.0 ms > 10 ms (+100.0%)",
        ),
        ({"sla": {"ttft_ms": 200, "itl_ms": 10}}, {}, ""),
        (
            {"target": "min_gpus", "sla": {"e2e_ms": 9}, "min_goodput_rps": 4},
            {"min_goodput_rps": 0.25},
            "goodput 3 requests/s < 4 (-25.0%)",
        ),
    ],
)
def test_bounds_that_are_missed(fields, missed, text):
    found = missed_bounds(goal(**fields), REPORT)
    assert {miss.bound: miss.share for miss in found} == pytest.approx(missed)
    assert ", ".join(miss.text for miss in found) == text


def test_a_mean_of_no_samples_is_missed_without_a_number():
    asked = goal(sla={"ttft_ms": 200}, strict_sla=True)
    outcome = judge({}, REPORT | {"mean_ttft_ms": 0.0, "num_ttft_samples": 0}, asked)
    assert (outcome.status, outcome.category) == (Status.INFEASIBLE, Reason.SLA_CONSTRAINT)
    assert outcome.reason == "SLA missed: there is no TTFT to hold against 200 ms"
    assert outcome.missed == {}


def test_misses_survive_the_ledger():
    outcome = judge({"a": 1}, REPORT, goal(sla={"ttft_ms": 200}, strict_sla=True))
    assert read_outcome(outcome_text(outcome)) == outcome
    assert outcome.missed == pytest.approx({"ttft_ms": 0.2})


def test_the_nearest_come_first():
    outcomes = [
        Outcome(Status.INFEASIBLE, {"n": n}, category=Reason.SLA_CONSTRAINT, reason="r", missed=missed)
        for n, missed in enumerate(({"a": 0.5}, {"a": 0.1, "b": 0.4}, {}, {"b": 0.2}, {"a": 0.4}))
    ]
    assert [outcome.config["n"] for outcome in near_misses(outcomes, 3)] == [3, 1, 4]


def front(*rows):
    made = [
        Candidate(
            config={"n": n},
            used_gpus=1,
            score=0.0,
            metrics={},
            objectives=dict(zip(("ttft", "throughput"), row, strict=True)),
        )
        for n, row in enumerate(rows)
    ]
    return pareto_front(made, ["ttft", "throughput"])


def test_an_epsilon_view_covers_the_front_and_keeps_its_ends():
    exact = front((10.0, 100.0), (10.05, 100.5), (10.2, 102.0), (15.0, 150.0), (15.1, 150.2), (15.2, 151.0))
    assert len(exact) == 6
    view = epsilon_front(exact, 0.01)
    assert [candidate.config["n"] for candidate in view] == [0, 2, 3, 5]
    assert epsilon_front(exact, 1e-6) == exact
    assert epsilon_front([], 0.01) == []


@given(st.lists(st.tuples(st.floats(1, 9), st.floats(1, 9)), max_size=12), st.sampled_from((0.01, 0.1, 0.5)))
def test_every_point_left_out_is_near_one_that_stays(rows, epsilon):
    exact = front(*rows)
    view = epsilon_front(exact, epsilon)
    for candidate in exact:
        near = [
            other
            for other in view
            if other.objectives["ttft"] <= candidate.objectives["ttft"] * (1 + epsilon)
            and other.objectives["throughput"] >= candidate.objectives["throughput"] * (1 - epsilon)
        ]
        assert near


class SlowEvaluator(SeqsEvaluator):
    """TTFT equals the sequences."""

    def evaluate(self, plan, *, concurrency_override=None):
        report = super().evaluate(plan, concurrency_override=concurrency_override)
        return report | {"mean_ttft_ms": report["output_throughput_tok_s"]}


def search(bound_ms, monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=(256, 512, 1024))])
    asked = {"target": "throughput", "sla": {"ttft_ms": bound_ms}, "strict_sla": True}
    return run_search(make_config(goal=asked, candidates_per_round=3), evaluator=SlowEvaluator())


def test_only_candidates_within_a_strict_sla_are_ranked(monkeypatch):
    result = search(600.0, monkeypatch)
    assert [candidate.score for candidate in result.candidates] == [512.0, 256.0]
    assert result.near_misses == []


def test_when_no_candidate_meets_the_sla_the_nearest_are_the_answer(monkeypatch):
    result = search(200.0, monkeypatch)
    assert result.candidates == []
    assert [near.config["agg_max_num_seqs"] for near in result.near_misses] == [256, 512, 1024]
    assert near_miss_lines(result.near_misses)[0] == (
        "nearest: TP4 x 2, 8192/256 vllm: SLA missed: mean TTFT 256.0 ms > 200 ms (+28.0%)"
    )
    document = search_envelope(result)
    assert document["nearest"] == ["candidate-000001", "candidate-000002", "candidate-000003"]
    assert document["attempts"][0]["missed"] == pytest.approx({"ttft_ms": 0.28})
    json.dumps(document)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"goal": {"target": "throughput", "strict_sla": True}}, "strict_sla requires an SLA"),
        ({"goal": {"target": "min_gpus", "sla": {"e2e_ms": 5}}}, "min_gpus requires min_goodput_rps"),
        ({"goal": {"target": "throughput", "min_goodput_rps": 5}}, "only valid for the target min_gpus"),
        (
            {"goal": {"target": "min_gpus", "sla": {"e2e_ms": 5}, "min_goodput_rps": 5}},
            "min_gpus requires workload.request_rate",
        ),
        (
            {"goal": {"target": "pareto", "pareto_objectives": ["min_gpus", "ttft"]}},
            "cannot contain 'min_gpus'",
        ),
        (
            {
                "goal": {"target": "goodput", "sla": {"itl_ms": 5}},
                "space": {"planner_scaling_policy": ["disabled", "load_180_5"]},
            },
            "targets like goodput require an SLA that planners can scale for: set both goal.sla.ttft_ms and",
        ),
    ],
)
def test_refused_goals(config, problem):
    assert problem in refusal(**config)


def test_one_bound_counts_goodput_in_a_fleet_that_does_not_scale(monkeypatch):
    one = changed(RATE, {"goal": {"target": "goodput", "sla": {"ttft_ms": 1e6}}})
    (metrics,) = look(one, monkeypatch).metrics
    assert metrics["goodput_completed_requests"] == metrics["num_requests"]
    (metrics,) = look(changed(one, {"goal.sla": {"ttft_ms": 0.001}}), monkeypatch).metrics
    assert metrics["goodput_completed_requests"] == 0


def test_sizing_drops_fleets_that_scale_with_a_note(monkeypatch):
    asked = {"target": "min_gpus", "sla": {"ttft_ms": 1e6}, "min_goodput_rps": 1.0}
    mixed = changed(RATE, {"goal": asked, "search_space.planner_scaling_policy": ["disabled", "load_180_5"]})
    seen = look(mixed, monkeypatch)
    assert seen.result.candidates[0].score == -1.0
    assert seen.notes == [
        "planner_scaling_policy: dropped 1, because the goal 'min_gpus' sizes fleets that do not scale: "
        "load_180_5"
    ]
    only = changed(mixed, {"search_space.planner_scaling_policy": ["load_180_5"]})
    with pytest.raises(InputError, match="every entry scales, but the goal 'min_gpus'"):
        look(only, monkeypatch)
