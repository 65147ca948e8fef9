"""The replay evaluator: what it asks the replay for, and what it returns."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
from search_fakes import forget_the_model, make_config, make_context, suggest

from aisimulate.config.payload import parse_payload
from aisimulate.core.errors import InvariantError, UnsupportedError
from aisimulate.replay.invariants.catalogue import Invariant
from aisimulate.replay.invariants.checker import InvariantChecker
from aisimulate.spica.config import OptimizationGoal, SmartSearchConfig, Workload
from aisimulate.spica.evaluate import prepare
from aisimulate.spica.evaluator import ReplayEvaluator, RunnerContractError
from aisimulate.spica.parallel_enum import DisaggParallelConfig, ParallelShape, ReplicaParallelConfig
from aisimulate.spica.runtime_payload import replay_spec
from aisimulate.spica.search import run_search

RATE = {"isl": 1000, "osl": 100, "request_rate": 20, "num_request_ratio": 4}
BURST = {"isl": 1000, "osl": 100, "concurrency": 25, "num_request_ratio": 4}
RELATIVE = {"isl": 1000, "osl": 100, "kv_load_ratio": 0.5, "num_request_ratio": 25}
GOODPUT = {"target": "goodput", "sla": {"ttft_ms": 500, "itl_ms": 20}}


@pytest.fixture
def plan(monkeypatch):
    forget_the_model(monkeypatch)
    return prepare(suggest(256), make_context(None, space={"context_length": 4096, "startup_time": 2.5})).plan


def evaluator(workload, goal=None, **options) -> ReplayEvaluator:
    return ReplayEvaluator(
        Workload.model_validate(workload), OptimizationGoal.model_validate(goal or {}), **options
    )


def traffic(workload, plan, *, override=None, **options):
    return evaluator(workload, **options).payload(plan, concurrency_override=override)["traffic"]


def test_a_concurrency_becomes_a_cap_and_a_count(plan):
    payload = traffic(BURST, plan)
    assert (payload["load_type"], payload["concurrency"], payload["request_count"]) == (
        "concurrency",
        25,
        100,
    )
    assert "arrival_interval_ms" not in payload


def test_a_relative_load_takes_the_candidates_own_cap(plan):
    payload = traffic(RELATIVE, plan, override=8)
    assert (payload["concurrency"], payload["request_count"]) == (8, 200)


def test_a_rate_becomes_a_spacing_without_a_cap(plan):
    payload = traffic(RATE, plan)
    assert payload["load_type"] == "constant_rate"
    assert (payload["arrival_interval_ms"], payload["request_count"]) == (50.0, 80)
    assert "concurrency" not in payload


def test_request_counts_round_half_away_from_zero(plan):
    assert traffic(BURST | {"concurrency": 5, "num_request_ratio": 0.5}, plan)["request_count"] == 3


def test_several_turns_make_sessions(plan):
    turns = {
        "turns_per_session": 3,
        "inter_turn_delay_ms": 40,
        "shared_prefix_ratio": 0.5,
        "num_prefix_groups": 2,
    }
    payload = traffic(BURST | turns, plan)
    assert payload["source_type"] == "synthetic-session"
    assert {key: payload[key] for key in turns} == turns
    assert traffic(BURST, plan)["source_type"] == "synthetic"


def test_a_trace_passes_its_format_block_size_speed_and_cap(plan):
    trace = {"trace_path": "t.jsonl", "trace_block_size": 128, "arrival_speedup_ratio": 2}
    assert traffic(trace, plan) == {
        "source_type": "trace",
        "trace_path": "t.jsonl",
        "trace_format": "mooncake",
        "trace_block_size": 128,
        "arrival_speedup_ratio": 2.0,
    }
    capped = {"trace_path": "t.jsonl", "replay_concurrency": 7}
    assert traffic(capped, plan, override=99)["replay_concurrency"] == 7
    assert traffic(capped, plan, trace_block_size=16)["trace_block_size"] == 16


def test_a_trace_that_says_its_block_size_is_left_to_it(plan):
    dynamo = {"trace_path": "t.jsonl", "trace_format": "dynamo"}
    assert "trace_block_size" not in traffic(dynamo, plan)
    assert traffic(dynamo, plan, trace_block_size=512)["trace_block_size"] == 512
    assert traffic({"trace_path": "t.jsonl"}, plan)["trace_block_size"] == 512


def test_the_spec_mirrors_the_plan(plan):
    spec = evaluator(BURST).payload(plan)["spec"]
    assert spec["topology"] == {
        "kind": "aggregated",
        "workers": {"initial_workers": 2, "startup_delay_ms": 2500.0},
    }
    assert spec["record_per_request"] is False
    assert "sla" not in spec
    engine = spec["engine"]
    assert (engine["tensor_parallel_size"], engine["dp_size"]) == (4, 1)
    rank = engine["rank"]
    assert "num_gpu_blocks" not in rank
    assert (rank["backend"], rank["max_num_seqs"], rank["max_model_len"]) == ("vllm", 256, 4096)
    assert rank["timing_model"]["config"] == {
        "model": "acme/dense",
        "system": "h200_sxm",
        "backend": "vllm",
        "backend_version": "1.0",
        "tp": 4,
        "attention_dp": 1,
        "gpu_memory_utilization": 0.9,
    }


def test_the_payload_is_one_the_replay_accepts(plan):
    spec = parse_payload(evaluator(BURST, GOODPUT).payload(plan)).spec
    args = plan.agg_engine_args
    workers = spec.topology.workers
    assert spec.topology.kind == "aggregated"
    assert (workers.initial_workers, workers.startup_delay_ms) == (plan.num_workers, 2500.0)
    role = spec.engine.role()
    assert (role.tensor_parallel_size, role.dp_size) == (args["aic_tp_size"], args["aic_attention_dp_size"])
    same = ("max_num_batched_tokens", "max_num_seqs", "block_size", "enable_prefix_caching")
    assert {name: getattr(role.rank, name) for name in same} == {name: args[name] for name in same}
    assert (role.rank.backend, role.rank.max_model_len) == (args["engine_type"], plan.max_model_len)
    assert spec.sla.model_dump(exclude_none=True) == {"ttft_ms": 500.0, "itl_ms": 20.0}


def test_the_sla_travels_whenever_it_is_set(plan):
    throughput = {"target": "throughput", "sla": {"e2e_ms": 900}}
    assert evaluator(BURST, GOODPUT).payload(plan)["spec"]["sla"] == {"ttft_ms": 500.0, "itl_ms": 20.0}
    assert evaluator(BURST, throughput).payload(plan)["spec"]["sla"] == {"e2e_ms": 900.0}


def test_every_backend_gets_its_memory_share_under_its_own_name(monkeypatch):
    forget_the_model(monkeypatch)
    context = make_context(None, space={"backend": ["sglang"]})
    spec = replay_spec(prepare(suggest(256, backend="sglang"), context).plan, None)
    assert spec["engine"]["rank"]["timing_model"]["config"]["mem_fraction_static"] == 0.9


def test_both_roles_of_a_disaggregated_plan_are_mapped(monkeypatch):
    forget_the_model(monkeypatch)
    pair = DisaggParallelConfig(
        ReplicaParallelConfig(ParallelShape(1, 2, 1, 2), 3),
        ReplicaParallelConfig(ParallelShape(2, 1, 2, 1), 1),
    )
    knobs = {
        f"{role}_{name}": n
        for role in ("prefill", "decode")
        for name, n in (("max_num_batched_tokens", 8192), ("max_num_seqs", 16))
    }
    suggestion = suggest(None, pair, deployment_mode="disagg", **knobs)
    spec = replay_spec(prepare(suggestion, make_context(None)).plan, None)
    assert [spec["topology"][role]["initial_workers"] for role in ("prefill", "decode")] == [3, 1]
    assert spec["engine"]["prefill"]["dp_size"] == 2
    assert spec["engine"]["prefill"]["rank"]["timing_model"]["config"]["moe_ep_size"] == 2
    assert spec["engine"]["decode"]["tensor_parallel_size"] == 2


def test_an_engine_argument_without_counterpart_is_refused(plan):
    plan.agg_engine_args["num_g9_blocks"] = 5
    with pytest.raises(UnsupportedError, match="num_g9_blocks"):
        replay_spec(plan, None)


def test_host_memory_becomes_a_tier_of_the_rank(plan):
    plan.agg_engine_args.update(
        num_g2_blocks=5, kv_bytes_per_token=131_072, bandwidth_g2_to_g1_gbps=20.0, offload_batch_size=8
    )
    rank = replay_spec(plan, None)["engine"]["rank"]
    assert rank["native_host_offload"] == {"num_host_blocks": 5, "h2d_bandwidth_gbps": 20.0}
    assert rank["kv_cache_bytes_per_token"] == 131_072


def run(monkeypatch, plan, report, goal=None):
    payloads = []
    monkeypatch.setattr(
        "aisimulate.spica.own_replays.execute", lambda payload: payloads.append(payload) or dict(report)
    )
    return evaluator(BURST, goal).evaluate(plan), payloads


def test_the_report_is_numbers_only_and_free_of_real_time(monkeypatch, plan):
    report = {
        "output_throughput_tok_s": 5.5,
        "planner_total_ticks": 3,
        "wall_time_ms": 12.0,
        "processed_tokens_per_s": 1.0,
        "rejection_reasons": {"prompt_exceeds_max_model_len": 61},
        "notes": ["x"],
        "kv_eviction_policy": "lru",
        "power_w": None,
        "flag": True,
    }
    numbers, payloads = run(monkeypatch, plan, report)
    assert numbers == {
        "output_throughput_tok_s": 5.5,
        "planner_total_ticks": 3.0,
        "rejected_requests.prompt_exceeds_max_model_len": 61,
    }
    assert payloads == [evaluator(BURST).payload(plan)]


@pytest.mark.parametrize(
    "goal",
    [GOODPUT, {"target": "pareto", "pareto_objectives": ["throughput", "goodput"], "sla": GOODPUT["sla"]}],
)
def test_goodput_without_its_metric_is_an_error(monkeypatch, plan, goal):
    with pytest.raises(RunnerContractError, match="per-request SLA accounting") as info:
        run(monkeypatch, plan, {"output_throughput_tok_s": 5.5}, goal)
    assert isinstance(info.value, RuntimeError)
    assert run(monkeypatch, plan, {"goodput_output_throughput_tok_s": 1.0}, goal)[0]


@pytest.mark.parametrize("check", [False, True])
def test_invariants_are_checked_on_demand(monkeypatch, plan, check):
    def execute(payload, observers=()):
        for observer in observers:
            assert isinstance(observer, InvariantChecker)
            raise Invariant.CLOCK.broken("event loop", "backwards")
        return {"output_throughput_tok_s": 1.0}

    monkeypatch.setattr("aisimulate.spica.own_replays.execute", execute)
    if check:
        with pytest.raises(InvariantError, match=r"^I5 broken .*: event loop: backwards"):
            evaluator(BURST, check=True).evaluate(plan)
    else:
        assert evaluator(BURST).evaluate(plan)


def test_it_can_be_sent_to_a_worker(plan):
    twin = pickle.loads(pickle.dumps(evaluator(BURST, GOODPUT)))
    assert twin.payload(plan) == evaluator(BURST, GOODPUT).payload(plan)


def test_a_kv_load_resolves_per_candidate(monkeypatch):
    forget_the_model(monkeypatch)
    resolution = SimpleNamespace(
        concurrency=8, sample_fields=lambda: {"kv_load_ratio": 0.5, "concurrency": 8}
    )
    monkeypatch.setattr("aisimulate.spica.evaluate.resolve_kv_load", lambda sample, **kwargs: resolution)
    prepared = prepare(suggest(256, kv_load_ratio=0.5), make_context(None, workload=RELATIVE))
    assert (prepared.concurrency, prepared.config["concurrency"]) == (8, 8)
    assert make_config(workload=RELATIVE).workload.kv_load_ratio == 0.5


def test_a_search_of_pools_that_scale_can_be_checked():
    config = SmartSearchConfig(
        search_space={
            "model_name": "meta-llama/Meta-Llama-3.1-8B",
            "hardware_sku": "h200_sxm",
            "gpu_budget": 1,
            "context_length": 4096,
            "deployment_mode": ["agg"],
            "planner_scaling_policy": ["load_180_5"],
        },
        workload={"isl": 64, "osl": 8, "request_rate": 2, "num_request_ratio": 2},
        sweep={"max_rounds": 1, "parallel_evals": 1},
    )
    result = run_search(config, check=True)
    assert [c.config["planner_scaling_policy"] for c in result.candidates] == ["load_180_5"]
