"""Fields a user set that cannot act in this run: each gets a note, so nothing is ignored in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.spica.choices import HOST_TIER_WEIGHTS, ROUTER_WEIGHTS
from aisimulate.spica.load_predictor_sweep import forecasts_matter
from aisimulate.spica.parallel_enum import ROLES
from aisimulate.spica.planner import enables_scaling, reads_details, throughput_intervals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.config_space import SearchSpace
    from aisimulate.spica.config_workload import Workload

_ROUTER_FIELDS = (
    *(name for name in ROUTER_WEIGHTS if name not in HOST_TIER_WEIGHTS),
    "active_decode_blocks_threshold",
    "active_prefill_tokens_threshold",
    "active_prefill_tokens_threshold_frac",
    "no_admission_control",
)
_DISK_FIELDS = ("bandwidth_g2_to_g3_gbps", "bandwidth_g3_to_g2_gbps", "g3_latency_ms")
_SHARED_DISK_FIELDS = ("shared_bandwidth_g2_to_g3_gbps", "shared_bandwidth_g3_to_g2_gbps")
_OFFLOAD_FIELDS = (
    "kv_bytes_per_token",
    "bandwidth_g1_to_g2_gbps",
    "bandwidth_g2_to_g1_gbps",
    "offload_batch_size",
)
_DETAIL_FIELDS = ("planner_fpm_sampling", "planner_load_sensitivity")
_PLANNER_FIELDS = (*_DETAIL_FIELDS, "min_endpoint", "startup_time")
_FIGURES_OF_GAPS = ("itl", "throughput_per_user")
# Choices of its --block-size option, in tokens.
_VLLM_BLOCK_SIZES = (1, 8, 16, 32, 64, 128, 256)
_ROLE_FIELDS = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "block_size",
    "gpu_memory_utilization",
    "num_gpu_blocks",
    "enable_prefix_caching",
)


def inert_notes(given: SmartSearchConfig, effective: SmartSearchConfig) -> list[str]:
    """List what `given` sets without effect in the `effective` (filtered) config, and why."""
    space = effective.search_space
    chosen = given.search_space.model_fields_set
    notes = list(given.search_space.notes)
    for why, names in _space_rules(space):
        notes += _note((name for name in names if name in chosen), why)
    for why, names in _workload_rules(effective.workload):
        notes += _note((name for name in names if name in given.workload.model_fields_set), why)
    if "load_predictor_choice" in given.sweep.model_fields_set and not forecasts_matter(effective):
        why = "without throughput scaling over a trace"
        notes += _note(["sweep.load_predictor_choice"], why)
    notes += _version_notes(space)
    notes += _block_size_notes(space)
    notes += _goal_notes(effective)
    if "disagg" in space.deployment_mode and space.decode_enable_prefix_caching:
        notes.append(
            "decode_enable_prefix_caching: true is used, although decode workers usually run without"
        )
    return notes


def _goal_notes(config: SmartSearchConfig) -> list[str]:
    """Tell of figures that are the same for every deployment, because requests have a single token."""
    if config.workload.osl != 1:
        return []
    why = "with osl 1, where no request has a second token: it is 0 for every deployment"
    flat = (target.value for target in config.goal.targets if target.value in _FIGURES_OF_GAPS)
    return [f"goal.target {name}: no effect {why}" for name in flat]


def _version_notes(space: SearchSpace) -> list[str]:
    """Tell of versions that were given for engines that are not searched."""
    others = [backend for backend in space.backend_version if backend not in space.backend]
    why = f"without {' and '.join(others)} in backend"
    return _note((f"backend_version.{backend}" for backend in others), why)


def _block_size_notes(space: SearchSpace) -> list[str]:
    """Tell of sizes that can be simulated, but not set on a real server."""
    if "vllm" not in space.backend:
        return []
    legal = ", ".join(map(str, _VLLM_BLOCK_SIZES))
    roles = [role for mode in space.deployment_mode for role in ROLES[mode]]
    sizes = {f"{role}_block_size": getattr(space, f"{role}_block_size") for role in roles}
    return [
        f"{name}: {size} is simulated as it is, but vllm itself takes {legal}"
        for name, size in sizes.items()
        if size not in _VLLM_BLOCK_SIZES
    ]


def _space_rules(space: SearchSpace) -> list[tuple[str, tuple[str, ...]]]:
    """Pair a reason with the fields it makes inert, for each reason that holds."""
    scales = any(enables_scaling(policy) for policy in space.planner_scaling_policy)
    learns = any(reads_details(policy) for policy in space.planner_scaling_policy)
    forecasts = bool(throughput_intervals(space.planner_scaling_policy))
    rules = (
        ("kv_router" not in space.router_mode, "without kv_router", (*_ROUTER_FIELDS, *HOST_TIER_WEIGHTS)),
        (
            "kv_router" in space.router_mode and space.num_g2_blocks == 0,
            "with num_g2_blocks 0",
            HOST_TIER_WEIGHTS,
        ),
        (space.num_g2_blocks == 0, "with num_g2_blocks 0", _OFFLOAD_FIELDS),
        (space.num_g3_blocks == 0, "with num_g3_blocks 0", ("g3_scope", *_DISK_FIELDS, *_SHARED_DISK_FIELDS)),
        (
            space.num_g3_blocks > 0 and space.g3_scope == "worker_local",
            "with g3_scope worker_local",
            _SHARED_DISK_FIELDS,
        ),
        (
            space.num_g2_blocks > 0,
            "on host memory, where a pass stores all its blocks at once",
            ("offload_batch_size",),
        ),
        (not scales, "without a scaling policy", _PLANNER_FIELDS),
        (scales and not learns, "where every scaling policy sizes directly", _DETAIL_FIELDS),
        (not forecasts, "without throughput scaling", ("load_predictor_candidates",)),
        ("agg" not in space.deployment_mode, "without agg", (*_role_fields("agg"), "timing_mode")),
        (
            "agg" in space.deployment_mode and space.backend == ["sglang"],
            "with sglang, which never mixes prefill and decode in a pass",
            ("timing_mode",),
        ),
        (
            "disagg" not in space.deployment_mode,
            "without disagg",
            (*_role_fields("prefill"), *_role_fields("decode")),
        ),
    )
    return [(why, names) for holds, why, names in rules if holds] + _capacity_rules(space)


def _capacity_rules(space: SearchSpace) -> list[tuple[str, tuple[str, ...]]]:
    """A KV capacity that is given needs no share of memory to be estimated from."""
    return [
        (f"on replays beside {role}_num_gpu_blocks", (f"{role}_gpu_memory_utilization",))
        for mode in space.deployment_mode
        for role in ROLES[mode]
        if getattr(space, f"{role}_num_gpu_blocks") is not None
    ]


def _workload_rules(workload: Workload) -> list[tuple[str, tuple[str, ...]]]:
    rules = (
        (workload.turns_per_session == 1, "with one turn per session", ("inter_turn_delay_ms",)),
        (workload.shared_prefix_ratio == 0, "with shared_prefix_ratio 0", ("num_prefix_groups",)),
    )
    return [(why, names) for holds, why, names in rules if holds]


def _role_fields(role: str) -> tuple[str, ...]:
    return tuple(f"{role}_{name}" for name in _ROLE_FIELDS)


def _note(names: Iterable[str], why: str) -> list[str]:
    listed = ", ".join(names)
    return [f"{listed}: no effect {why}"] if listed else []
