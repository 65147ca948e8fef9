"""What is told beside the winner: the best candidates that serve more requests within the SLA."""

from __future__ import annotations

import pytest

from aisimulate.report.attainment import attainment_lines, sla_share
from aisimulate.spica.config import Candidate, OptimizationGoal

GOAL = OptimizationGoal.model_validate({"target": "goodput_per_gpu", "sla": {"ttft_ms": 2000, "itl_ms": 50}})


def candidate(good: float | None, replicas: int, *, arrived: float | None = 1000, tok_s: float = 4000.0):
    """A candidate of `replicas` workers of 2 GPUs that served `good` of `arrived` requests within the SLA."""
    config = {
        "deployment_mode": "agg",
        "backend": "vllm",
        "strategy": "tp",
        "tp": 2,
        "pp": 1,
        "attention_dp": 1,
        "replicas": replicas,
        "agg_max_num_batched_tokens": 8192,
        "agg_max_num_seqs": 256,
        "router_mode": "round_robin",
    }
    counts = {"goodput_completed_requests": good, "num_requests": arrived}
    metrics = {name: value for name, value in counts.items() if value is not None}
    metrics |= {
        "goodput_output_throughput_tok_s": tok_s,
        "output_throughput_tok_s": 2 * tok_s,
        # An hour of the whole fleet.
        "gpu_hours": 2.0 * replicas,
        "duration_ms": 3_600_000.0,
    }
    return Candidate(config=config, used_gpus=2 * replicas, score=tok_s / (2 * replicas), metrics=metrics)


def line(share: str, replicas: int, value: str = "", target: str = "goodput_per_gpu") -> str:
    value = value or f"{4000 / (2 * replicas):,.1f}"
    return f"{share} within the SLA: TP2 x {replicas} on {2 * replicas} GPUs, 8192/256 vllm, {target} {value}"


def ranking(*shares_per_mille: float):
    """Candidates of 1, 2, 3, ... replicas, best first."""
    return [candidate(good, number) for number, good in enumerate(shares_per_mille, 1)]


def test_each_share_has_its_best_candidate():
    lines = attainment_lines(GOAL, ranking(500, 890, 910, 700, 955, 960, 990, 1000))
    assert lines == [line("91.0%", 3), line("95.5%", 5), line("99.0%", 7)]


def test_a_candidate_that_serves_more_than_asked_is_named_once():
    assert attainment_lines(GOAL, ranking(500, 970, 980, 999)) == [line("97.0%", 2), line("99.9%", 4)]
    assert attainment_lines(GOAL, ranking(500, 1000)) == [line("100.0%", 2)]


@pytest.mark.parametrize(
    ("winner", "lines"),
    [
        (900, [line("95.0%", 3), line("99.0%", 4)]),
        (949, [line("95.0%", 3), line("99.0%", 4)]),
        (950, [line("99.0%", 4)]),
        (989, [line("99.0%", 4)]),
        (990, []),
        (1000, []),
    ],
)
def test_what_the_winner_serves_already_is_not_told(winner, lines):
    assert attainment_lines(GOAL, ranking(winner, 899, 950, 990)) == lines


@pytest.mark.parametrize(
    ("shares", "lines"),
    [
        ([500, 400], ["no candidate serves more than 50.0% within the SLA"]),
        ([500, 921], [line("92.1%", 2), "no candidate serves more than 92.1% within the SLA"]),
        (
            [500, 951, 989],
            [line("95.1%", 2), line("98.9%", 3), "no candidate serves more than 98.9% within the SLA"],
        ),
        (
            [500, 600, 600, 550],
            [line("60.0%", 2), "no candidate serves more than 60.0% within the SLA"],
        ),
        ([0, 0], ["no candidate serves any request within the SLA"]),
        ([0, 0.4], [line("<0.1%", 2), "no candidate serves more than <0.1% within the SLA"]),
        ([500, 910, 990], [line("91.0%", 2), line("99.0%", 3)]),
    ],
)
def test_the_highest_share_is_told_where_none_serves_99_per_cent(shares, lines):
    assert attainment_lines(GOAL, ranking(*shares)) == lines


@pytest.mark.parametrize(
    "goal",
    [
        {"target": "throughput"},
        {"target": "pareto", "sla": {"e2e_ms": 9000}},
        {"target": "pareto"},
    ],
)
def test_nothing_is_told_without_an_sla_or_for_a_front(goal):
    assert attainment_lines(OptimizationGoal.model_validate(goal), ranking(500, 1000)) == []


def test_nothing_is_told_without_candidates_or_counts():
    assert attainment_lines(GOAL, []) == []
    assert attainment_lines(GOAL, [candidate(None, 1), candidate(5, 2, arrived=None)]) == []


def test_candidates_without_counts_are_passed_over():
    assert attainment_lines(GOAL, [*ranking(500), candidate(None, 2), candidate(1000, 3)]) == [
        line("100.0%", 3)
    ]


def test_the_value_is_that_of_the_target():
    goal = OptimizationGoal.model_validate({"target": "throughput", "sla": {"e2e_ms": 9000}})
    assert attainment_lines(goal, ranking(500, 1000)) == [line("100.0%", 2, "8,000.0", "throughput")]


def test_the_share_counts_all_requests_that_arrived():
    assert sla_share(candidate(3, 1, arrived=8)) == 0.375
    assert sla_share(candidate(None, 1)) is None
    assert sla_share(candidate(0, 1, arrived=0)) is None
