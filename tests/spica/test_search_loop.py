"""The round loop: budgets, duplicates, caching, exhaustion, and what the sampler is told."""

from __future__ import annotations

import sys
from fractions import Fraction

import pytest
from search_fakes import (
    TP4_TWICE,
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
from aisimulate.spica.outcome import Outcome, Reason, Status
from aisimulate.spica.parallel_enum import ParallelShape, ReplicaParallelConfig
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.search import run_search


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=range(1, 1025))])


def run(
    asks, *, evaluator=None, repeat=False, on_round=None, sampler=None, observer=None, ledger=None, **config
):
    """Search with scripted asks; return (result, sampler)."""
    made = []

    def factory(branch, *, study_id, objectives=None):
        made.append(sampler or ScriptedSampler(branch, asks, repeat=repeat))
        return made[-1]

    result = run_search(
        make_config(**({"candidates_per_round": 3} | config)),
        evaluator=evaluator or SeqsEvaluator(),
        sampler_factory=factory,
        on_round=on_round,
        observer=observer,
        ledger=ledger,
    )
    return result, made[0]


def statuses(result):
    return [outcome.status.value for outcome in result.outcomes]


def test_ranks_and_records_what_it_measured():
    evaluator = SeqsEvaluator()
    result, sampler = run([[suggest(512), suggest(256), suggest(768)]], evaluator=evaluator)
    assert [candidate.score for candidate in result.candidates] == [768.0, 512.0, 256.0]
    assert {candidate.used_gpus for candidate in result.candidates} == {8}
    assert result.candidates[0].config["backend_version"] == "vllm-1"
    assert result.candidates[0].config["concurrency"] == 4
    assert sampler.told == [(n, {"objective": float(n)}) for n in (512, 256, 768)]
    assert evaluator.overrides == [None] * 3


def test_duplicates_share_one_replay_and_do_not_use_up_the_round():
    evaluator = SeqsEvaluator()
    result, sampler = run([[suggest(256)] * 3, [suggest(512), suggest(768)]], evaluator=evaluator)
    assert len(evaluator.plans) == 3
    assert [seqs for seqs, _ in sampler.told] == [256, 256, 256, 512, 768]
    assert result.progress.tally.cache_hits == 2
    assert result.branches[0].stop is Stop.BUDGET


def test_results_meet_their_suggestions_across_duplicates():
    order = (256, 256, 512, 256, 768, 512)
    result, sampler = run([[suggest(n) for n in order]], candidates_per_round=6)
    assert sampler.told == [(n, {"objective": float(n)}) for n in order]
    assert len(result.outcomes) == 3


def test_a_later_round_reuses_an_earlier_measurement():
    evaluator = SeqsEvaluator()
    asks = [[suggest(n) for n in (256, 512, 768)], [suggest(256), suggest(1024)], [suggest(1)], [suggest(2)]]
    _, sampler = run(asks, evaluator=evaluator, max_rounds=2)
    assert [plan.agg_engine_args["max_num_seqs"] for plan in evaluator.plans] == [256, 512, 768, 1024, 1, 2]
    assert sampler.told[3] == (256, {"objective": 256.0})


def test_samples_that_differ_only_in_an_inert_knob_share_one_replay():
    evaluator = SeqsEvaluator()
    asks = [[suggest(256, overlap_score_credit=credit) for credit in (0.0, 0.5, 1.0)]]
    result, _ = run(asks, evaluator=evaluator)
    assert len(evaluator.plans) == 1
    assert result.progress.tally.cache_hits == 2


def test_distinct_failing_samples_end_at_eleven_times_the_round():
    evaluator = BrokenEvaluator()
    asks = [[suggest(3 * ask + n) for n in (1, 2, 3)] for ask in range(20)]
    result, sampler = run(asks, evaluator=evaluator)
    assert len(sampler.told) == evaluator.calls == 33
    assert all(reason.startswith("replay failed: OSError: no such\\nplan") for _, reason in sampler.told)
    assert result.candidates == []
    assert result.branches[0].stop is Stop.STALLED
    assert {outcome.category for outcome in result.outcomes} == {Reason.REPLAY_RUNTIME}


