"""Where no candidate serves a request within the SLA, none is called the winner."""

from __future__ import annotations

import pytest
from test_attainment import candidate as served

from aisimulate.report.missed_sla import is_sla_missed, nearest_to_sla
from aisimulate.report.ranking import ranking_text
from aisimulate.spica.config import OptimizationGoal

TOKENS = {"ttft_ms": 2000, "itl_ms": 50}
GOAL = OptimizationGoal.model_validate({"target": "goodput_per_gpu", "sla": TOKENS})


def missing(replicas: int, **means: float):
    """A candidate that served nothing within the SLA."""
    made = served(0, replicas, tok_s=0.0)
    made.metrics.update({f"mean_{name}_ms": mean for name, mean in means.items()})
    made.metrics["completed_requests"] = 1000.0
    made.config["backend"] = "other"  # has no launch command
    return made


def test_the_nearest_candidate_is_shown_instead_of_a_winner():
    slow, near = missing(1, ttft=9000.0, itl=10.0), missing(2, ttft=2100.0, itl=75.0)
    text = ranking_text(GOAL, [slow, near, missing(3, ttft=100.0, itl=100.0)], 10)
    assert "winning configuration" not in text
    assert "if more requests" not in text
    assert "more than 0.0%" not in text
    assert (
        "no candidate meets the SLA (ttft_ms: 2,000, itl_ms: 50): none serves a single request within it\n"
        "nearest to the SLA (mean TTFT 2,100.0 of 2,000 ms, mean ITL 75.0 of 50 ms):\n"
        "  deployment_mode: agg\n"
    ) in text
    assert "\n  replicas: 2\n" in text
    assert "requests: 1,000 of 1,000 completed, 0 within the SLA" in text
    # The table keeps the order of the ranking.
    rows = [line.split()[2] for line in text.splitlines() if " TP2 " in line]
    assert rows == ["1", "2", "3"]


def test_the_worst_ratio_counts_and_the_first_of_equal_ones_is_taken():
    candidates = [missing(1, ttft=4000.0, itl=10.0), missing(2, ttft=10.0, itl=100.0), missing(3, itl=1.0)]
    assert nearest_to_sla(GOAL.sla, candidates) is candidates[0]
    e2e = OptimizationGoal.model_validate({"target": "goodput", "sla": {"e2e_ms": 100}}).sla
    candidates = [missing(1, e2e_latency=300.0), missing(2, e2e_latency=200.0)]
    assert nearest_to_sla(e2e, candidates) is candidates[1]


@pytest.mark.parametrize(
    ("goal", "missed"),
    [
        (GOAL, True),
        (OptimizationGoal.model_validate({"target": "throughput", "sla": TOKENS}), False),
        (
            OptimizationGoal.model_validate(
                {"target": "pareto", "pareto_objectives": ["throughput", "goodput"], "sla": TOKENS}
            ),
            True,
        ),
        (OptimizationGoal.model_validate({"target": "pareto", "sla": TOKENS}), False),
    ],
)
def test_only_a_goal_that_counts_goodput_can_miss_its_sla(goal, missed):
    assert is_sla_missed(goal, [missing(1), missing(2)]) is missed


def test_one_request_within_the_sla_makes_a_winner():
    assert not is_sla_missed(GOAL, [missing(1), served(1, 2, tok_s=0.1)])
    # A good request without output tokens counts, too.
    assert not is_sla_missed(GOAL, [missing(1), served(1, 2, tok_s=0.0)])


def test_a_winner_by_another_goal_still_says_that_none_is_within():
    goal = OptimizationGoal.model_validate({"target": "throughput", "sla": TOKENS})
    text = ranking_text(goal, [missing(1)], 10)
    assert "winning configuration" in text
    assert text.endswith(
        "if more requests must meet the SLA:\n  no candidate serves any request within the SLA\n"
    )
