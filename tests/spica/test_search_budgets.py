"""What ends a search, and what one candidate may take: time, trials, memory."""

from __future__ import annotations

import os
import signal

import pytest
from search_fakes import SeqsEvaluator, forget_the_model, make_branch, make_config, make_context, suggest

from aisimulate.core.errors import InputError
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.evaluate import prepare
from aisimulate.spica.executor import InProcessPool, WorkerPool, open_pool
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.loop import Stop
from aisimulate.spica.outcome import Reason, Status
from aisimulate.spica.plan import sweep_budget
from aisimulate.spica.search import run_search
from aisimulate.spica.time_budget import TimeBudget

BRANCH = make_branch(seqs=range(1, 101))


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    forget_the_model(monkeypatch, [BRANCH])


class Clock:
    """Goes on by one second per replay."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


class TimedEvaluator(SeqsEvaluator):
    def __init__(self, clock):
        super().__init__()
        self._clock = clock

    def evaluate(self, plan, *, concurrency_override=None):
        self._clock.now_s += 1.0
        return super().evaluate(plan, concurrency_override=concurrency_override)


def timed_search(monkeypatch, *, seconds, ledger=None):
    """Search with replays of a second each; return the result and what was replayed."""
    clock = Clock()
    monkeypatch.setattr("aisimulate.spica.search.TimeBudget", lambda limit: TimeBudget(limit, clock))
    evaluator = TimedEvaluator(clock)
    config = make_config(
        sampler="grid", max_rounds=5, candidates_per_round=4, max_seconds=seconds, random_seed=3
    )
    result = run_search(config, evaluator=evaluator, ledger=ledger)
    return result, [plan.agg_engine_args["max_num_seqs"] for plan in evaluator.plans]


def test_a_search_ends_when_its_time_is_spent(monkeypatch):
    result, replayed = timed_search(monkeypatch, seconds=6.0)
    assert replayed == [1, 2, 3, 4, 5, 6]
    assert (result.status, result.branches[0].stop) == ("out_of_time", Stop.TIME)
    assert [candidate.score for candidate in result.candidates] == [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    assert (result.branches[0].attempts, result.branches[0].rounds) == (6, 2)


def test_a_search_with_time_left_is_done(monkeypatch):
    result, replayed = timed_search(monkeypatch, seconds=21.0)
    assert len(replayed) == 20
    assert result.status == "done"


def test_a_search_out_of_time_is_continued(monkeypatch, tmp_path):
    run, ends = tmp_path / "a.sqlite", (6, 12, 18, 20)
    for begin, end in zip((0, *ends), ends, strict=False):
        with Ledger.open_ledger(run, writable=True) if begin else Ledger.create(run) as ledger:
            result, replayed = timed_search(monkeypatch, seconds=6.0, ledger=ledger)
            assert replayed == list(range(begin + 1, end + 1))
            assert result.branches[0].attempts == end
            assert ledger.facts["status"] == ("done" if end == 20 else "out_of_time")
            assert [attempt.number for attempt in ledger.attempts()] == list(range(1, end + 1))
    whole, _ = timed_search(monkeypatch, seconds=100.0)
    assert result.outcomes == whole.outcomes


def test_running_candidates_end_and_waiting_ones_are_not_begun():
    clock = Clock()
    context = make_context(SeqsEvaluator())
    tasks = [prepare(suggest(n), context) for n in (256, 512, 1024)]
    ended = []
    pool = WorkerPool(
        context,
        workers=1,
        max_eval_seconds=None,
        on_end=lambda task, outcome, wall_s: ended.append(task.key),
        time_budget=TimeBudget(5.0, clock),
    )
    with pool:
        results = pool.run(tasks)
        assert next(results).status is Status.FEASIBLE
        clock.now_s = 6.0  # the worker has begun the second one meanwhile
        assert [outcome.status for outcome in results] == [Status.FEASIBLE]
    assert ended == [tasks[0].key, tasks[1].key]


def test_trials_count_every_suggestion_of_all_branches(monkeypatch):
    branches = [make_branch(seqs=range(1, 101)), make_branch(seqs=range(101, 104)), BRANCH]
    forget_the_model(monkeypatch, branches)
    config = make_config(sampler="grid", candidates_per_round=4, max_trials=24)
    config = config.model_copy(
        update={"sweep": config.sweep.model_copy(update={"max_rounds": 100})}  # as if nobody had asked
    )
    result = run_search(config, evaluator=SeqsEvaluator())
    assert [report.attempts for report in result.branches] == [8, 3, 13]
    assert [report.stop for report in result.branches] == [Stop.BUDGET, Stop.EXHAUSTED, Stop.BUDGET]


def sweep_of(**sweep):
    config = make_config().model_dump(mode="json", exclude_unset=True)
    return SmartSearchConfig.model_validate(config | {"sweep": sweep})


@pytest.mark.parametrize(
    ("sweep", "rounds", "total"),
    [
        ({}, 20, 320),
        ({"max_trials": 1000}, 1000, 1000),
        ({"max_trials": 10}, 10, 10),
        ({"max_trials": 1000, "max_rounds": 2}, 2, 32),
    ],
)
def test_rounds_that_nobody_asked_for_do_not_limit_trials(sweep, rounds, total):
    budget = sweep_budget(sweep_of(**sweep))
    assert (budget.max_rounds, budget.total) == (rounds, total)


class MisfitEvaluator(SeqsEvaluator):
    """512 sequences take 400 MB for good, 1024 end in a segmentation fault."""

    def evaluate(self, plan, *, concurrency_override=None):
        seqs = plan.agg_engine_args["max_num_seqs"]
        if seqs == 512:
            self.hoard = bytearray(400 << 20)
        if seqs == 1024:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().evaluate(plan, concurrency_override=concurrency_override)


def test_a_candidate_that_takes_too_much_memory_is_lost_alone():
    context = make_context(MisfitEvaluator())
    tasks = [prepare(suggest(n), context) for n in (256, 512, 1024, 128)]
    cap_mb = 400
    with WorkerPool(context, workers=2, max_eval_seconds=None, max_worker_mb=cap_mb) as pool:
        outcomes = list(pool.run(tasks))
    assert [outcome.status.value for outcome in outcomes] == ["feasible", "failed", "failed", "feasible"]
    assert outcomes[1].reason == f"exceed memory: the replay took more than {cap_mb} MB (tried twice)"
    assert outcomes[1].category is Reason.RUNTIME_MEMORY
    assert "killed by signal 11" in outcomes[2].reason


def test_a_cap_below_the_program_itself_is_refused():
    context = make_context(SeqsEvaluator())
    with (
        WorkerPool(context, workers=1, max_eval_seconds=None, max_worker_mb=3) as pool,
        pytest.raises(InputError, match=r"sweep\.max_worker_mb: 3: a worker takes \d+ MB before"),
    ):
        list(pool.run([prepare(suggest(256), context)]))


def test_a_system_that_cannot_tell_memory_refuses_the_cap(monkeypatch):
    monkeypatch.setattr("aisimulate.spica.executor.can_watch_memory", lambda: False)
    with pytest.raises(InputError, match="cannot be watched on this system"):
        WorkerPool(make_context(SeqsEvaluator()), workers=1, max_eval_seconds=None, max_worker_mb=500)


def test_a_memory_cap_needs_a_process_of_its_own():
    context = make_context(SeqsEvaluator())
    shared = {"parallel_evals": 1, "per_round": 1, "max_eval_seconds": None}
    assert isinstance(open_pool(context, **shared), InProcessPool)
    assert isinstance(open_pool(context, **shared, max_worker_mb=500), WorkerPool)