def test_a_failure_is_not_replayed_again():
    evaluator = BrokenEvaluator()
    result, sampler = run([[suggest(256)] * 3], repeat=True, evaluator=evaluator)
    assert evaluator.calls == 1
    assert len(sampler.told) == 33
    assert result.progress.tally.cache_hits == 32


def test_a_pinned_space_ends_as_exhausted(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=(256,))])
    result, sampler = run([[suggest(256)] * 3], repeat=True, max_rounds=5)
    report = result.branches[0]
    assert (report.stop, report.rounds, report.finite_size) == (Stop.EXHAUSTED, 1, 1)
    assert len(sampler.told) == 5  # three, of which two are duplicates; then two that bring nothing new
    assert len(result.candidates) == 1


def test_an_empty_answer_ends_the_branch_without_a_round_of_its_own():
    rounds = []
    result, _ = run(
        [[suggest(n) for n in (256, 512, 768)]], max_rounds=4, on_round=lambda n, found: rounds.append(n)
    )
    assert rounds == [1]
    assert result.branches[0].stop is Stop.EXHAUSTED


def test_unsupported_pairs_are_told_and_never_evaluated():
    evaluator = SeqsEvaluator()
    asks = [[suggest(3 * ask + n, backend="sglang") for n in (1, 2, 3)] for ask in range(20)]
    result, sampler = run(asks, evaluator=evaluator)
    assert evaluator.plans == []
    assert len(sampler.told) == 33
    assert "does not support" in sampler.told[0][1]
    assert result.progress.tally.count(Status.UNSUPPORTED) == 33
    assert result.progress.tally.evaluated == 0


def test_a_plan_over_budget_is_gated_before_its_replay(monkeypatch):
    big = ReplicaParallelConfig(ParallelShape(8, 1, 1, 1), 8)
    forget_the_model(monkeypatch, [make_branch((big,))])
    evaluator = SeqsEvaluator()
    result, sampler = run([[suggest(256, big)]], evaluator=evaluator)
    assert evaluator.plans == []
    assert sampler.told == [(256, "over gpu_budget: 64 GPUs > 8")]
    assert (result.outcomes[0].status, result.outcomes[0].category) == (Status.INFEASIBLE, Reason.GPU_BUDGET)


def test_a_bad_selection_fails_alone():
    result, sampler = run([[suggest(None), suggest(256)]])
    assert sampler.told[0][1].startswith("candidate build failed: KeyError:")
    assert statuses(result) == ["failed", "feasible"]
    assert result.outcomes[0].category is Reason.CANDIDATE_MATERIALIZATION


def test_every_branch_is_visited_even_after_a_stall(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(), make_branch(mode="disagg")])
    seen = []

    def factory(branch, *, study_id, objectives=None):
        seen.append((branch.deployment_mode, study_id))
        return ScriptedSampler(branch, [])

    result = run_search(make_config(), evaluator=SeqsEvaluator(), sampler_factory=factory)
    assert [mode for mode, _ in seen] == ["agg", "disagg"]
    assert all(study.startswith(f"spica_{mode}_") for mode, study in seen)
    assert len(result.branches) == 2


def test_rounds_are_numbered_over_all_branches_and_see_feasible_candidates_only(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=(256, 512)), make_branch(seqs=(768, 1024))])
    seen = []

    def factory(branch, *, study_id, objectives=None):
        return ScriptedSampler(branch, [[suggest(256)], [suggest(512)], [suggest(768)], [suggest(1024)]])

    run_search(
        make_config(max_rounds=2, candidates_per_round=1),
        evaluator=SeqsEvaluator(),
        sampler_factory=factory,
        on_round=lambda number, found: seen.append((number, [c.score for c in found])),
    )
    both = [256.0, 512.0]
    assert seen == [(1, [256.0]), (2, both), (3, [*both, 768.0]), (4, [*both, 768.0, 1024.0])]


def test_an_exception_in_on_round_ends_the_search():
    def explode(number, found):
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        run([[suggest(256)]], on_round=explode)


def test_a_caller_that_exits_leaves_an_interrupted_record(tmp_path):
    """As the signal handler of a program does that calls us."""
    with Ledger.create(tmp_path / "run.sqlite") as ledger:
        with pytest.raises(SystemExit):
            run([[suggest(256)]], on_round=lambda number, found: sys.exit(7), ledger=ledger)
        assert ledger.progress() == {"attempts": 1, "status": "interrupted"}


