"""What stands below the ranking: the front as a plot, rivals to verify, the evidence; and prices."""

from __future__ import annotations

import pytest

from aisimulate.cli.runs import main
from aisimulate.report.answer import answer_of_run, answer_text
from aisimulate.report.cost import cost_per_million_tokens
from aisimulate.report.evidence import evidence_line, rivals, verify_lines
from aisimulate.report.figures import figures
from aisimulate.report.front_plot import front_plot_lines
from aisimulate.report.page.facts import evidence
from aisimulate.spica.config import Candidate, OptimizationGoal
from tests.page.made_run import asked, made_run

PARETO = OptimizationGoal.model_validate({"target": "pareto"})


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path))
    return made_run(tmp_path / "made.sqlite", 20, target="goodput_per_gpu")


def point(up, across):
    objectives = {"throughput_per_gpu": up, "throughput_per_user": across}
    return Candidate(config={}, used_gpus=1, score=up, metrics={}, objectives=objectives)


def test_the_plot_has_each_corner_where_it_belongs():
    front = [point(100.0, 1.0), point(50.0, 9.0)]
    lines = front_plot_lines(PARETO, front, [*front, point(0.0, 5.0)])
    assert lines[0].startswith("throughput_per_gpu over throughput_per_user")
    rows = [line.partition("|")[2] for line in lines[1:15]]
    assert rows[0] == "*", "most per GPU, least per user: top left"
    assert rows[7].index("*") == 63
    assert rows[13].index(".") == 32
    assert lines[1].startswith("100.0 |")
    assert lines[14].startswith("  0.0 |")
    assert lines[-1].split() == ["1.000", "9.000"]


def test_one_point_is_no_plot():
    assert front_plot_lines(PARETO, [point(1.0, 1.0)] * 2, []) == []
    assert front_plot_lines(OptimizationGoal(), [point(1.0, 1.0), point(2.0, 2.0)], []) == []


def test_rivals_measured_differently_from_the_best_and_from_each_other(run):
    ranked = run.candidates
    copies = [ranked[0], ranked[0].model_copy(), ranked[1], ranked[1].model_copy(), *ranked[2:]]
    found = rivals(copies, figures(run.config.goal))
    assert [rival.candidate for rival in found] == ranked[1:3], "the next is 23 % behind"
    assert all(rival.gap.startswith("-") for rival in found)
    assert all(" against " in rival.metric for rival in found)
    assert rivals(ranked[:1], figures(run.config.goal)) == []


def test_the_evidence_names_what_the_numbers_were_made_with():
    config = asked(trace="t.jsonl", target="goodput")
    line = evidence_line(config, {"b": "2", "a": "1"}, {"vllm": "0.24.0"}, "0123456789abcdef")
    assert line == (
        "evidence: simulated with a 1, b 2; measurements of vllm 0.24.0 on h200_sxm; additive pass times; "
        "seed 1; trace 0123456789ab"
    )
    assert "trace" not in evidence_line(config, {}, {}, None)


def test_a_price_makes_a_cost():
    metrics = {"gpu_hours": 2.0, "total_output_tokens": 4e6}
    candidate = Candidate(config={}, used_gpus=1, score=0.0, metrics=metrics)
    assert cost_per_million_tokens(candidate, 3.0) == 1.5
    nothing = candidate.model_copy(update={"metrics": {"gpu_hours": 2.0, "total_output_tokens": 0.0}})
    assert cost_per_million_tokens(nothing, 3.0) is None


def test_runs_show_numbers_the_candidates_and_prices_them(run, capsys):
    assert main(["show", "made", "--top", "2", "--gpu-hour-price", "3"]) == 0
    out = capsys.readouterr().out
    head, first = out.splitlines()[1], out.splitlines()[3]
    assert "candidate" in head
    assert "cost per M tokens out" in head
    number = next(a.number for a in run.attempts if a.outcome.candidate is run.candidates[0])
    assert run.candidates[0] == run.attempts[number - 1].outcome.candidate
    assert first.split()[:2] == ["1", str(number)]
    assert "verify on hardware against the closest others:\n  TP" in out
    assert out.endswith("seed 1\n")


def test_a_goal_that_nobody_meets_has_nothing_to_verify(run):
    answer = answer_of_run(run)
    missed = [
        c.model_copy(
            update={
                "metrics": c.metrics
                | {"goodput_completed_requests": 0.0, "goodput_output_throughput_tok_s": 0.0}
            }
        )
        for c in answer.ranked
    ]
    answer = type(answer)(answer.goal, missed, missed, answer.evidence)
    text = answer_text(answer, 3)
    assert "no candidate meets the SLA" in text
    assert "verify on hardware" not in text


def scored(config, *values):
    """Candidates of these throughputs."""
    keys = ("output_throughput_tok_s", "mean_ttft_ms")
    return [
        Candidate(config=config, used_gpus=1, score=value, metrics=dict.fromkeys(keys, value))
        for value in values
    ]


def test_what_is_far_behind_is_no_rival(run):
    config = run.candidates[0].config
    goal = OptimizationGoal.model_validate({"target": "throughput"})
    near, far = scored(config, 100.0, 81.0, 79.0, 17.0), scored(config, 100.0, 79.0, 13.0)
    assert [rival.gap for rival in rivals(near, figures(goal))] == ["-19.0%"]
    assert rivals(far, figures(goal)) == []
    assert verify_lines(goal, far) == [
        "verify on hardware: no other result is within 20% of the first in throughput"
    ]
    assert verify_lines(goal, scored(config, 100.0, 100.0)) == [], "the same result is none to tell apart"


def test_notes_of_the_search_stand_below_the_table_and_on_the_page(tmp_path):
    run = made_run(tmp_path / "made.sqlite", 12)
    run.facts["notes"] = ["a thing was left out"]
    assert "\nnote: a thing was left out\n" in answer_text(answer_of_run(run), 1)
    assert evidence(run)["Notes of the search"] == "a thing was left out"
