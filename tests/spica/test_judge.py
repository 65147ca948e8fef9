"""What an evaluator's report becomes: a score, or a failure that says what is wrong with it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from aisimulate.spica.config import OptimizationGoal
from aisimulate.spica.judge import judge, needed_metrics
from aisimulate.spica.outcome import Reason, Status
from aisimulate.spica.score import objective_value

KEY = "output_throughput_tok_s"
SLA = {"ttft_ms": 100.0, "itl_ms": 10.0}


def judged(report, **goal):
    return judge({"used_gpus": 8}, report, OptimizationGoal.model_validate({"target": "throughput"} | goal))


@pytest.mark.parametrize(
    ("report", "category", "reason"),
    [
        (None, Reason.RUNNER_CONTRACT, "the evaluator returned None, not a mapping of metrics"),
        (
            "fast",
            Reason.RUNNER_CONTRACT,
            "the evaluator returned a value of type str, not a mapping of metrics",
        ),
        (
            [(KEY, 1.0)],
            Reason.RUNNER_CONTRACT,
            "the evaluator returned a value of type list, not a mapping of metrics",
        ),
        ({}, Reason.RUNNER_CONTRACT, f"the report has no {KEY}, which the goal needs"),
        ({KEY.upper(): 3.0}, Reason.RUNNER_CONTRACT, f"the report has no {KEY}, which the goal needs"),
        ({KEY: "12"}, Reason.INVALID_METRICS, f"not a number: {KEY} is a value of type str"),
        ({KEY: 1 + 2j}, Reason.INVALID_METRICS, f"not a number: {KEY} is a value of type complex"),
        ({KEY: True}, Reason.INVALID_METRICS, f"not a number: {KEY} is a value of type bool"),
        ({KEY: None}, Reason.INVALID_METRICS, f"not a number: {KEY} is None"),
        ({KEY: [1.0]}, Reason.INVALID_METRICS, f"not a number: {KEY} is a value of type list"),
        ({KEY: float("nan")}, Reason.INVALID_METRICS, f"not a finite number: {KEY}=nan, score=nan"),
        ({KEY: 10**400}, Reason.INVALID_METRICS, f"not a finite number: {KEY}=inf, score=inf"),
        ({KEY: 1.0, "x": float("inf")}, Reason.INVALID_METRICS, "not a finite number: x=inf"),
        (
            {KEY: 1.0, "completed_requests": 0},
            Reason.NO_SAMPLES,
            "no request completed, so nothing was measured",
        ),
    ],
)
def test_a_report_without_a_measurement_is_a_failure(report, category, reason):
    outcome = judged(report)
    assert (outcome.status, outcome.category, outcome.candidate) == (Status.FAILED, category, None)
    assert outcome.reason == f"replay failed: {reason}"
    assert outcome.used_gpus == 8


@pytest.mark.parametrize(("value", "score"), [(0, 0.0), (0.0, 0.0), (7, 7.0), (Fraction(1, 4), 0.25)])
def test_a_measured_number_is_a_result_and_so_is_zero(value, score):
    outcome = judged({KEY: value, "engine": "fake", 3: 4})
    assert (outcome.status, outcome.candidate.score) == (Status.FEASIBLE, score)
    assert outcome.candidate.metrics == {KEY: score}


@pytest.mark.parametrize(
    "goal",
    [
        {"target": "throughput"},
        {"target": "throughput_per_gpu"},
        {"target": "throughput_per_user"},
        {"target": "e2e_latency"},
        {"target": "goodput", "sla": SLA},
        {"target": "goodput_per_gpu", "sla": SLA},
        {"target": "pareto", "pareto_objectives": ["throughput_per_gpu", "throughput_per_user"]},
    ],
)
def test_every_goal_fails_without_any_one_of_its_metrics(goal):
    needed = needed_metrics(OptimizationGoal.model_validate(goal))
    full = dict.fromkeys(needed, 5.0)
    assert judged(full, **goal).status is Status.FEASIBLE
    for name in needed:
        outcome = judged({key: value for key, value in full.items() if key != name}, **goal)
        assert (outcome.category, name in outcome.reason) == (Reason.RUNNER_CONTRACT, True)


@pytest.mark.parametrize(
    "target",
    ["throughput", "throughput_per_gpu", "throughput_per_user", "e2e_latency", "goodput", "goodput_per_gpu"],
)
def test_the_needed_metrics_are_those_the_score_is_made_of(target):
    sla = {"sla": SLA} if target.startswith("goodput") else {}
    goal = OptimizationGoal.model_validate({"target": target} | sla)

    asked = set()

    class Recorder(dict):
        def get(self, key, default=None):
            asked.add(key)
            return 5.0

    objective_value(Recorder(), target)
    assert asked == set(needed_metrics(goal))
