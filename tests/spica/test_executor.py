"""The evaluation pool, with real spawned processes: few tests, each short."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from search_fakes import (
    CountedEvaluator,
    MoodyEvaluator,
    OurEvaluator,
    OwnEvaluator,
    SeqsEvaluator,
    forget_the_model,
    make_context,
    suggest,
)

from aisimulate.spica.config import SweepConfig
from aisimulate.spica.evaluate import Prepared, prepare
from aisimulate.spica.executor import (
    EvaluatorPoolError,
    InProcessPool,
    Recruits,
    WorkerPool,
    open_pool,
    recruit,
)
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
    with WorkerPool(context, workers=2, max_eval_seconds=1.0) as pool:
        outcomes = list(pool.run(tasks(context, 256, 512, 1024, 128)))
    assert [outcome.status for outcome in outcomes] == [
        Status.FEASIBLE,
        Status.TIMED_OUT,
        Status.FAILED,
        Status.FEASIBLE,
    ]
    assert [outcome.category for outcome in outcomes[1:3]] == [Reason.RUNTIME_TIMEOUT, Reason.REPLAY_RUNTIME]
    assert outcomes[1].reason == "exceed runtime: the replay took longer than 1 s (tried twice)"
    assert outcomes[2].reason == "replay failed: its worker process died (exit code 7) (tried twice)"
    assert outcomes[1].config["agg_max_num_seqs"] == 512


def test_workers_give_the_same_outcomes_as_this_process():
    context = make_context(SeqsEvaluator())
    work = tasks(context, *range(1, 12))
    with WorkerPool(context, workers=2, max_eval_seconds=None) as pool:
        parallel = list(pool.run(work))
    with InProcessPool(context) as pool:
        assert list(pool.run(work)) == parallel


@pytest.mark.parametrize("seconds", [3e6, 1e308])
def test_a_far_deadline_is_none_that_the_system_refuses(seconds):
    """poll() takes 2^31 ms at most."""
    context = make_context(SeqsEvaluator())
    with WorkerPool(context, workers=1, max_eval_seconds=seconds) as pool:
        assert [outcome.status for outcome in pool.run(tasks(context, 1))] == [Status.FEASIBLE]


@pytest.mark.parametrize("early", [0, 1], ids=["hired", "recruited"])
def test_a_worker_imports_the_simulator_before_it_is_ready_if_it_will_replay(early):
    found = []
    config = make_context(None).config
    ours = OurEvaluator(config.workload, config.goal)
    for evaluator in (OwnEvaluator(), ours):
        context = make_context(evaluator)
        with (
            Recruits(early, will_replay=evaluator is ours) as recruits,
            WorkerPool(context, workers=1, max_eval_seconds=None, recruits=recruits) as pool,
        ):
            found += [outcome.candidate.score for outcome in pool.run(tasks(context, 1))]
    assert found == [0.0, 1.0]


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


def counts(log) -> dict[str, int]:
    lines = log.read_text().split()
    return {line: lines.count(line) for line in lines}


def test_a_lost_candidate_is_tried_once_more_whatever_its_exit_code(tmp_path):
    log = tmp_path / "log"
    context = make_context(CountedEvaluator(log))
    with WorkerPool(context, workers=1, max_eval_seconds=None) as pool:
        outcomes = list(pool.run(tasks(context, 512, 1024, 256)))
    assert [outcome.status.value for outcome in outcomes] == ["failed", "feasible", "feasible"]
    assert outcomes[0].reason == "replay failed: its worker process died (exit code 0) (tried twice)"
    assert counts(log) == {"start": 4, "512": 2, "1024": 2, "256": 1}


def test_workers_killed_before_they_are_ready_keep_what_was_measured(tmp_path):
    log = tmp_path / "log"
    context = make_context(CountedEvaluator(log, dying=(2, 3, 4), exit_code=7))
    with WorkerPool(context, workers=1, max_eval_seconds=None) as pool:
        outcomes = list(pool.run(tasks(context, 256, 1024, 128)))
        later = list(pool.run(tasks(context, 64)))
    assert [outcome.status.value for outcome in outcomes] == ["feasible", "failed", "failed"]
    reason = "replay failed: no worker process could be started (killed by signal 9)"
    assert {outcome.reason for outcome in outcomes[1:]} == {reason}
    assert {outcome.category for outcome in outcomes[1:]} == {Reason.REPLAY_RUNTIME}
    assert later[0].status is Status.FEASIBLE
    assert counts(log) == {"start": 5, "256": 1, "1024": 1, "64": 1}


def test_a_worker_killed_before_it_is_ready_is_replaced(tmp_path):
    log = tmp_path / "log"
    context = make_context(CountedEvaluator(log, dying=(1, 2)))
    with WorkerPool(context, workers=1, max_eval_seconds=None) as pool:
        assert next(pool.run(tasks(context, 256))).status is Status.FEASIBLE
    assert counts(log) == {"start": 3, "256": 1}


def test_when_no_worker_ever_was_ready_the_guard_is_explained(tmp_path):
    log = tmp_path / "log"
    context = make_context(CountedEvaluator(log, dying=(1, 2, 3, 4)))
    with (
        WorkerPool(context, workers=1, max_eval_seconds=None) as pool,
        pytest.raises(EvaluatorPoolError, match=r"__main__.*killed by signal 9"),
    ):
        list(pool.run(tasks(context, 256)))
    assert counts(log) == {"start": 3}


def test_an_idle_worker_that_died_costs_nothing(tmp_path):
    log = tmp_path / "log"
    context = make_context(CountedEvaluator(log))
    with WorkerPool(context, workers=1, max_eval_seconds=None) as pool:
        list(pool.run(tasks(context, 256)))
        for child in multiprocessing.active_children():
            child.kill()
            child.join()
        assert next(pool.run(tasks(context, 128))).status is Status.FEASIBLE
    assert counts(log) == {"start": 2, "256": 1, "128": 1}


def test_a_candidate_that_cannot_be_sent_fails_alone():
    context = make_context(SeqsEvaluator())
    work = tasks(context, 256, 128)
    work[0].config["lock"] = threading.Lock()
    with WorkerPool(context, workers=1, max_eval_seconds=None) as pool:
        outcomes = list(pool.run(work))
    assert [outcome.status.value for outcome in outcomes] == ["failed", "feasible"]
    assert outcomes[0].reason.startswith("candidate cannot be pickled: TypeError: cannot pickle")


def test_a_pool_takes_the_workers_that_were_started_early():
    context = make_context(SeqsEvaluator())
    with Recruits(1) as early:
        started = {child.pid for child in multiprocessing.active_children()}
        with WorkerPool(context, workers=1, max_eval_seconds=None, recruits=early) as pool:
            assert [o.status for o in pool.run(tasks(context, 256))] == [Status.FEASIBLE]
            assert {child.pid for child in multiprocessing.active_children()} == started
    assert len(started) == 1


def test_workers_that_no_pool_took_are_ended():
    with Recruits(2):
        assert len(multiprocessing.active_children()) == 2
    assert multiprocessing.active_children() == []


def test_as_many_are_started_early_as_the_pool_will_want():
    counts = []
    for sweep in (
        {"parallel_evals": 1, "max_eval_seconds": None},
        {"parallel_evals": 1},
        {"executor": "ray"},
    ):
        with recruit(SweepConfig.model_validate(sweep)):
            counts.append(len(multiprocessing.active_children()))
    assert counts == [0, 1, 0]


def test_leaving_the_pool_leaves_no_process():
    context = make_context(MoodyEvaluator())
    with WorkerPool(context, workers=2, max_eval_seconds=None) as pool:
        results = pool.run(tasks(context, 256, 512))
        next(results)
        assert len(multiprocessing.active_children()) == 2
    assert multiprocessing.active_children() == []


def script(name: str) -> subprocess.Popen[str]:
    """Start a script in a session of its own; its output ends when every process that has it is gone."""
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / name)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def read_pids(stream, what: str) -> list[int]:
    """Read until both workers have told that they are at `what`; return their process ids."""
    pids = []
    while len(pids) < 2:
        line = stream.readline()
        assert line, f"ended before {what}"
        said, pid = line.split()
        if said == what:
            pids.append(int(pid))
    return pids


@contextlib.contextmanager
def slow_pool():
    process = script("slow_pool.py")
    # Whatever goes wrong, nobody waits for it for ever.
    alarm = threading.Timer(30.0, os.killpg, (process.pid, signal.SIGKILL))
    alarm.start()
    try:
        yield process
    finally:
        alarm.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_workers_in_an_evaluation_end_when_their_parent_is_killed():
    with slow_pool() as process:
        read_pids(process.stderr, "evaluating")
        process.kill()
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (-signal.SIGKILL, "", "")


def test_ctrl_c_does_nothing_to_a_worker_even_while_it_imports():
    with slow_pool() as process:
        pids = read_pids(process.stderr, "importing")
        for pid in pids:
            os.kill(pid, signal.SIGINT)
        assert sorted(read_pids(process.stderr, "evaluating")) == sorted(pids)


def test_ctrl_c_ends_the_whole_group_without_a_word():
    with slow_pool() as process:
        read_pids(process.stderr, "importing")
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")


def test_terminating_the_parent_leaves_neither_workers_nor_warnings():
    with slow_pool() as process:
        read_pids(process.stderr, "evaluating")
        process.terminate()
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (-signal.SIGTERM, "", "")


def test_a_script_without_a_guard_is_told_so():
    process = script("unguarded_pool.py")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    assert out.splitlines()[-1].startswith("told: the evaluation workers could not run")
