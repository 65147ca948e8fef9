"""The path of one suggestion: its key, its gates, its outcome."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from search_fakes import SeqsEvaluator, evaluate_one, forget_the_model, make_context, suggest

from aisimulate.core.errors import InputError, ReplayError, TimingError, UnsupportedError
from aisimulate.spica.evaluate import Prepared, measure, prepare
from aisimulate.spica.evaluator import RunnerContractError
from aisimulate.spica.kv_load import InfeasibleKVCapacity
from aisimulate.spica.outcome import Outcome, Reason, Status


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    forget_the_model(monkeypatch)


class Raising:
    def __init__(self, error):
        self._error = error

    def evaluate(self, plan, *, concurrency_override=None):
        raise self._error


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (UnsupportedError("tiers"), Reason.ADAPTER_CONSTRAINT),
        (TimingError("no rows"), Reason.DATA_GAP),
        (RunnerContractError("no goodput"), Reason.RUNNER_CONTRACT),
        (ReplayError("stuck"), Reason.REPLAY_RUNTIME),
        (MemoryError(), Reason.REPLAY_RUNTIME),
        (SystemExit(3), Reason.REPLAY_RUNTIME),
        (GeneratorExit(), Reason.REPLAY_RUNTIME),
    ],
)
def test_a_failed_replay_says_why_in_code_and_text(error, category):
    outcome = evaluate_one(suggest(), make_context(Raising(error)))
    assert (outcome.status, outcome.category) == (Status.FAILED, category)
    assert outcome.reason == f"replay failed: {type(error).__name__}: {str(error) or type(error).__name__}"
    assert outcome.config["used_gpus"] == 8


def test_causes_are_told_on_one_line():
    try:
        try:
            raise KeyError("inner\nline")
        except KeyError as inner:
            raise ReplayError("outer") from inner
    except ReplayError as error:
        outcome = evaluate_one(suggest(), make_context(Raising(error)))
    assert outcome.reason == "replay failed: ReplayError: outer: 'inner\\nline'"


def test_a_candidate_without_room_for_kv_is_not_replayed(monkeypatch):
    def refuse(*args, **kwargs):
        raise InfeasibleKVCapacity("cannot hold one request of 9 tokens")

    monkeypatch.setattr("aisimulate.spica.evaluate.check_kv_capacity", refuse)
    evaluator = SeqsEvaluator()
    outcome = evaluate_one(suggest(), make_context(evaluator))
    assert (outcome.status, outcome.category) == (Status.INFEASIBLE, Reason.KV_CAPACITY)
    assert outcome.reason == "candidate KV capacity infeasible: cannot hold one request of 9 tokens"
    assert evaluator.plans == []


def test_a_capacity_nobody_can_tell_is_left_to_the_replay(monkeypatch):
    def unknown(*args, **kwargs):
        raise InputError("model 'acme/dense' is unknown")

    monkeypatch.setattr("aisimulate.spica.evaluate.check_kv_capacity", unknown)
    context = make_context(SeqsEvaluator())
    assert evaluate_one(suggest(), context).status is Status.FEASIBLE
    assert prepare(suggest(), context).unchecked == "model 'acme/dense' is unknown"


def test_a_feasible_outcome_keeps_the_whole_report():
    outcome = evaluate_one(suggest(), make_context(SeqsEvaluator(median_ttst_ms=3.5)))
    assert outcome.candidate.metrics["median_ttst_ms"] == 3.5
    assert outcome.candidate.config == outcome.config
    assert (outcome.used_gpus, outcome.category, outcome.reason) == (8, None, "")


def test_tasks_and_outcomes_travel_between_processes():
    context = make_context(SeqsEvaluator())
    prepared = pickle.loads(pickle.dumps(prepare(suggest(), context)))
    outcome = measure(prepared, pickle.loads(pickle.dumps(context)))
    assert pickle.loads(pickle.dumps(outcome)) == outcome


def key(suggestion, context) -> str:
    prepared = prepare(suggestion, context)
    assert isinstance(prepared, Prepared)
    return prepared.key


def test_the_key_tells_deployments_and_traffic_apart():
    context = make_context(None)
    same = {
        key(suggest(), context),
        key(suggest(host_cache_hit_weight=0.5, planner_fpm_sampling="small"), context),
    }
    assert len(same) == 1
    others = {
        key(suggest(512), context),
        key(
            suggest(),
            make_context(None, workload={"isl": 9, "osl": 9, "concurrency": 5, "num_request_ratio": 2}),
        ),
        key(suggest(), make_context(None, random_seed=2)),
        key(suggest(), dataclasses.replace(context, model_context_tokens=77)),
    }
    assert len(others | same) == 5


def test_the_models_context_bounds_the_engine_unless_the_config_does():
    context = dataclasses.replace(make_context(None), model_context_tokens=77)
    assert prepare(suggest(), context).plan.max_model_len == 77
    pinned = dataclasses.replace(make_context(None, space={"context_length": 55}), model_context_tokens=77)
    assert prepare(suggest(), pinned).plan.max_model_len == 55


def test_ctrl_c_in_an_evaluation_is_no_outcome():
    with pytest.raises(KeyboardInterrupt):
        evaluate_one(suggest(), make_context(Raising(KeyboardInterrupt())))


class _Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_an_error_without_a_text_is_still_an_outcome():
    outcome = evaluate_one(suggest(), make_context(Raising(_Mute())))
    assert outcome.reason == "replay failed: _Mute: its message raised RuntimeError"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand  a tab", "two\\nlines\\tand  a tab"),
        ("\x1b[31mred\x1b[0m \x07", "\\x1b[31mred\\x1b[0m \\x07"),
        ("mirrored \u202e \udc80", "mirrored \\u202e \\udc80"),
        ("déjà vu 模型", "déjà vu 模型"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 297 + "..."),
        ("\x1b" * 1_000_000, ("\\x1b" * 80)[:297] + "..."),
    ],
)
def test_a_reason_is_one_short_printable_line(text, shown):
    assert Outcome(Status.FAILED, {}, category=Reason.UNKNOWN, reason=text).reason == shown


def test_what_an_evaluator_says_is_cut():
    outcome = evaluate_one(suggest(), make_context(Raising(ValueError("\x1b[2J" + "long " * 10_000))))
    assert outcome.reason.startswith("replay failed: ValueError: \\x1b[2Jlong long")
    assert len(outcome.reason) == 300


def test_a_goodput_front_is_planned_for_the_sla_it_was_filtered_for():
    goal = {
        "target": "pareto",
        "pareto_objectives": ["goodput", "goodput_per_gpu"],
        "sla": {"ttft_ms": 500.0, "itl_ms": 40.0},
    }
    context = make_context(SeqsEvaluator(), space={"planner_scaling_policy": ["hybrid_180_5"]}, goal=goal)
    prepared = prepare(
        suggest(
            planner_scaling_policy="hybrid_180_5",
            planner_fpm_sampling="default",
            planner_load_sensitivity="default",
        ),
        context,
    )
    assert prepared.plan.planner_config["optimization_target"] == "sla"
    assert prepared.plan.planner_config["ttft_ms"] == 500.0
