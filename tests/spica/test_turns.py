"""Deployment modes searched a round of each in turn."""

from __future__ import annotations

import pytest
from search_fakes import SeqsEvaluator, forget_the_model, make_branch, make_config
from test_search_budgets import Clock, TimedEvaluator

from aisimulate.spica.ledger import Ledger
from aisimulate.spica.loop import Stop
from aisimulate.spica.plan import plan_search
from aisimulate.spica.search import run_search
from aisimulate.spica.time_budget import TimeBudget

# Hundreds of points each, but for the second one.
BRANCHES = [
    make_branch(seqs=range(100, 200)),
    make_branch(seqs=range(201, 204)),
    make_branch(seqs=range(300, 400)),
]


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    forget_the_model(monkeypatch, BRANCHES)


def turns(evaluator=None, ledger=None, **sweep):
    """Search in turn; return the result and, in order, the branch (its hundreds) of each replay."""
    evaluator = evaluator or SeqsEvaluator()
    asked = {"sampler": "grid", "candidates_per_round": 2, "mode_order": "interleaved"} | sweep
    result = run_search(make_config(**asked), evaluator=evaluator, ledger=ledger)
    return result, [plan.agg_engine_args["max_num_seqs"] // 100 for plan in evaluator.plans]


def test_modes_have_a_round_each_in_turn_and_give_away_what_they_do_not_need():
    result, replayed = turns(max_rounds=4)
    assert [report.stop for report in result.branches] == [Stop.BUDGET, Stop.EXHAUSTED, Stop.BUDGET]
    assert [report.rounds for report in result.branches] == [5, 2, 5]
    assert replayed == [1, 1, 2, 2, 3, 3, 1, 1, 2, 3, 3, *[1, 1, 3, 3] * 3]


def test_one_after_the_other_they_do_not():
    result, replayed = turns(max_rounds=4, mode_order="one_by_one")
    assert [report.rounds for report in result.branches] == [4, 2, 4]
    assert replayed == [1] * 8 + [2] * 3 + [3] * 8


def test_a_search_that_ends_early_has_seen_all_modes(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("aisimulate.spica.search.TimeBudget", lambda limit: TimeBudget(limit, clock))
    result, replayed = turns(TimedEvaluator(clock), max_rounds=100, max_seconds=7.0)
    assert replayed == [1, 1, 2, 2, 3, 3, 1]
    assert result.status == "out_of_time"
    assert {report.stop for report in result.branches} == {Stop.TIME}


def test_trials_are_common():
    result, replayed = turns(max_trials=11, max_rounds=100)
    assert [report.attempts for report in result.branches] == [4, 3, 4]
    assert len(replayed) == 11


def test_an_interrupted_search_goes_on_to_the_same_end(tmp_path):
    whole, _ = turns(max_rounds=3)

    class Ticklish(SeqsEvaluator):
        def evaluate(self, plan, *, concurrency_override=None):
            if len(self.plans) == 7:
                raise KeyboardInterrupt
            return super().evaluate(plan, concurrency_override=concurrency_override)

    with Ledger.create(tmp_path / "run.sqlite") as ledger:
        broken, _ = turns(Ticklish(), ledger, max_rounds=3)
    with Ledger.open_ledger(tmp_path / "run.sqlite", writable=True) as ledger:
        resumed, replayed = turns(None, ledger, max_rounds=3)
    assert (broken.status, resumed.status, len(replayed)) == ("interrupted", "done", len(whole.outcomes) - 7)
    assert resumed.outcomes == whole.outcomes


def test_asks_ahead_of_outcomes_are_refused():
    with pytest.raises(ValueError, match="mode_order: interleaved needs asks rounds, got pipelined"):
        make_config(mode_order="interleaved", asks="pipelined")


def test_one_mode_alone_has_nothing_to_take_turns_with(monkeypatch):
    config = make_config(sampler="grid", mode_order="interleaved")
    note = "sweep.mode_order: interleaved changes nothing, as one deployment mode is searched"
    assert note not in plan_search(config).notes
    forget_the_model(monkeypatch, BRANCHES[:1])
    assert note in plan_search(config).notes
    assert note not in plan_search(make_config(sampler="grid")).notes
