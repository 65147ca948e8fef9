"""Candidates on a Ray cluster of several nodes, all on this machine: `make extra` runs this."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import ray
import yaml
from ray.cluster_utils import Cluster
from search_fakes import (
    CountedEvaluator,
    MoodyEvaluator,
    SeqsEvaluator,
    forget_the_model,
    make_branch,
    make_config,
    make_context,
    suggest,
)

from aisimulate.core.errors import InputError
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.evaluate import prepare
from aisimulate.spica.evaluator import ReplayEvaluator
from aisimulate.spica.executor import EvaluatorPoolError, InProcessPool, open_pool
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.outcome import Reason, Status
from aisimulate.spica.ray_pool import RayPool
from aisimulate.spica.search import run_search
from aisimulate.spica.time_budget import TimeBudget

HERE = Path(__file__).parent


def start_node(cluster):
    """Add a node of one CPU. A busy machine may need longer than the half minute that Ray waits for one."""
    for tries_left in (2, 1, 0):
        try:
            return cluster.add_node(num_cpus=1, object_store_memory=80 << 20, include_dashboard=False)
        except Exception:
            if not tries_left:
                raise
    return None


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one CPU each."""
    # Workers find the evaluators of the tests as this process does.
    os.environ["PYTHONPATH"] = str(HERE)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster()
    start_node(made)
    start_node(made)
    ray.init(address=made.address, logging_level="error", log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(autouse=True)
def _no_model(request, monkeypatch, cluster):
    if "real" not in request.node.name:
        forget_the_model(monkeypatch, [make_branch(seqs=range(1, 101))])


REAL = {
    "search_space": {
        "model_name": "meta-llama/Meta-Llama-3.1-8B",
        "hardware_sku": "h200_sxm",
        "gpu_budget": 2,
        "context_length": 4096,
        "deployment_mode": ["agg", "disagg"],
        "router_mode": ["round_robin"],
        "planner_scaling_policy": ["disabled"],
    },
    "workload": {"isl": 256, "osl": 32, "kv_load_ratio": [0.0, 0.02], "num_request_ratio": 4},
    "goal": {"target": "pareto"},
}


def sign(folder):
    """Leave a file named by this node, and take so long that nobody can do all before the others are up."""
    time.sleep(0.15)
    (folder / ray.get_runtime_context().get_node_id()).touch()


class WhereEvaluator(SeqsEvaluator):
    """Tells on which node it ran."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder

    def evaluate(self, plan, *, concurrency_override=None):
        sign(self._folder)
        return super().evaluate(plan, concurrency_override=concurrency_override)


class WhereReplay(ReplayEvaluator):
    """Replays as every search does, and tells on which node."""

    def __init__(self, folder, *given):
        super().__init__(*given)
        self._folder = folder

    def evaluate(self, plan, *, concurrency_override=None):
        sign(self._folder)
        return super().evaluate(plan, concurrency_override=concurrency_override)

    def evaluate_short(self, plan, *, concurrency_override=None):
        sign(self._folder)
        return super().evaluate_short(plan, concurrency_override=concurrency_override)


class MisfitEvaluator(SeqsEvaluator):
    """256 sequences take 400 MB and give them back, 512 keep them, 1024 end in a segmentation fault."""

    def evaluate(self, plan, *, concurrency_override=None):
        seqs = plan.agg_engine_args["max_num_seqs"]
        if seqs in (256, 512):
            hoard = bytearray(400 << 20)
            time.sleep(600 if seqs == 512 else 0)
            del hoard
        if seqs == 1024:
            ctypes.string_at(0)
        return super().evaluate(plan, concurrency_override=concurrency_override)


def node_ids():
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def tasks(context, *seqs):
    return [prepare(suggest(n), context) for n in seqs]


def test_several_nodes_give_the_outcomes_of_this_process(tmp_path):
    context = make_context(WhereEvaluator(tmp_path))
    work = tasks(context, *range(1, 60))
    with RayPool(context, workers=2, max_eval_seconds=60.0) as pool:
        there = list(pool.run(work))
        again = list(pool.run(work[:5]))
    with InProcessPool(make_context(SeqsEvaluator())) as pool:
        here = list(pool.run(work))
    assert there == here
    assert again == here[:5]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("asks", ["rounds", "pipelined"])
def test_a_search_on_ray_is_the_search_here(asks):
    asked = {"sampler": "random", "max_rounds": 4, "candidates_per_round": 6, "parallel_evals": 2}
    asked["asks"] = asks
    there, here = (
        run_search(make_config(**asked, executor=executor), evaluator=SeqsEvaluator())
        for executor in ("ray", "local")
    )
    assert there.outcomes == here.outcomes
    assert there.candidates == here.candidates


def rows(path):
    """All of a ledger that a search writes: replays by key, as they end in any order, without wall times."""
    with closing(sqlite3.connect(path)) as database:
        return (
            database.execute("SELECT key, outcome FROM replay ORDER BY key").fetchall(),
            database.execute("SELECT * FROM attempt ORDER BY number").fetchall(),
        )


def test_real_replays_on_two_nodes_are_those_here(tmp_path):
    """The front and every byte of the ledger, but for wall times and the name of the executor."""
    nodes = tmp_path / "nodes"
    nodes.mkdir()
    effort = {"sampler": "random", "max_rounds": 3, "candidates_per_round": 4, "parallel_evals": 2}
    results = []
    for executor in ("ray", "local"):
        config = SmartSearchConfig.model_validate(REAL | {"sweep": effort | {"executor": executor}})
        there = WhereReplay(nodes, config.workload, config.goal) if executor == "ray" else None
        with Ledger.create(tmp_path / executor) as ledger:
            results.append(run_search(config, evaluator=there, ledger=ledger))
    there, here = results
    assert there.candidates == here.candidates != []
    assert there.outcomes == here.outcomes and len(there.outcomes) >= 18
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")
    assert len(list(nodes.iterdir())) == 2


def test_a_real_search_of_the_command_line_is_the_same_on_a_cluster(cluster, tmp_path):
    config = tmp_path / "search.yaml"
    effort = {"sampler": "pool-gp", "max_rounds": 2, "candidates_per_round": 6, "parallel_evals": 2}
    config.write_text(yaml.safe_dump(REAL | {"sweep": effort}))
    printed = []
    for executor in ("ray", "local"):
        asked = ["--config", str(config), "--run", str(tmp_path / executor), "--format", "lines", "--quiet"]
        done = subprocess.run(
            [sys.executable, "-m", "aisimulate", "spica", *asked, "--set", f"sweep.executor={executor}"],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"RAY_ADDRESS": cluster.address},
        )
        printed.append((done.stdout, done.stderr))
    assert printed[0] == printed[1]
    assert len(printed[0][0].splitlines()) > 2
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")


def test_a_slow_task_and_a_dying_worker_leave_their_siblings_alone():
    context = make_context(MoodyEvaluator())
    with RayPool(context, workers=2, max_eval_seconds=4.0) as pool:
        outcomes = list(pool.run(tasks(context, 256, 512, 1024, 128)))
    assert [outcome.status for outcome in outcomes] == [
        Status.FEASIBLE,
        Status.TIMED_OUT,
        Status.FAILED,
        Status.FEASIBLE,
    ]
    assert [outcome.category for outcome in outcomes[1:3]] == [Reason.RUNTIME_TIMEOUT, Reason.REPLAY_RUNTIME]
    assert "its Ray worker died" in outcomes[2].reason


def test_a_task_lost_once_is_tried_again(tmp_path):
    context = make_context(CountedEvaluator(tmp_path / "log", exit_code=3))
    with RayPool(context, workers=1, max_eval_seconds=60.0) as pool:
        (outcome,) = pool.run(tasks(context, 1024))
    assert outcome.status is Status.FEASIBLE
    assert (tmp_path / "log").read_text().split().count("1024") == 2


def test_a_node_that_leaves_takes_nothing_along(cluster, tmp_path):
    before = node_ids()
    node = start_node(cluster)
    (its_id,) = node_ids() - before
    context = make_context(WhereEvaluator(tmp_path))
    work = tasks(context, *range(1, 121))
    with RayPool(context, workers=3, max_eval_seconds=60.0) as pool:
        results = pool.run(work)
        outcomes = [next(results)]
        while not (tmp_path / its_id).exists() and len(outcomes) < 100:
            outcomes.append(next(results))
        cluster.remove_node(node, allow_graceful=False)
        outcomes += results
    assert (tmp_path / its_id).exists()
    with InProcessPool(make_context(SeqsEvaluator())) as pool:
        assert list(pool.run(work)) == outcomes


def test_a_candidate_that_takes_too_much_memory_is_lost_alone():
    """While it runs, and also when it has given the memory back."""
    context = make_context(MisfitEvaluator())
    with RayPool(context, workers=2, max_eval_seconds=60.0, max_worker_mb=450) as pool:
        outcomes = list(pool.run(tasks(context, 64, 256, 512, 1024, 128)))
    assert [outcome.status.value for outcome in outcomes] == [
        "feasible",
        "failed",
        "failed",
        "failed",
        "feasible",
    ]
    reason = "exceed memory: the replay took more than 450 MB (tried twice)"
    assert [outcome.reason for outcome in outcomes[1:3]] == [reason, reason]
    assert [outcome.category for outcome in outcomes[1:3]] == [Reason.RUNTIME_MEMORY] * 2
    assert "its Ray worker died" in outcomes[3].reason


def test_a_cap_below_the_program_itself_is_refused():
    context = make_context(SeqsEvaluator())
    with (
        RayPool(context, workers=1, max_eval_seconds=None, max_worker_mb=3) as pool,
        pytest.raises(InputError, match=r"sweep\.max_worker_mb: 3: a worker takes \d+ MB before"),
    ):
        list(pool.run(tasks(context, 1)))


def test_no_task_is_begun_after_the_time():
    now_s = [0.0]
    context = make_context(SeqsEvaluator())
    budget = TimeBudget(5.0, lambda: now_s[0])
    with RayPool(context, workers=1, max_eval_seconds=None, time_budget=budget) as pool:
        results = pool.run(tasks(context, 1, 2, 3))
        assert next(results).status is Status.FEASIBLE
        now_s[0] = 6.0
        assert len(list(results)) <= 1


class Stranger(SeqsEvaluator):
    """Cannot be made anywhere else."""

    def __setstate__(self, state):
        raise ImportError("no module named 'mine'")


def test_workers_that_never_come_up_end_the_search_with_one_line():
    context = make_context(Stranger())
    with (
        RayPool(context, workers=2, max_eval_seconds=60.0) as pool,
        pytest.raises(EvaluatorPoolError, match="every node needs this package") as caught,
    ):
        list(pool.run(tasks(context, 1, 2)))
    assert "\n" not in str(caught.value)


def test_the_executor_chooses():
    options = {"parallel_evals": 1, "per_round": 1, "max_eval_seconds": None}
    assert isinstance(open_pool(make_context(SeqsEvaluator()), **options, executor="ray"), RayPool)
