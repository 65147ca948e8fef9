"""Suggestions that are asked for while others are replayed, with the same result however fast replays are."""

from __future__ import annotations

import time

import pytest
from search_fakes import (
    BrokenEvaluator,
    Notes,
    ScriptedSampler,
    SeqsEvaluator,
    forget_the_model,
    make_branch,
    make_config,
    suggest,
)

from aisimulate.spica.ledger import Ledger
from aisimulate.spica.loop import Stop
from aisimulate.spica.samplers.random_sampler import RandomSampler
from aisimulate.spica.search import run_search
from aisimulate.spica.time_budget import TimeBudget


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=range(1, 201))])


class WatchedSampler(RandomSampler):
    """Writes down how many outcomes it knew when it was asked, and for how many."""

    def __init__(self, branch):
        super().__init__(branch, seed=5)
        self.asks = []
        self.told = 0

    def suggest(self, count):
        self.asks.append((self.told, count))
        return super().suggest(count)

    def observe(self, suggestion, metrics):
        self.told += 1

    def observe_infeasible(self, suggestion, reason):
        self.told += 1


class UnevenEvaluator(SeqsEvaluator):
    """Some replays take much longer than others."""

    def evaluate(self, plan, *, concurrency_override=None):
        seqs = plan.agg_engine_args["max_num_seqs"]
        time.sleep(0.05 if seqs % 3 == 0 else 0.001)
        if seqs % 7 == 0:
            raise ValueError("no good")
        return super().evaluate(plan, concurrency_override=concurrency_override)


def search(evaluator=None, sampler=None, observer=None, ledger=None, **sweep):
    made = []

    def factory(branch, *, study_id, objectives=None):
        made.append((sampler or WatchedSampler)(branch))
        return made[-1]

    asked = {"asks": "pipelined", "candidates_per_round": 8, "max_rounds": 3, "sampler": "random"} | sweep
    result = run_search(
        make_config(**asked),
        evaluator=evaluator or SeqsEvaluator(),
        sampler_factory=factory,
        observer=observer,
        ledger=ledger,
    )
    return result, made[0]


def test_new_suggestions_are_asked_for_before_all_outcomes_are_known():
    result, sampler = search()
    assert sampler.asks == [(0, 8), *((told, 2) for told in range(2, 18, 2))]
    assert (result.branches[0].rounds, result.branches[0].stop) == (3, Stop.BUDGET)
    assert len(result.candidates) == 24


def test_the_result_does_not_depend_on_which_replay_is_faster():
    runs = [
        search(UnevenEvaluator(), parallel_evals=parallel, max_eval_seconds=cap)
        for parallel, cap in ((1, None), (1, 60), (2, 60))
    ]
    outcomes = [result.outcomes for result, _ in runs]
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert runs[0][1].asks == runs[1][1].asks == runs[2][1].asks
    assert {outcome.status.value for outcome in outcomes[0]} == {"feasible", "failed"}


def test_failures_are_replaced_so_that_rounds_are_full():
    result, _ = search(UnevenEvaluator())
    assert len(result.candidates) == 24
    assert result.branches[0].attempts == 24 + sum(outcome.candidate is None for outcome in result.outcomes)


def test_on_round_comes_with_every_full_round():
    seen = []
    run_search(
        make_config(asks="pipelined", candidates_per_round=5, max_rounds=2, sampler="grid"),
        evaluator=SeqsEvaluator(),
        on_round=lambda number, found: seen.append((number, len(found))),
    )
    assert seen == [(1, 5), (2, 10)]


def test_a_suggestion_under_way_is_not_replayed_twice():
    class Repeating(ScriptedSampler):
        overlaps = True

    evaluator = SeqsEvaluator()
    asks = [[suggest(n) for n in (4, 4, 9, 4, 9, 16, 25, 36)], [suggest(49)], [suggest(64)]]
    result, sampler = search(
        evaluator, sampler=lambda branch: Repeating(branch, asks), max_rounds=1, candidates_per_round=8
    )
    assert [plan.agg_engine_args["max_num_seqs"] for plan in evaluator.plans] == [4, 9, 16, 25, 36, 49, 64]
    assert [seqs for seqs, _ in sampler.told] == [4, 4, 9, 4, 9, 16, 25, 36, 49, 64]
    assert result.progress.tally.cache_hits == 3
    assert result.branches[0].stop is Stop.EXHAUSTED


def test_a_small_space_is_exhausted(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=range(1, 12))])
    result, _ = search()
    assert (len(result.candidates), result.branches[0].stop) == (11, Stop.EXHAUSTED)


def test_a_space_without_feasible_points_stalls():
    result, _ = search(BrokenEvaluator(), candidates_per_round=3)
    assert (result.branches[0].attempts, result.branches[0].stop) == (33, Stop.STALLED)


def test_trials_are_kept():
    result, _ = search(max_trials=13)
    assert (result.branches[0].attempts, result.branches[0].stop) == (13, Stop.BUDGET)


def test_time_ends_it_and_a_ledger_continues_it(monkeypatch, tmp_path):
    now_s = [0.0]
    monkeypatch.setattr(
        "aisimulate.spica.search.TimeBudget", lambda limit: TimeBudget(limit, lambda: now_s[0])
    )

    class Timed(SeqsEvaluator):
        def evaluate(self, plan, *, concurrency_override=None):
            now_s[0] += 1.0
            return super().evaluate(plan, concurrency_override=concurrency_override)

    run, counts = tmp_path / "a.sqlite", []
    for number in range(3):
        with Ledger.open_ledger(run, writable=True) if number else Ledger.create(run) as ledger:
            evaluator = Timed()
            result, _ = search(evaluator, ledger=ledger, max_seconds=10.0)
            counts.append((len(evaluator.plans), len(result.outcomes), result.status))
    assert counts == [(10, 10, "out_of_time"), (10, 20, "out_of_time"), (4, 24, "done")]
    assert result.outcomes == search(SeqsEvaluator(), max_seconds=10.0)[0].outcomes


def test_a_sampler_that_must_know_everything_is_asked_in_rounds_with_a_note():
    class Patient(WatchedSampler):
        overlaps = False

    observer = Notes()
    _, sampler = search(sampler=Patient, observer=observer)
    assert sampler.asks == [(0, 8), (8, 8), (16, 8)]
    assert observer.notes == ["smart-sweep agg: the sampler random is asked in rounds only"]
    observer = Notes()
    run_search(make_config(asks="pipelined", policy="focused"), evaluator=SeqsEvaluator(), observer=observer)
    assert "smart-sweep agg: the sampler focused is asked in rounds only" in observer.notes


def test_the_default_sampler_learns_while_others_are_under_way():
    rounds, pipelined = (
        run_search(
            make_config(asks=asks, sampler="pool-gp", candidates_per_round=8, max_rounds=5),
            evaluator=SeqsEvaluator(),
        )
        for asks in ("rounds", "pipelined")
    )
    tried = [outcome.config["agg_max_num_seqs"] for outcome in pipelined.outcomes]
    assert len(tried) == len(set(tried))
    assert pipelined.candidates[0].score == rounds.candidates[0].score == 200.0
