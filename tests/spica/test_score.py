"""Scores, ranking and Pareto fronts (spec 05 section 2)."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.spica.config import Candidate, OptimizationTarget
from aisimulate.spica.score import (
    avg_gpu,
    is_feasible,
    make_candidate,
    objective_value,
    objective_vector,
    pareto_front,
    rank,
    score_report,
)

CASES = json.loads((Path(__file__).parents[1] / "data" / "search" / "score_cases.json").read_text())
REPORT = {
    "output_throughput_tok_s": 5000.0,
    "goodput_output_throughput_tok_s": 4000.0,
    "mean_output_token_throughput_per_user": 50.0,
    "mean_e2e_latency_ms": 1200.0,
    "gpu_hours": 2.0,
    "duration_ms": 1_800_000.0,
}


def candidate(name, score=0.0, used_gpus=1, objectives=None):
    return Candidate(config={"id": name}, used_gpus=used_gpus, score=score, metrics={}, objectives=objectives)


def names(candidates):
    return [candidate.config["id"] for candidate in candidates]


@pytest.mark.parametrize("case", CASES["scores"])
def test_stored_scores(case):
    assert avg_gpu(case["report"]) == case["avg_gpu"]
    for target, expected in case["objective"].items():
        assert objective_value(case["report"], target) == float(expected)
    for target, expected in case.get("score", {}).items():
        assert score_report(case["report"], target) == float(expected)


@pytest.mark.parametrize("case", CASES["rank"])
def test_stored_rankings(case):
    rows = [candidate(row["id"], row["score"], row["used_gpus"]) for row in case["candidates"]]
    assert names(rank(rows)) == case["order"]


@pytest.mark.parametrize("case", CASES["pareto"])
def test_stored_fronts(case):
    objectives = case["objectives"]
    rows = [
        candidate(row["id"], objectives={name: row[name] for name in objectives}) for row in case["points"]
    ]
    assert names(pareto_front(rows, objectives)) == case["front"]


def test_values_of_one_report():
    values = {
        target.value: objective_value(REPORT, target)
        for target in OptimizationTarget
        if target is not OptimizationTarget.PARETO
    }
    assert values == {
        "throughput": 5000.0,
        "throughput_per_gpu": 1250.0,
        "throughput_per_user": 50.0,
        "e2e_latency": 1200.0,
        "ttft": math.inf,
        "itl": math.inf,
        "goodput": 4000.0,
        "goodput_per_gpu": 1000.0,
        "min_gpus": 4.0,
    }
    assert score_report(REPORT, "e2e_latency") == -1200.0


def test_errors():
    with pytest.raises(ValueError, match="multi-objective"):
        objective_value(REPORT, OptimizationTarget.PARETO)
    with pytest.raises(ValueError, match="unknown optimization target"):
        objective_value(REPORT, "speed")
    with pytest.raises(ValueError, match="pareto_objectives"):
        make_candidate({}, REPORT, "pareto")


def test_vector_is_unsigned_and_ordered():
    vector = objective_vector(REPORT, [OptimizationTarget.E2E_LATENCY, "throughput"])
    assert list(vector.items()) == [("e2e_latency", 1200.0), ("throughput", 5000.0)]


def test_budget_is_inclusive():
    assert is_feasible(8, 8)
    assert not is_feasible(9, 8)


def test_candidate_keeps_every_numeric_metric():
    report = {**REPORT, "completed_requests": 7, "backend": "vllm", "is_static": True, "per_request": [1]}
    made = make_candidate({"used_gpus": 4, "tp": 2}, report, OptimizationTarget.THROUGHPUT_PER_GPU)
    assert made.config == {"used_gpus": 4, "tp": 2}
    assert made.used_gpus == 4
    assert made.score == 1250.0
    assert made.objectives is None
    assert made.metrics == {**REPORT, "completed_requests": 7.0}
    assert make_candidate({}, REPORT, "throughput").used_gpus == 0


def test_pareto_candidate_headlines_its_first_objective():
    made = make_candidate({}, REPORT, "pareto", pareto_objectives=["e2e_latency", "throughput"])
    assert made.score == 1200.0
    assert made.objectives == {"e2e_latency": 1200.0, "throughput": 5000.0}


def test_front_minimises_latency_and_sorts_by_the_last_objective_ascending():
    points = {"a": (10, 900), "b": (20, 1000), "c": (5, 950), "d": (30, 5000)}
    rows = [
        candidate(name, objectives={"throughput": tput, "e2e_latency": latency})
        for name, (tput, latency) in points.items()
    ]
    assert names(pareto_front(rows, ["throughput", "e2e_latency"])) == ["a", "b", "d"]
    assert names(pareto_front(rows, ["e2e_latency", "throughput"])) == ["a", "b", "d"]


def test_equal_points_go_by_fewer_gpus_then_order():
    vector = {"throughput": 1.0, "goodput": 1.0}
    rows = [candidate(n, used_gpus=gpus, objectives=vector) for n, gpus in (("a", 4), ("b", 2), ("c", 4))]
    assert names(pareto_front(rows, ["throughput", "goodput"])) == ["b", "a", "c"]


def test_candidates_without_objectives_are_no_part_of_a_front():
    assert pareto_front([candidate("a", score=5)], ["throughput", "goodput"]) == []


VALUES = st.integers(0, 6).map(float)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=20))
def test_front_is_exactly_what_nothing_dominates(points):
    rows = [
        candidate(index, objectives={"throughput": up, "e2e_latency": down})
        for index, (up, down) in enumerate(points)
    ]

    def beaten(point):
        return any(other[0] >= point[0] and other[1] <= point[1] and other != point for other in points)

    expected = {index for index, point in enumerate(points) if not beaten(point)}
    front = pareto_front(rows, ["throughput", "e2e_latency"])
    assert set(names(front)) == expected
    latencies = [row.objectives["e2e_latency"] for row in front]
    assert latencies == sorted(latencies)


@given(st.lists(st.tuples(VALUES, st.integers(1, 3)), max_size=20))
def test_ranking_is_total_and_stable(rows):
    ranked = rank(candidate(index, score, gpus) for index, (score, gpus) in enumerate(rows))
    keys = [(-row.score, row.used_gpus, row.config["id"]) for row in ranked]
    assert keys == sorted(keys)
    assert not any(math.isnan(row.score) for row in ranked)


def test_a_report_key_that_is_no_text_is_refused_in_one_line():
    with pytest.raises(ValueError, match=r"^the keys of a report must be texts, got 5$"):
        make_candidate({"used_gpus": 1}, {**REPORT, 5: 1.0}, "throughput")