class _Ticklish(SeqsEvaluator):
    """Measures once, then the user presses Ctrl-C."""

    def evaluate(self, plan, *, concurrency_override=None):
        if self.plans:
            raise KeyboardInterrupt
        return super().evaluate(plan, concurrency_override=concurrency_override)


def test_ctrl_c_keeps_what_was_found():
    result, _ = run([[suggest(256), suggest(512), suggest(768)]], evaluator=_Ticklish())
    assert result.interrupted
    assert [candidate.score for candidate in result.candidates] == [256.0]
    assert result.branches[0].stop is Stop.INTERRUPTED


@pytest.mark.parametrize(
    ("report", "category"),
    [
        ({"output_throughput_tok_s": float("nan")}, Reason.INVALID_METRICS),
        ({"mean_ttft_ms": float("inf")}, Reason.INVALID_METRICS),
        ({"completed_requests": 0}, Reason.NO_SAMPLES),
    ],
)
def test_reports_that_measure_nothing_are_failures(report, category):
    result, sampler = run([[suggest(256)]], evaluator=SeqsEvaluator(**report))
    assert result.candidates == []
    assert result.outcomes[0].category is category
    assert sampler.told[0][1].startswith("replay failed: ")


def test_a_timed_out_candidate_is_not_measured_again(monkeypatch):
    calls = []

    def slow(task, context):
        calls.append(task.key)
        return Outcome(Status.TIMED_OUT, task.config, category=Reason.RUNTIME_TIMEOUT, reason="slow")

    monkeypatch.setattr("aisimulate.spica.executor.measure", slow)
    result, sampler = run([[suggest(256)]] * 4, max_rounds=1)
    assert len(calls) == 1
    assert len(sampler.told) == 4
    assert result.progress.tally.count(Status.TIMED_OUT) == 1
    assert result.progress.tally.cache_hits == 3


def test_pareto_samplers_get_objectives_and_raw_vectors():
    goal = {"target": "pareto", "pareto_objectives": ["throughput", "e2e_latency"]}
    given = []

    def factory(branch, *, study_id, objectives=None):
        given.append(objectives)
        given.append(ScriptedSampler(branch, [[suggest(256), suggest(512)]]))
        return given[1]

    result = run_search(
        make_config(goal=goal, candidates_per_round=2),
        evaluator=SeqsEvaluator(mean_e2e_latency_ms=70.0),
        sampler_factory=factory,
    )
    assert given[0] == [("throughput", True), ("e2e_latency", False)]
    assert given[1].told[0] == (256, {"throughput": 256.0, "e2e_latency": 70.0})
    assert [candidate.score for candidate in result.candidates] == [512.0]


def test_used_gpus_come_from_the_plan():
    assert TP4_TWICE.total_gpus == 8


def test_more_suggestions_than_asked_for_are_cut_with_one_note():
    class Generous(ScriptedSampler):
        def suggest(self, count):
            return super().suggest(count + 40)

    observer, evaluator = Notes(), SeqsEvaluator()
    asks = [[suggest(50 * round_ + n) for n in range(1, 44)] for round_ in range(2)]
    made = []

    def factory(branch, *, study_id, objectives=None):
        made.append(Generous(branch, asks))
        return made[-1]

    result = run_search(
        make_config(candidates_per_round=3, max_rounds=2),
        evaluator=evaluator,
        sampler_factory=factory,
        observer=observer,
    )
    assert [seqs for seqs, _ in made[0].told] == [1, 2, 3, 51, 52, 53]
    assert result.branches[0].stop is Stop.BUDGET
    assert observer.notes == [
        "smart-sweep agg: the sampler gave more suggestions than asked for; those are ignored"
    ]


