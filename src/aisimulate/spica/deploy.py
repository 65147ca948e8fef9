"""From a flat sample to the deployment a replay can run (spec 05 section 10.1), and its dedupe key (D4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from aisimulate.forecast.presets import OWN_OPTIONS
from aisimulate.spica.choices import ROUTER_WEIGHTS
from aisimulate.spica.parallel_enum import ROLES, shape_prefix

if TYPE_CHECKING:
    from aisimulate.spica.config_goal import OptimizationGoal, SLATarget

OFFLOAD_FIELDS = (
    "num_g2_blocks",
    "kv_bytes_per_token",
    "bandwidth_g1_to_g2_gbps",
    "bandwidth_g2_to_g1_gbps",
    "offload_batch_size",
)
DISK_FIELDS = (
    "num_g3_blocks",
    "g3_scope",
    "bandwidth_g2_to_g3_gbps",
    "bandwidth_g3_to_g2_gbps",
    "shared_bandwidth_g2_to_g3_gbps",
    "shared_bandwidth_g3_to_g2_gbps",
    "g3_latency_ms",
)
_ENGINE_FIELDS = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "block_size",
    "gpu_memory_utilization",
    "enable_prefix_caching",
)
_PLANNER_FIELDS = (
    "planner_mode",
    "enable_throughput_scaling",
    "enable_load_scaling",
    "throughput_adjustment_interval_seconds",
    "load_adjustment_interval_seconds",
    "max_num_fpm_samples",
    "fpm_sample_bucket_size",
    "load_scaling_down_sensitivity",
    "load_min_observations",
    "load_predictor",
    "load_predictor_log1p",
    "prophet_window_size",
    "kalman_q_level",
    "kalman_q_trend",
    "kalman_r",
    "kalman_min_points",
    *OWN_OPTIONS,
)
_WORKER_TYPES = {"agg": "aggregated", "prefill": "prefill", "decode": "decode"}


@dataclass(frozen=True)
class DeploymentPlan:
    """One deployment, ready to replay: engine arguments and worker counts per role, router, planner.

    A role that the mode lacks has None arguments and no workers. `max_model_len` (tokens, None = the
    model's own) holds for every role (D23). Built without importing any runtime.
    """

    deployment_mode: str
    is_static: bool
    agg_engine_args: dict[str, Any] | None
    prefill_engine_args: dict[str, Any] | None
    decode_engine_args: dict[str, Any] | None
    num_workers: int
    num_prefill_workers: int
    num_decode_workers: int
    router_mode: str
    router_config: dict[str, Any] | None
    planner_config: dict[str, Any] | None
    max_model_len: int | None = None


def scales(sample: Mapping[str, Any]) -> bool:
    """Whether a planner adds and removes workers of a deployment."""
    return bool(sample.get("enable_throughput_scaling") or sample.get("enable_load_scaling"))


def build_deployment(
    sample: Mapping[str, Any],
    *,
    backend_version: str,
    optimization_target: str = "sla",
    planner_sla: SLATarget | Mapping[str, float] | None = None,
) -> DeploymentPlan:
    """Build the plan of an unrolled sample.

    `optimization_target` is the planner's (sla, throughput or latency). Raises ValueError when a
    scaling plan aims at an SLA that lacks ttft_ms or itl_ms, KeyError for a missing sample field.
    """
    planner = _planner_config(sample, optimization_target, planner_sla)
    is_agg = sample["deployment_mode"] == "agg"
    args = {role: _engine_args(sample, role, backend_version) for role in ROLES[sample["deployment_mode"]]}
    return DeploymentPlan(
        deployment_mode=sample["deployment_mode"],
        is_static=planner is None,
        agg_engine_args=args.get("agg"),
        prefill_engine_args=args.get("prefill"),
        decode_engine_args=args.get("decode"),
        num_workers=sample["replicas"] if is_agg else 0,
        num_prefill_workers=0 if is_agg else sample["prefill_replicas"],
        num_decode_workers=0 if is_agg else sample["decode_replicas"],
        router_mode=sample.get("router_mode", "round_robin"),
        router_config=_router_config(sample),
        planner_config=planner,
        max_model_len=sample.get("context_length"),
    )


def deployment_of_goal(sample: Mapping[str, Any], goal: OptimizationGoal) -> DeploymentPlan:
    """Build the plan of a complete sample, whose planner aims at a goal. Raises as `build_deployment`."""
    return build_deployment(
        sample,
        backend_version=str(sample.get("backend_version")),
        optimization_target=goal.planner_optimization_target,
        planner_sla=goal.sla,
    )


def plan_key(
    plan: DeploymentPlan,
    *,
    in_flight_cap: int | None,
    request_count: int | None,
    seed: int,
    trace_digest: str | None = None,
) -> str:
    """Canonical JSON of what a replay of `plan` depends on: equal keys share one measurement (D4).

    A planner that aims at throughput or latency scales by fixed thresholds on load alone, so the
    settings it never reads stay out of the key (D7).
    """
    effective = {item.name: getattr(plan, item.name) for item in fields(plan)}
    if plan.planner_config is not None:
        effective["planner_config"] = _effective_planner(plan.planner_config)
    effective |= {
        "in_flight_cap": in_flight_cap,
        "request_count": request_count,
        "seed": seed,
        "trace_digest": trace_digest,
    }
    return json.dumps(effective, sort_keys=True, separators=(",", ":"))


# What only the sla planner reads; the other targets also force load scaling on and throughput scaling off.
_SLA_ONLY_FIELDS = frozenset(_PLANNER_FIELDS) - {"load_adjustment_interval_seconds", "planner_mode"}


def _effective_planner(config: dict[str, Any]) -> dict[str, Any]:
    if config["optimization_target"] == "sla" or config.get("planner_mode") == "direct":
        return config
    return {name: value for name, value in config.items() if name not in _SLA_ONLY_FIELDS}


def _engine_args(sample: Mapping[str, Any], role: str, backend_version: str) -> dict[str, Any]:
    shape = shape_prefix(role)
    args: dict[str, Any] = {
        "worker_type": _WORKER_TYPES[role],
        "engine_type": sample["backend"],
        "aic_backend": sample["backend"],
        "aic_backend_version": backend_version,
        "aic_system": sample["hardware_sku"],
        "aic_model_path": sample["model_name"],
        "aic_tp_size": sample[f"{shape}tp"],
        "aic_attention_dp_size": sample[f"{shape}attention_dp"],
    }
    args |= {name: sample[f"{role}_{name}"] for name in _ENGINE_FIELDS}
    if sample.get(f"{role}_num_gpu_blocks") is not None:
        args["num_gpu_blocks"] = sample[f"{role}_num_gpu_blocks"]
    moe_tp, moe_ep = sample[f"{shape}moe_tp"], sample[f"{shape}moe_ep"]
    if moe_tp * moe_ep > 1:
        args |= {"aic_moe_tp_size": moe_tp, "aic_moe_ep_size": moe_ep}
    args |= _given(sample, ("aic_nextn", "startup_time", "timing_mode", "scheduling_look_ahead"))
    if sample.get("allow_model_download"):
        args["aic_allow_model_download"] = True
    # Decode workers receive finished prefixes, so only the roles that prefill have a host tier.
    if role != "decode" and (sample.get("num_g2_blocks") or 0) > 0:
        args |= _given(sample, OFFLOAD_FIELDS)
        if (sample.get("num_g3_blocks") or 0) > 0:
            args |= _given(sample, DISK_FIELDS)
    return args


def _given(sample: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: sample[name] for name in names if sample.get(name) is not None}


def _router_config(sample: Mapping[str, Any]) -> dict[str, Any] | None:
    if sample.get("router_mode", "round_robin") == "round_robin":
        return None
    return {name: sample[name] for name in ROUTER_WEIGHTS if name in sample}


def _planner_config(
    sample: Mapping[str, Any], target: str, sla: SLATarget | Mapping[str, float] | None
) -> dict[str, Any] | None:
    if not scales(sample):
        return None
    config: dict[str, Any] = {
        "mode": sample["deployment_mode"],
        "optimization_target": target,
        "report_interval_hours": None,
        "live_dashboard_port": 0,
    }
    config |= {name: sample[name] for name in _PLANNER_FIELDS if name in sample}
    config["max_gpu_budget"] = sample["gpu_budget"]
    config |= _given(sample, ("min_gpu_budget", "min_endpoint"))
    config |= _engine_gpus(sample)
    if target == "sla" and sla is not None:
        config |= _planner_bounds(sla)
    return config


def _engine_gpus(sample: Mapping[str, Any]) -> dict[str, int]:
    # The planner's reference calls the one aggregated role "decode".
    named = {"agg": "decode"}
    return {
        f"{named.get(role, role)}_engine_num_gpu": sample[f"{shape_prefix(role)}tp"]
        * sample[f"{shape_prefix(role)}attention_dp"]
        for role in ROLES[sample["deployment_mode"]]
    }


def _planner_bounds(sla: SLATarget | Mapping[str, float]) -> dict[str, float]:
    read = sla.get if isinstance(sla, Mapping) else lambda name: getattr(sla, name)
    bounds = {name: read(name) for name in ("ttft_ms", "itl_ms")}
    missing = [name for name, value in bounds.items() if value is None]
    if missing:
        raise ValueError(
            f"SLA scaling needs both ttft_ms and itl_ms, missing {' and '.join(missing)}; "
            "an e2e bound cannot drive the planner"
        )
    return {name: float(value) for name, value in bounds.items() if value is not None}
