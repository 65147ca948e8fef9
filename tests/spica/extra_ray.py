"""Candidates on a Ray cluster of several nodes, all on this machine: `make extra` runs this."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import ray
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

from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.evaluate import prepare
from aisimulate.spica.executor import EvaluatorPoolError, InProcessPool, open_pool
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.outcome import Reason, Status
from aisimulate.spica.ray_pool import RayPool
from aisimulate.spica.search import run_search
from aisimulate.spica.time_budget import TimeBudget


@pytest.fixture(scope="module")
def cluster():
    # Workers find the evaluators of the tests as this process does.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
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


class WhereEvaluator(SeqsEvaluator):
    """Tells on which node it ran."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder

    def evaluate(self, plan, *, concurrency_override=None):
        time.sleep(0.15)  # nobody can do all before the others are up
        node = ray.get_runtime_context().get_node_id()
        (self._folder / f"{node}-{os.getpid()}").touch()
        return super().evaluate(plan, concurrency_override=concurrency_override)


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
    assert len({path.name.split("-")[0] for path in tmp_path.iterdir()}) == 2


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


def test_real_replays_on_ray_are_those_here(tmp_path):
    effort = {"sampler": "random", "max_rounds": 2, "candidates_per_round": 3, "parallel_evals": 2}
    results, keys = [], []
    for executor in ("ray", "local"):
        config = SmartSearchConfig.model_validate(REAL | {"sweep": effort | {"executor": executor}})
        with Ledger.create(tmp_path / f"{executor}.sqlite") as ledger:
            results.append(run_search(config, ledger=ledger))
            keys.append(ledger.replayed())
    there, here = results
    assert there.outcomes == here.outcomes and len(there.outcomes) >= 12
    assert there.candidates == here.candidates != []
    assert keys[0] == keys[1]


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


def test_a_node_that_leaves_takes_nothing_along(cluster):
    node = cluster.add_node(num_cpus=2)
    context = make_context(SeqsEvaluator())
    work = tasks(context, *range(1, 41))
    with RayPool(context, workers=4, max_eval_seconds=60.0) as pool:
        results = pool.run(work)
        first = next(results)
        cluster.remove_node(node, allow_graceful=False)
        outcomes = [first, *results]
    with InProcessPool(context) as pool:
        assert list(pool.run(work)) == outcomes


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