def test_a_capacity_nobody_can_tell_is_noted_once(monkeypatch):
    def unknown(*args, **kwargs):
        raise RuntimeError("no data\nfor this model")

    monkeypatch.setattr("aisimulate.spica.evaluate.check_kv_capacity", unknown)
    observer = Notes()
    run([[suggest(1), suggest(2), suggest(3)]], observer=observer)
    assert observer.notes == [
        "smart-sweep agg: the KV capacity of candidates could not be checked: no data\\nfor this model"
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"agg_max_num_seqs": 7000}, "agg_max_num_seqs=7000 is not one of [1, 2, 3"),
        ({"agg_max_num_seqs": True}, "agg_max_num_seqs=True is not one of [1, 2"),
        ({"agg_max_num_seqs": float("nan")}, "agg_max_num_seqs=nan is not one of [1, 2"),
        ({"agg_max_num_seqs": {3}}, "agg_max_num_seqs={3} is not one of [1, 2"),
        ({"router_mode": "\x1b[31m"}, "router_mode='\\x1b[31m' is not one of ['round_robin']"),
        ({"planner_scaling_policy": {"a": {1: 2}}}, "planner_scaling_policy={'a': {1: 2}} is not one of"),
        ({"deployment_mode": "disagg"}, "deployment_mode='disagg' is not one of ['agg']"),
        ({"backend": ["vllm"]}, "backend=['vllm'] is not one of ['vllm']"),
    ],
)
def test_a_value_outside_the_branch_fails_alone_and_is_no_point_of_it(change, reason):
    evaluator = SeqsEvaluator()
    bad = Suggestion(suggest().selection | change, TP4_TWICE)
    result, sampler = run([[bad, suggest(256)]], evaluator=evaluator)
    assert statuses(result) == ["failed", "feasible"]
    assert result.outcomes[0].category is Reason.RUNNER_CONTRACT
    assert result.outcomes[0].reason.startswith(f"suggestion outside the search space: {reason}")
    assert len(evaluator.plans) == result.branches[0].tried_points == 1
    assert sampler.told[0][1] == result.outcomes[0].reason


def test_a_value_outside_the_branch_fails_alone_whatever_its_pools_are():
    odd = ReplicaParallelConfig(ParallelShape([4], 1, 1, 1), 2)  # nothing that has a hash
    result, _ = run([[suggest(7000, odd), suggest(256)]])
    assert statuses(result) == ["failed", "feasible"]


def test_points_outside_a_branch_do_not_exhaust_it(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=(256,))])
    asks = [[suggest(n)] for n in (1, 1, 2, 2, 256)]
    result, _ = run(asks, candidates_per_round=1)
    assert [candidate.score for candidate in result.candidates] == [256.0]
    assert result.branches[0].stop is Stop.BUDGET


def test_a_value_is_taken_as_the_branch_writes_it():
    evaluator = SeqsEvaluator()
    asks = [[suggest(256), suggest(256.0), suggest(Fraction(256))]]
    result, sampler = run(asks, evaluator=evaluator)
    assert [plan.agg_engine_args["max_num_seqs"] for plan in evaluator.plans] == [256]
    assert result.progress.tally.cache_hits == 2
    assert [type(seqs) for seqs, _ in sampler.told] == [int, float, Fraction]


def test_a_range_bounds_a_suggestion(monkeypatch):
    branch = make_branch(seqs=range(1, 5), float_ranges={"kv_load_ratio": (0.25, 0.5)})
    forget_the_model(monkeypatch, [branch])
    loads = (0.2, float("nan"), "0.3", 0.25)
    result, sampler = run([[suggest(1, kv_load_ratio=load) for load in loads]], candidates_per_round=4)
    assert statuses(result) == ["failed", "failed", "failed", "feasible"]
    assert sampler.told[0][1].endswith("kv_load_ratio=0.2 is not a number from 0.25 to 0.5")


@pytest.mark.parametrize(
    "report", [None, {}, {"output_throughput_tok_s": "9"}, {"output_throughput_tok_s": True}]
)
def test_no_report_no_score(report):
    class Odd:
        def evaluate(self, plan, *, concurrency_override=None):
            return report

    result, _ = run([[suggest(256)]], evaluator=Odd())
    assert statuses(result) == ["failed"]
    assert result.candidates == []


def test_an_evaluator_that_ends_the_program_fails_alone():
    class Quitter(SeqsEvaluator):
        def evaluate(self, plan, *, concurrency_override=None):
            if plan.agg_engine_args["max_num_seqs"] == 512:
                raise SystemExit("bye")
            return super().evaluate(plan)

    result, _ = run([[suggest(256), suggest(512), suggest(768)]], evaluator=Quitter())
    assert statuses(result) == ["feasible", "failed", "feasible"]
    assert result.outcomes[1].category is Reason.REPLAY_RUNTIME
    assert result.outcomes[1].reason == "replay failed: SystemExit: bye"
