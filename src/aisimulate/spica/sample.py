"""Unrolling a suggestion into the flat sample that describes one candidate (spec 05 section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.spica.choices import HOST_TIER_WEIGHTS, ROUTER_WEIGHTS
from aisimulate.spica.deploy import DISK_FIELDS, OFFLOAD_FIELDS
from aisimulate.spica.load_predictor_sweep import predictor_fields
from aisimulate.spica.parallel_enum import (
    ROLES,
    DisaggParallelConfig,
    ReplicaParallelConfig,
    role_pools,
    shape_prefix,
    strategy_label,
)
from aisimulate.spica.planner import fpm_fields, load_sensitivity_fields, reads_details, scaling_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.config_space import SearchSpace
    from aisimulate.spica.load_predictor_sweep import LoadPredictorResult
    from aisimulate.spica.parallel_enum import ParallelConfig

_PINNED = (
    "model_name",
    "hardware_sku",
    "gpu_budget",
    "min_gpu_budget",
    "min_endpoint",
    "context_length",
    "startup_time",
    "aic_nextn",
    *OFFLOAD_FIELDS,
)
_ROLE_KNOBS = ("max_num_batched_tokens", "max_num_seqs")
_ROLE_PINNED = ("block_size", "gpu_memory_utilization", "enable_prefix_caching")
_CONFIG_CLASSES = {"agg": ReplicaParallelConfig, "disagg": DisaggParallelConfig}
_ADMISSION = (
    "active_decode_blocks_threshold",
    "active_prefill_tokens_threshold",
    "active_prefill_tokens_threshold_frac",
    "no_admission_control",
)


def unroll_sample(
    *,
    search_space: SearchSpace,
    selection: Mapping[str, Any],
    parallel_config: ParallelConfig,
    load_predictor: LoadPredictorResult | None = None,
) -> dict[str, Any]:
    """Return the ordered flat sample of one candidate; None values are emitted as None.

    Raises TypeError when the parallel config is not of the mode's class, KeyError for a knob missing
    from `selection`.
    """
    mode = selection["deployment_mode"]
    sample = {"deployment_mode": mode, "backend": selection["backend"]}
    sample |= {name: selection.get(name, getattr(search_space, name)) for name in _PINNED}
    if search_space.num_g3_blocks > 0:
        sample |= {name: getattr(search_space, name) for name in DISK_FIELDS}
    if search_space.allow_model_download:
        sample["allow_model_download"] = True
    if mode == "agg" and search_space.timing_mode != "additive" and selection["backend"] != "sglang":
        sample["timing_mode"] = search_space.timing_mode  # the others never mix prefill and decode
    if search_space.scheduling_look_ahead:
        sample["scheduling_look_ahead"] = search_space.scheduling_look_ahead
    sample |= _parallel_fields(mode, parallel_config)
    sample |= _engine_fields(mode, search_space, selection)
    sample |= _router_fields(search_space, selection)
    sample |= _planner_fields(selection, load_predictor)
    return sample


def _parallel_fields(mode: str, config: ParallelConfig) -> dict[str, Any]:
    expected = _CONFIG_CLASSES[mode]
    if not isinstance(config, expected):
        raise TypeError(f"{mode} needs a {expected.__name__}, got {type(config).__name__}")
    fields: dict[str, Any] = {}
    for role, pool in role_pools(config).items():
        fields |= _pool_fields(shape_prefix(role), pool)
    return {**fields, "used_gpus": config.total_gpus}


def _pool_fields(prefix: str, pool: ReplicaParallelConfig) -> dict[str, Any]:
    shape = pool.shape
    fields = {
        "tp": shape.tp,
        "pp": shape.pp,
        "attention_dp": shape.dp,
        "moe_tp": shape.moe_tp,
        "moe_ep": shape.moe_ep,
        "strategy": strategy_label(shape),
        "replicas": pool.replicas,
    }
    return {prefix + name: value for name, value in fields.items()}


def _engine_fields(mode: str, space: SearchSpace, selection: Mapping[str, Any]) -> dict[str, Any]:
    roles = ROLES[mode]
    knobs = [f"{role}_{name}" for role in roles for name in _ROLE_KNOBS]
    pinned = [f"{role}_{name}" for role in roles for name in _ROLE_PINNED]
    fields = {knob: selection[knob] for knob in knobs} | {name: getattr(space, name) for name in pinned}
    capacities = {name: getattr(space, name) for name in (f"{role}_num_gpu_blocks" for role in roles)}
    return fields | {name: blocks for name, blocks in capacities.items() if blocks is not None}


def _router_fields(space: SearchSpace, selection: Mapping[str, Any]) -> dict[str, Any]:
    mode = selection["router_mode"]
    if mode != "kv_router":
        return {"router_mode": mode}
    # A selection has the host-tier weights only where they are searched.
    knobs = [name for name in ROUTER_WEIGHTS if name in selection or name not in HOST_TIER_WEIGHTS]
    if selection.get("num_g2_blocks") == 0:  # where sizes are searched, this one has no host tier to weigh
        knobs = [name for name in knobs if name not in HOST_TIER_WEIGHTS]
    return {
        "router_mode": mode,
        **{name: selection[name] for name in knobs},
        **{name: getattr(space, name) for name in _ADMISSION},
    }


def _planner_fields(selection: Mapping[str, Any], predictor: LoadPredictorResult | None) -> dict[str, Any]:
    policy = selection["planner_scaling_policy"]
    scaling = scaling_fields(policy)
    fields: dict[str, Any] = {"planner_scaling_policy": policy}
    for flag in ("enable_throughput_scaling", "enable_load_scaling"):
        fields[flag] = scaling[flag]
    if not (scaling["enable_throughput_scaling"] or scaling["enable_load_scaling"]):
        return fields
    interval_s = scaling["throughput_adjustment_interval_seconds"]
    fields["throughput_adjustment_interval_seconds"] = interval_s
    fields["load_adjustment_interval_seconds"] = scaling["load_adjustment_interval_seconds"]
    if "planner_mode" in scaling:
        fields["planner_mode"] = scaling["planner_mode"]
    if reads_details(policy):
        fields |= fpm_fields(selection["planner_fpm_sampling"])
        fields |= load_sensitivity_fields(selection["planner_load_sensitivity"])
    winners = predictor.best_by_interval if predictor is not None else {}
    if scaling["enable_throughput_scaling"] and interval_s in winners:
        fields |= predictor_fields(winners[interval_s])
    return fields
