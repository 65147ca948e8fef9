"""Translates a deployment plan and a workload into the replay's JSON payload (spec 05 section 10.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.config import SLATarget, Workload
    from aisimulate.spica.deploy import DeploymentPlan

Payload = dict[str, Any]

# Each engine counts its KV memory share under its own name.
_MEMORY_FRACTION_NAMES = {
    "vllm": "gpu_memory_utilization",
    "sglang": "mem_fraction_static",
    "trtllm": "free_gpu_memory_fraction",
}

# Plan key -> rank key. Without num_gpu_blocks the replay derives it from the memory model.
_RANK_KEYS = {
    "engine_type": "backend",
    "block_size": "block_size",
    "num_gpu_blocks": "num_gpu_blocks",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "max_num_seqs": "max_num_seqs",
    "enable_prefix_caching": "enable_prefix_caching",
    "timing_mode": "timing_mode",
    "scheduling_look_ahead": "scheduling_look_ahead",
}

# Plan key -> key of the "aic" timing provider.
_TIMING_KEYS = {
    "aic_model_path": "model",
    "aic_system": "system",
    "aic_backend": "backend",
    "aic_backend_version": "backend_version",
    "aic_tp_size": "tp",
    "aic_attention_dp_size": "attention_dp",
    "aic_moe_tp_size": "moe_tp_size",
    "aic_moe_ep_size": "moe_ep_size",
    "aic_nextn": "nextn",
    "aic_allow_model_download": "allow_model_download",
}

# Plan key -> key of the host tier. A pass is stored as a whole, so there is no batch to size.
_HOST_TIER_KEYS = {
    "num_g2_blocks": "num_host_blocks",
    "bandwidth_g1_to_g2_gbps": "d2h_bandwidth_gbps",
    "bandwidth_g2_to_g1_gbps": "h2d_bandwidth_gbps",
}

_DISK_KEYS = {
    "num_g3_blocks": "num_g3_blocks",
    "g3_scope": "scope",
    "bandwidth_g2_to_g3_gbps": "write_bandwidth_gbps",
    "bandwidth_g3_to_g2_gbps": "read_bandwidth_gbps",
    "shared_bandwidth_g2_to_g3_gbps": "shared_write_bandwidth_gbps",
    "shared_bandwidth_g3_to_g2_gbps": "shared_read_bandwidth_gbps",
    "g3_latency_ms": "latency_to_first_byte_ms",
}

_PLACED_ELSEWHERE = frozenset(
    {
        "worker_type",
        "gpu_memory_utilization",
        "startup_time",
        "kv_bytes_per_token",
        "offload_batch_size",
        *_HOST_TIER_KEYS,
        *_DISK_KEYS,
    }
)


def replay_spec(plan: DeploymentPlan, sla: SLATarget | None) -> Payload:
    """Build the `spec` half: topology, engines, router and planner, per-request SLA.

    Raises:
        UnsupportedError: an engine argument has no counterpart in the replay.
    """
    spec: Payload = {"version": 1, "record_per_request": False, **_fleet(plan)}
    adapters = _adapters(plan)
    if adapters:
        spec["adapters"] = adapters
    if sla is not None:
        spec["sla"] = sla.model_dump(exclude_none=True)
    return spec


def replay_frontend(workload: Workload) -> Payload:
    """Build what the spec says of a front end; nothing without one."""
    if workload.frontend is None:
        return {}
    return {"frontend": workload.frontend.model_dump(exclude_none=True)}


def replay_traffic(workload: Workload, *, concurrency_override: int | None) -> Payload:
    """Build the `traffic` half. `concurrency_override` is a KV load resolved for this candidate."""
    cap = workload.effective_in_flight_cap(concurrency_override)
    traffic = _trace(workload, cap) if workload.is_trace_based else _synthetic(workload, cap)
    return {key: value for key, value in traffic.items() if value is not None}


def _trace(workload: Workload, cap: int | None) -> Payload:
    return {
        "source_type": "trace",
        "trace_path": workload.trace_path,
        "trace_format": workload.trace_format,
        "trace_block_size": workload.block_tokens,
        "arrival_speedup_ratio": workload.arrival_speedup_ratio,
        "replay_concurrency": cap,
    }


def _synthetic(workload: Workload, cap: int | None) -> Payload:
    sessions = workload.turns_per_session > 1
    return {
        "source_type": "synthetic-session" if sessions else "synthetic",
        "load_type": "constant_rate" if cap is None else "concurrency",
        "isl": workload.isl,
        "osl": workload.osl,
        "request_count": workload.resolved_request_count(cap),
        "concurrency": cap,
        "arrival_interval_ms": workload.synthetic_arrival_interval_ms if cap is None else None,
        "turns_per_session": workload.turns_per_session if sessions else None,
        "inter_turn_delay_ms": workload.inter_turn_delay_ms if sessions else None,
        "shared_prefix_ratio": workload.shared_prefix_ratio,
        "num_prefix_groups": workload.num_prefix_groups if workload.shared_prefix_ratio > 0 else None,
    }


def _fleet(plan: DeploymentPlan) -> Payload:
    if plan.agg_engine_args is not None:
        workers = _pool(plan.agg_engine_args, plan.num_workers)
        topology: Payload = {"kind": "aggregated", "workers": workers}
        return {"topology": topology, "engine": _role(plan.agg_engine_args, plan)}
    if plan.prefill_engine_args is None or plan.decode_engine_args is None:
        raise UnsupportedError("deployment plan: neither an aggregated role nor a prefill/decode pair")
    topology = {
        "kind": "disaggregated",
        "prefill": _pool(plan.prefill_engine_args, plan.num_prefill_workers),
        "decode": _pool(plan.decode_engine_args, plan.num_decode_workers),
    }
    engine = {
        "prefill": _role(plan.prefill_engine_args, plan),
        "decode": _role(plan.decode_engine_args, plan),
    }
    return {"topology": topology, "engine": engine}


def _pool(args: Mapping[str, Any], workers: int) -> Payload:
    startup_s = args.get("startup_time") or 0.0
    return {"initial_workers": workers, "startup_delay_ms": startup_s * 1000.0}


def _role(args: Mapping[str, Any], plan: DeploymentPlan) -> Payload:
    unknown = sorted(set(args) - set(_RANK_KEYS) - set(_TIMING_KEYS) - _PLACED_ELSEWHERE)
    if unknown:
        raise UnsupportedError(f"engine arguments {unknown} cannot be replayed yet")
    rank = {name: args[key] for key, name in _RANK_KEYS.items() if key in args}
    if args.get("aic_nextn"):
        rank["aic_nextn"] = args["aic_nextn"]
    if plan.max_model_len is not None:
        rank["max_model_len"] = plan.max_model_len
    if "num_g2_blocks" in args:
        rank["kv_cache_bytes_per_token"] = args["kv_bytes_per_token"]
        rank["native_host_offload"] = {
            name: args[key] for key, name in _HOST_TIER_KEYS.items() if key in args
        }
    if "num_g3_blocks" in args:
        rank["g3_offload"] = {name: args[key] for key, name in _DISK_KEYS.items() if key in args}
    timing = {name: args[key] for key, name in _TIMING_KEYS.items() if key in args}
    if "num_gpu_blocks" not in args:
        timing[_MEMORY_FRACTION_NAMES[args["aic_backend"]]] = args["gpu_memory_utilization"]
    rank["timing_model"] = {"type": "external", "provider": "aic", "config": timing}
    return {
        "tensor_parallel_size": args["aic_tp_size"],
        "dp_size": args["aic_attention_dp_size"],
        "rank": rank,
    }


def _adapters(plan: DeploymentPlan) -> Payload:
    adapters: Payload = {}
    if plan.router_mode != "round_robin":
        adapters["placement"] = {"provider": plan.router_mode, "config": plan.router_config}
    if plan.planner_config is not None:
        # The interval of a loop that is off may be null.
        config = {name: value for name, value in plan.planner_config.items() if value is not None}
        adapters["scaling"] = {"provider": "planner", "config": config}
    return adapters
