"""Ledgers of searches that never ran, for the page: any size, any names, no replay."""

from __future__ import annotations

import math

from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.outcome import Outcome, Reason, Status
from aisimulate.spica.recorded_run import read_run
from aisimulate.spica.score import make_candidate

QUANTILES = ("mean", "min", "max", "median", "p75", "p90", "p95", "p99", "std")
LATENCIES = {"ttft_ms": 300.0, "ttst_ms": 20.0, "tpot_ms": 12.0, "itl_ms": 11.0, "e2e_latency_ms": 4000.0}


def asked(model="acme/dense", trace=None, target="pareto"):
    workload = {"isl": 1024, "osl": 128, "kv_load_ratio": [0.0, 1.0], "num_request_ratio": 3}
    if trace is not None or target != "pareto":
        workload = {"trace_path": trace or "trace.jsonl"}
    return SmartSearchConfig.model_validate(
        {
            "search_space": {
                "model_name": model,
                "hardware_sku": "h200_sxm",
                "gpu_budget": 8,
                "context_length": 8192,
                "deployment_mode": ["agg"],
                "router_mode": ["round_robin"],
                "planner_scaling_policy": ["disabled"],
            },
            "workload": workload,
            "goal": {"target": target, "sla": {"ttft_ms": 1000, "itl_ms": 30}},
        }
    )


def sample(number, model):
    tp, replicas = 2 ** (number % 4), 1 + number // 4 % 8
    return {
        "deployment_mode": "agg",
        "backend": "vllm",
        "model_name": model,
        "hardware_sku": "h200_sxm",
        "gpu_budget": 64,
        "context_length": 8192,
        "tp": tp,
        "pp": 1,
        "attention_dp": 1,
        "moe_tp": 1,
        "moe_ep": 1,
        "strategy": "tp",
        "replicas": replicas,
        "used_gpus": tp * replicas,
        "agg_max_num_batched_tokens": (8192, 16384, 32768)[number % 3],
        "agg_max_num_seqs": (256, 512, 1024)[number // 3 % 3],
        "agg_block_size": 64,
        "agg_gpu_memory_utilization": 0.9,
        "agg_enable_prefix_caching": True,
        "router_mode": "round_robin",
        "planner_scaling_policy": "disabled",
        "enable_throughput_scaling": False,
        "enable_load_scaling": False,
        "backend_version": "0.24.0",
        "kv_load_ratio": number * 37 % 100 / 100,
        "concurrency": 1 + number,
    }


def report(number, config):
    """Numbers that trade throughput for speed by load and shape, the same for the same number."""
    gpus, load = config["used_gpus"], config["kv_load_ratio"]
    wobble = 1 + 0.1 * math.sin(number)
    throughput = gpus * 4000 * (0.05 + load) * wobble / config["tp"] ** 0.2
    metrics = {
        "num_requests": 1000,
        "completed_requests": 1000,
        "rejected_requests": 0,
        "duration_ms": 3_600_000.0,
        "gpu_hours": float(gpus),
        "total_output_tokens": 1e6 * throughput,
        "output_throughput_tok_s": throughput,
        "goodput_output_throughput_tok_s": throughput * (1 - load),
        "goodput_completed_requests": 1000 * (1 - load),
        "mean_output_token_throughput_per_user": 200 * config["tp"] ** 0.5 * (1.05 - load),
        "prefix_cache_reused_ratio": 0.25,
    }
    for latency, typical in LATENCIES.items():
        for place, name in enumerate(QUANTILES):
            metrics[f"{name}_{latency}"] = typical * (1 + load) * (1 + place / 4)
    return metrics


def outcome(number, config, goal):
    if number % 10 == 9:
        return Outcome(
            Status.INFEASIBLE, config, category=Reason.KV_CAPACITY, reason="no room in /home/jo/models/x"
        )
    candidate = make_candidate(config, report(number, config), goal.target, pareto_objectives=goal.targets)
    return Outcome(Status.FEASIBLE, config, candidate=candidate)


def made_run(path, attempts=40, model="acme/dense", trace=None, target="pareto", status="done"):
    """Write a ledger of `attempts`, every tenth of them infeasible, and read it."""
    config = asked(model, trace, target)
    with Ledger.create(path) as ledger:
        ledger.describe(
            config=config.model_dump(mode="json"),
            asked=config.model_dump(mode="json", exclude_unset=True),
            config_sha256="c0ffee",
            trace_sha256=None if trace is None else "7ea",
            versions={"aisimulate": "0.1.0", "aiconfigurator-core": "0.12.0"},
            backend_versions={"vllm": "0.24.0"},
            seed=7,
            status=status,
        )
        for number in range(attempts):
            made = outcome(number, sample(number, model), config.goal)
            ledger.add_attempt("agg", number // 8 + 1, f"key {number}", made, cached=False)
        ledger.commit()
        return read_run(ledger)
