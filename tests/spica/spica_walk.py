"""Tools of the config walk: run a small real search, and see what a change of one field does to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from aisimulate.replay.early_stop import execute_until_settled
from aisimulate.replay.execute import execute
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.evaluate import EvaluationContext
from aisimulate.spica.executor import EvaluationPool, InProcessPool, open_pool
from aisimulate.spica.search import SearchResult, run_search

Config = dict[str, Any]
Changes = Mapping[str, Any]


class Why(Enum):
    """What later versions bring, and refuse or report until then."""

    MODE = "the other deployment mode uses it (not left to a later version)"
    CHOICE = "another choice makes it act (not left to a later version)"
    ONE_VALUE = "there is one legal value (not left to a later version)"
    POLICY = "a policy that scales or forecasts uses it (not left to a later version)"
    ADMISSION = "admission control of the router"
    TIERS = "host tiers"
    PERMIT = "it permits what the model does not have (not left to a later version)"


@dataclass(frozen=True)
class Acts:
    """`changes` (dotted paths) on `base` change each aspect in `sees` (properties of `Look`)."""

    base: Config
    changes: Changes
    sees: tuple[str, ...] = ("payloads", "metrics")


@dataclass(frozen=True)
class Refused:
    """`changes` on `base` raise an error whose text holds `text`."""

    base: Config
    changes: Changes
    text: str
    why: Why


@dataclass(frozen=True)
class Inert:
    """`changes` on `base` measure the same, and the notes of the search hold `note`."""

    base: Config
    changes: Changes
    note: str
    why: Why


Effect = Acts | Refused | Inert
Table = dict[str, dict[str, tuple[Effect, ...]]]


@dataclass(frozen=True)
class Look:
    """One finished search: the replays that were asked for, in order, and what came of them.

    `pools` holds how the evaluations were to be run.
    """

    result: SearchResult
    payloads: list[Config]
    pools: list[dict[str, Any]]

    @property
    def metrics(self) -> list[dict[str, float]]:
        """What the replays measured, in the order of the suggestions."""
        return [outcome.candidate.metrics for outcome in self.result.outcomes if outcome.candidate]

    @property
    def results(self) -> list[Any]:
        """What the user gets: scores and objectives in the order of the answer."""
        return [(candidate.score, candidate.objectives) for candidate in self.result.candidates]

    @property
    def statuses(self) -> list[tuple[str, str]]:
        """How the attempts ended."""
        return [(outcome.status.value, outcome.reason) for outcome in self.result.outcomes]

    @property
    def notes(self) -> list[str]:
        """What the user is told before the search."""
        return self.result.plan.notes


def look(config: Config, monkeypatch: Any) -> Look:
    """Search `config` with real replays and record what is replayed.

    Everything runs in this process, one replay after the other, unless there is a time cap to hold.
    """
    payloads: list[Config] = []
    pools: list[dict[str, Any]] = []

    def recording(replay: Callable[[Config], Config]) -> Callable[[Config], Config]:
        def recorded(payload: Config) -> Config:
            payloads.append(payload)
            return replay(payload)

        return recorded

    def one_by_one(context: EvaluationContext, **asked: Any) -> EvaluationPool:
        time_budget = asked["time_budget"]
        pools.append({name: value for name, value in asked.items() if value is not time_budget})
        if asked["max_eval_seconds"] is None:
            return InProcessPool(context, time_budget=time_budget)
        return open_pool(context, **asked)

    for replay in (execute, execute_until_settled):
        monkeypatch.setattr(f"aisimulate.spica.own_replays.{replay.__name__}", recording(replay))
    monkeypatch.setattr("aisimulate.spica.search.open_pool", one_by_one)
    monkeypatch.setattr(
        "aisimulate.spica.plan.require_executor", lambda name: None
    )  # the extra may be missing
    return Look(run_search(SmartSearchConfig.model_validate(config)), payloads, pools)


def changed(base: Config, changes: Changes) -> Config:
    """Copy `base` with values set at dotted paths; None removes a field."""
    config = copy.deepcopy(base)
    for path, value in changes.items():
        *parents, last = path.split(".")
        node = config
        for part in parents:
            node = node.setdefault(part, {})
        if value is None:
            node.pop(last, None)
        else:
            node[last] = value
    return config


def cases(table: Table, kind: type[Effect]) -> Iterator[tuple[str, Effect]]:
    """List the effects of one kind with a name for the test report."""
    for model, fields in table.items():
        for name, effects in fields.items():
            for number, effect in enumerate(effects):
                if isinstance(effect, kind):
                    yield f"{model}.{name}-{number}", effect


# Configurations under which each field has something to act on ----------------------------------------------

TRACE_PATH = str(Path(__file__).parents[1] / "data" / "traces" / "two_turns.jsonl")
PLAIN_TRACE = str(Path(__file__).parents[1] / "data" / "traces" / "aliases.jsonl")
LONG_TRACE = str(
    Path(__file__).parents[2] / "examples/aisimulate/spica/traces/mooncake_conversation_1000.jsonl"
)
SWEEP = {"max_rounds": 1, "parallel_evals": 1, "max_eval_seconds": None}
# One deployment on one GPU; the load fills a share of its KV cache, so that capacity acts.
PINNED: Config = {
    "search_space": {
        "model_name": "meta-llama/Meta-Llama-3.1-8B",
        "hardware_sku": "h200_sxm",
        "gpu_budget": 2,
        "deployment_mode": ["agg"],
        "backend": ["vllm"],
        "router_mode": ["round_robin"],
        "planner_scaling_policy": ["disabled"],
        "agg_max_num_batched_tokens": [8192],
        "agg_max_num_seqs": [256],
        "parallel_configs": [{"tp": 1}],
    },
    "workload": {"isl": 30_000, "osl": 8, "kv_load_ratio": 0.3, "num_request_ratio": 1.5},
    "goal": {"target": "throughput"},
    "sweep": SWEEP,
}
# One prefill and one decode worker, short of seats and of KV cache.
PAIR: Config = changed(
    PINNED,
    {
        "search_space.deployment_mode": ["disagg"],
        "search_space.agg_max_num_batched_tokens": None,
        "search_space.agg_max_num_seqs": None,
        "search_space.parallel_configs": [{"prefill": {"tp": 1}, "decode": {"tp": 1}}],
        "search_space.prefill_max_num_batched_tokens": [8192],
        "search_space.prefill_max_num_seqs": [8],
        "search_space.prefill_gpu_memory_utilization": 0.3,
        "search_space.decode_max_num_seqs": [256],
        "workload.shared_prefix_ratio": 0.5,
        "workload.num_prefix_groups": 2,
    },
)
PAIR_CROWD = changed(PAIR, {"workload": {"isl": 20, "osl": 40, "concurrency": 900, "num_request_ratio": 1}})
PAIR_GROUPS = changed(
    PAIR,
    {
        "search_space.context_length": 32_768,
        "workload.num_prefix_groups": 6,
        "workload.num_request_ratio": 4,
    },
)
# The three deployments of one or two GPUs.
POOL = changed(PINNED, {"search_space.parallel_configs": None, "sweep.candidates_per_round": 3})
# A mixture of experts: without its one-GPU workers, four deployments on two GPUs.
EXPERTS = changed(POOL, {"search_space.model_name": "Qwen/Qwen3-30B-A3B", "sweep.candidates_per_round": 6})
# Thirty-six points: more than the budget, so they are drawn.
DRAWN = changed(
    POOL,
    {
        "search_space.agg_max_num_batched_tokens": [8192, 16384, 32768],
        "search_space.agg_max_num_seqs": [256, 512, 1024],
        "sweep.candidates_per_round": 2,
        "sweep.max_rounds": 2,
    },
)
# Traffic that can be screened: the first candidates are the best estimated ones, not any.
SCREENED = changed(
    DRAWN,
    {
        "workload": {"isl": 20, "osl": 4, "concurrency": 400, "num_request_ratio": 1},
        "goal": {"target": "throughput"},
    },
)
SEEDED = changed(DRAWN, {"sweep.sampler": "random"})
ONE_BY_ONE = changed(DRAWN, {"sweep.candidates_per_round": None})
CROWD = changed(PINNED, {"workload": {"isl": 20, "osl": 4, "concurrency": 400, "num_request_ratio": 1}})
# Traffic that settles: of the ten waves two or three are replayed, then all of them.
SETTLING = changed(PINNED, {"workload": {"isl": 20, "osl": 4, "concurrency": 40, "num_request_ratio": 10}})
FEW = changed(PINNED, {"workload": {"isl": 2000, "osl": 8, "concurrency": 3, "num_request_ratio": 4}})
RATE = changed(PINNED, {"workload": {"isl": 2000, "osl": 8, "request_rate": 5, "num_request_ratio": 2}})
SIZED = changed(RATE, {"goal": {"target": "min_gpus", "sla": {"ttft_ms": 1e6}, "min_goodput_rps": 0.5}})
# One worker that cannot serve all in time, and a planner that looks every second.
LOOP = {
    "enable_throughput_scaling": False,
    "enable_load_scaling": True,
    "throughput_adjustment_interval_seconds": 4,
    "load_adjustment_interval_seconds": 1,
}
SCALED = changed(
    PINNED,
    {
        "search_space.gpu_budget": 4,
        "search_space.planner_scaling_policy": [LOOP],
        "workload": {"isl": 2000, "osl": 8, "request_rate": 30, "num_request_ratio": 8},
        "goal": {"target": "goodput", "sla": {"ttft_ms": 60.0, "itl_ms": 60.0}},
    },
)
FORECAST = changed(
    SCALED,
    {
        "search_space.planner_scaling_policy": [
            LOOP
            | {
                "enable_throughput_scaling": True,
                "enable_load_scaling": False,
                "throughput_adjustment_interval_seconds": 20,
                "load_adjustment_interval_seconds": 10,
            }
        ],
        "search_space.load_predictor_candidates": ["constant_last"],
        "workload": {"trace_path": LONG_TRACE},
    },
)
# Prompts of four groups, one at a time, on a GPU that remembers two of them.
HOSTED = changed(
    PINNED,
    {
        "search_space.agg_gpu_memory_utilization": 0.2,
        "search_space.context_length": 32_768,
        "search_space.num_g2_blocks": 4000,
        "search_space.kv_bytes_per_token": 131_072,
        "search_space.bandwidth_g1_to_g2_gbps": 20.0,
        "search_space.bandwidth_g2_to_g1_gbps": 20.0,
        "workload": {
            "isl": 30_000,
            "osl": 2,
            "concurrency": 1,
            "num_request_ratio": 16,
            "shared_prefix_ratio": 0.5,
            "num_prefix_groups": 4,
        },
    },
)
# The same where the host holds one of them, and a disk all.
DISKED = changed(
    HOSTED,
    {
        "search_space.num_g2_blocks": 500,
        "search_space.num_g3_blocks": 4000,
        "search_space.bandwidth_g2_to_g3_gbps": 4.0,
        "search_space.bandwidth_g3_to_g2_gbps": 4.0,
    },
)
SHARED_DISK = changed(DISKED, {"search_space.g3_scope": "cluster_shared"})
SESSIONS = changed(FEW, {"workload.turns_per_session": 2})
SHARED = changed(FEW, {"workload.shared_prefix_ratio": 0.5, "workload.num_prefix_groups": 2})
TRACE = changed(PINNED, {"workload": {"trace_path": TRACE_PATH}})
# Prompts of three groups on two workers, placed by cache content and load.
_ROUTER = {
    "search_space.router_mode": ["kv_router"],
    "search_space.overlap_score_credit": [1.0],
    "search_space.prefill_load_scale": [1.0],
    "search_space.router_temperature": [0.0],
    "search_space.parallel_configs": [{"tp": 1, "replicas": 2}],
}
ROUTED = changed(
    PINNED,
    {
        **_ROUTER,
        "workload": {
            "isl": 2000,
            "osl": 8,
            "concurrency": 6,
            "num_request_ratio": 5,
            "shared_prefix_ratio": 0.5,
            "num_prefix_groups": 3,
        },
    },
)
# The same on workers whose host memory holds what their GPU forgets.
ROUTED_HOSTED = changed(
    HOSTED,
    {
        **_ROUTER,
        "search_space.host_cache_hit_weight": [0.5],
        "search_space.disk_cache_hit_weight": [0.0],
        "workload.concurrency": 3,
    },
)
# The same with a disk behind it.
ROUTED_DISKED = changed(
    ROUTED_HOSTED, {"search_space.num_g2_blocks": 500, "search_space.num_g3_blocks": 4000}
)
# `ROUTED`, but in turn.
IN_TURN = changed(ROUTED, {"search_space.router_mode": ["round_robin"], **dict.fromkeys(list(_ROUTER)[1:4])})
GOODPUT = changed(TRACE, {"goal": {"target": "goodput", "sla": {"ttft_ms": 1e6, "itl_ms": 1e6}}})
FRONT = changed(POOL, {"goal": {"target": "pareto"}})
