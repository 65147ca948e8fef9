"""The evaluation pool, with real spawned processes: few tests, each short."""

from __future__ import annotations

import pytest
from search_fakes import MoodyEvaluator, SeqsEvaluator, forget_the_model, make_context, suggest

from aisimulate.spica.evaluate import Prepared, prepare
from aisimulate.spica.executor import EvaluatorPoolError, InProcessPool, WorkerPool, open_pool
from aisimulate.spica.outcome import Reason, Status


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    forget_the_model(monkeypatch)


def tasks(context, *seqs) -> list[Prepared]:
    prepared = [prepare(suggest(n), context) for n in seqs]
    assert all(isinstance(task, Prepared) for task in prepared)
    return prepared


def test_this_process_is_used_only_for_one_at_a_time_without_a_cap():
    context = make_context(SeqsEvaluator())
    kinds = {}
    for parallel, cap in ((1, None), (1, 5.0), (2, None)):
        with open_pool(context, parallel_evals=parallel, per_round=4, max_eval_seconds=cap) as pool:
            kinds[parallel, cap] = type(pool)
    assert kinds == {(1, None): InProcessPool, (1, 5.0): WorkerPool, (2, None): WorkerPool}


def test_a_slow_task_and_a_dying_worker_leave_their_siblings_alone():
    context = make_context(MoodyEvaluator())
    with WorkerPool(context, workers=1, max_eval_seconds=2.0) as pool:
        outcomes = list(pool.run(tasks(context, 256, 512, 1024, 128)))
    assert [outcome.status for outcome in outcomes] == [
        Status.FEASIBLE,
        Status.TIMED_OUT,
        Status.FAILED,
        Status.FEASIBLE,
    ]
    assert [outcome.category for outcome in outcomes[1:3]] == [Reason.RUNTIME_TIMEOUT, Reason.REPLAY_RUNTIME]
    assert outcomes[1].reason == "exceed runtime: the replay took longer than 2 s"
    assert outcomes[2].reason == "replay failed: its worker process died (exit code 7)"
    assert all(outcome.retryable for outcome in outcomes[1:3])
    assert outcomes[1].config["agg_max_num_seqs"] == 512


def test_workers_give_the_same_outcomes_as_this_process():
    context = make_context(SeqsEvaluator())
    work = tasks(context, *range(1, 12))
    with WorkerPool(context, workers=2, max_eval_seconds=None) as pool:
        parallel = list(pool.run(work))
    with InProcessPool(context) as pool:
        assert list(pool.run(work)) == parallel


class _Unsendable:
    """Not importable by a worker, and not picklable."""

    def __init__(self):
        self.call = lambda: None

    def evaluate(self, plan, *, concurrency_override=None):
        return {}


def test_an_evaluator_that_cannot_be_sent_is_explained():
    context = make_context(_Unsendable())
    with (
        WorkerPool(context, workers=1, max_eval_seconds=1.0) as pool,
        pytest.raises(EvaluatorPoolError) as info,
    ):
        list(pool.run(tasks(context, 256)))
    assert 'if __name__ == "__main__":' in str(info.value)
    assert "parallel_evals=1" in str(info.value)
