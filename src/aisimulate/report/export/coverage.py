"""Which settings of a candidate a target can express; the others are told, never dropped.

Every field of a sample has its place here. One that has none, and a value, is told as unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.spica.choices import ROUTER_WEIGHTS
from aisimulate.spica.config_space import ADMISSION_PINS
from aisimulate.spica.deploy import DISK_FIELDS, OFFLOAD_FIELDS
from aisimulate.spica.parallel_enum import ROLES, shape_prefix

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from aisimulate.report.export.deployment import Deployment

ROUTER, ADMISSION, PLANNER = "router", "admission", "planner"

_SHAPE = ("tp", "pp", "attention_dp", "moe_tp", "moe_ep", "strategy", "replicas")
_SETTINGS = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "block_size",
    "gpu_memory_utilization",
    "enable_prefix_caching",
)
_ROLE_NAMES = tuple(role for mode in ROLES.values() for role in mode)
# What the commands of the engines hold, or what they are chosen by.
_EXPRESSED = frozenset(
    (
        *("deployment_mode", "backend", "backend_version", "model_name", "context_length", "aic_nextn"),
        *(shape_prefix(role) + name for role in _ROLE_NAMES for name in _SHAPE),
        *(f"{role}_{name}" for role in _ROLE_NAMES for name in _SETTINGS),
        *("num_g2_blocks", "kv_bytes_per_token"),
    )
)
# What describes the hardware, the load or the simulation; there is nothing to set.
_FACTS = frozenset(
    (
        *("hardware_sku", "gpu_budget", "used_gpus", "startup_time", "timing_mode", "allow_model_download"),
        "scheduling_look_ahead",
        *("kv_load_ratio", "concurrency", *OFFLOAD_FIELDS),
        *(f"{role}_num_gpu_blocks" for role in _ROLE_NAMES),
    )
)
_SCALING = frozenset(
    (
        *("planner_scaling_policy", "enable_throughput_scaling", "enable_load_scaling", "planner_mode"),
        *("throughput_adjustment_interval_seconds", "load_adjustment_interval_seconds"),
        *("max_num_fpm_samples", "fpm_sample_bucket_size"),
        *("load_scaling_down_sensitivity", "load_min_observations", "min_endpoint", "min_gpu_budget"),
    )
)
_PREDICTOR_PREFIXES = ("load_predictor", "prophet_", "kalman_", "smoothing_", "ridge_")


def unexpressed(deployment: Deployment, abilities: Collection[str]) -> list[str]:
    """List what a target with these abilities leaves out, one line each."""
    config = deployment.config
    remarks = [remark for pool in deployment.pools for remark in pool.command.remarks]
    if deployment.routes_by_cache and ROUTER not in abilities:
        values = settings_text(config, ROUTER_WEIGHTS)
        remarks.append(
            f"router_mode kv_router ({values}): put such a router in front of the workers yourself"
        )
    pins = settings_text(config, ADMISSION_PINS)
    if pins and ADMISSION not in abilities:
        remarks.append(f"admission control ({pins}) is up to your router")
    if deployment.planner is not None and PLANNER not in abilities:
        remarks.append(
            f"planner {config['planner_scaling_policy']}: nothing here adds or removes workers; the replicas "
            "are those of the start"
        )
    if config.get("num_g3_blocks"):
        values = settings_text(config, DISK_FIELDS)
        remarks.append(f"the disk behind host memory ({values}) has no option of the server")
    remarks += [f"{name} {value}: not known to this export" for name, value in _unknown(config)]
    return list(dict.fromkeys(remarks))


def settings_text(config: Mapping[str, Any], names: Collection[str]) -> str:
    """Write the settings of these names that a candidate has."""
    given = ((name, config.get(name)) for name in names)
    return ", ".join(f"{name} {value}" for name, value in given if value is not None and value is not False)


def _unknown(config: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    known = {*_EXPRESSED, *_FACTS, *_SCALING, "router_mode", *ROUTER_WEIGHTS, *ADMISSION_PINS, *DISK_FIELDS}
    for name, value in config.items():
        is_derived = "capacity" in name or name.startswith(_PREDICTOR_PREFIXES)
        if value is not None and value is not False and name not in known and not is_derived:
            yield name, value
