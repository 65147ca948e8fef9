"""Which of the configured choices a run really searches, and a note for each that it does not.

Pure functions from a config to (config, notes); the caller's config is never changed. They run before
anything is enumerated (spec 05 section 3.1, D7; 00-design, "capability set").
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from aisimulate.core.errors import InputError, UnsupportedError
from aisimulate.replay.capabilities import CURRENT, Capabilities
from aisimulate.spica.calibrated import planned_as_calibrated
from aisimulate.spica.config_goal import OptimizationTarget
from aisimulate.spica.inert_fields import inert_notes
from aisimulate.spica.planner import enables_scaling, filter_scaling_policies
from aisimulate.spica.unbuilt import unbuilt_choices

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisimulate.spica.config import SmartSearchConfig

FilterResult: TypeAlias = "tuple[SmartSearchConfig, list[str]]"
Step: TypeAlias = "Callable[[SmartSearchConfig], FilterResult]"


_TOPOLOGIES = {"agg": "aggregated", "disagg": "disaggregated"}


def effective_config(
    config: SmartSearchConfig, capabilities: Capabilities | None = CURRENT, *, is_agentic: bool = False
) -> FilterResult:
    """Return the config a run searches and one note per choice or field that it leaves aside.

    `capabilities` None means that an evaluator of the user's decides what can be measured. `is_agentic`
    tells that the trace is a graph of requests. Raises InputError when a goal leaves no scaling policy or
    such a trace no deployment mode, UnsupportedError when nothing that the replay can simulate remains.
    """
    steps: list[Step] = [_drop_throughput_scaling, _drop_unseeded_scaling, _collapse_easy_planner]
    if config.goal.target is OptimizationTarget.MIN_GPUS:
        steps.insert(0, _keep_static)
    if capabilities is not None:
        # Before the last filter, which would otherwise speak of a planner that is dropped anyway.
        steps.insert(2, lambda current: apply_capabilities(current, capabilities))
        steps.append(_collapse_disk_weight)
        if is_agentic:
            steps.append(_keep_aggregated)
    planned = planned_as_calibrated(config)
    current, notes = _run(steps, planned)
    return current, notes + inert_notes(planned, current)


def apply_capabilities(config: SmartSearchConfig, capabilities: Capabilities = CURRENT) -> FilterResult:
    """Drop the choices that the replay cannot simulate, noting each.

    Raises UnsupportedError, one line, when a knob has no choice left or a pinned feature is not simulated.
    """
    _refuse_pinned(config, capabilities)
    offloads, has_disk = config.search_space.num_g2_blocks > 0, config.search_space.num_g3_blocks > 0
    drafts = bool(config.search_space.aic_nextn)
    pairs_only = set(config.search_space.deployment_mode) == {"disagg"}
    cannot_scale = (drafts and not capabilities.scaled_speculation) or (
        pairs_only and capabilities.scaled_pair_backends.isdisjoint(config.search_space.backend)
    )
    rules: dict[str, Callable[[Any], bool]] = {
        "deployment_mode": lambda mode: (
            _TOPOLOGIES[mode] in capabilities.topologies and not (has_disk and mode == "disagg")
        ),
        "backend": lambda backend: backend in capabilities.backends and not (offloads and backend != "vllm"),
        "router_mode": lambda mode: (
            mode in capabilities.placements
            and not (mode == "kv_router" and drafts and not capabilities.routed_speculation)
        ),
        "planner_scaling_policy": lambda policy: (
            not enables_scaling(policy) or ("planner" in capabilities.scalings and not cannot_scale)
        ),
    }
    steps = [partial(_keep_supported, knob, rule) for knob, rule in rules.items()]
    for setting, unbuilt in unbuilt_choices(config):
        steps += [partial(_keep_built, knob, setting, rule) for knob, rule in unbuilt.items()]
    return _run(steps, config)


def _run(steps: Iterable[Step], config: SmartSearchConfig) -> FilterResult:
    notes: list[str] = []
    for step in steps:
        config, found = step(config)
        notes += found
    return config, notes


def _refuse_pinned(config: SmartSearchConfig, capabilities: Capabilities) -> None:
    space, workload = config.search_space, config.workload
    if workload.is_trace_based and workload.trace_format not in capabilities.trace_formats:
        readable = ", ".join(sorted(capabilities.trace_formats))
        raise UnsupportedError(
            f"workload.trace_format {workload.trace_format!r} cannot be read yet (supported: {readable})"
        )
    if space.num_g2_blocks > 0 and "native_host_offload" not in capabilities.tiers:
        raise UnsupportedError(
            f"search_space.num_g2_blocks {space.num_g2_blocks}: KV offload to host memory cannot be "
            "simulated yet; set 0"
        )
    if space.aic_nextn and not capabilities.speculation:
        raise UnsupportedError(
            f"search_space.aic_nextn {space.aic_nextn}: speculative decoding cannot be simulated yet; set 0"
        )


def _keep_built(
    knob: str, setting: str, is_unbuilt: Callable[[Any], bool], config: SmartSearchConfig
) -> FilterResult:
    return _keep_supported(knob, lambda entry: not is_unbuilt(entry), config, f" with {setting}")


def _keep_supported(
    knob: str, legal: Callable[[Any], bool], config: SmartSearchConfig, beside: str = ""
) -> FilterResult:
    entries = getattr(config.search_space, knob)
    kept = [entry for entry in entries if legal(entry)]
    dropped = [entry for entry in entries if not legal(entry)]
    if not dropped:
        return config, []
    if not kept:
        raise UnsupportedError(
            f"search_space.{knob}: none of {_listed(entries)} can be simulated yet{beside}"
        )
    note = f"{knob}: dropped {_listed(dropped)} (cannot be simulated yet{beside}), searching {_listed(kept)}"
    return _with_choices(config, {knob: kept}), [note]


def _keep_aggregated(config: SmartSearchConfig) -> FilterResult:
    """Drop the modes in which every replay of an agentic trace would be refused."""
    modes = config.search_space.deployment_mode
    kept = [mode for mode in modes if _TOPOLOGIES[mode] == "aggregated"]
    dropped = [mode for mode in modes if mode not in kept]
    rule = "an agentic trace requires an aggregated topology"
    if not dropped:
        return config, []
    if not kept:
        raise InputError(f"search_space.deployment_mode: {_listed(modes)}: {rule}; use agg")
    note = f"deployment_mode: dropped {_listed(dropped)} ({rule}), searching {_listed(kept)}"
    return _with_choices(config, {"deployment_mode": kept}), [note]


def _keep_static(config: SmartSearchConfig) -> FilterResult:
    """A fleet that scales has no one number of GPUs to minimise."""
    return _drop_scaling(
        config,
        why=", because the goal 'min_gpus' sizes fleets that do not scale",
        refusal="every entry scales, but the goal 'min_gpus' sizes fleets that do not; include 'disabled'",
    )


def _drop_throughput_scaling(config: SmartSearchConfig) -> FilterResult:
    """Filter 1: predictive throughput scaling needs an SLA to size for."""
    allowed = config.goal.planner_optimization_target == "sla"
    target = config.goal.target.value
    return _keep_policies(
        config,
        *filter_scaling_policies(config.search_space.planner_scaling_policy, allow_throughput=allowed),
        why=f" with throughput scaling, which the goal {target!r} cannot seed",
        refusal=f"every entry enables throughput scaling, which the goal {target!r} cannot seed; use a "
        "goodput goal with ttft_ms and itl_ms, or include 'disabled' or a 'load_*'",
    )


def _drop_unseeded_scaling(config: SmartSearchConfig) -> FilterResult:
    """Filter 2: an SLA planner sizes for TTFT and ITL; an end-to-end bound cannot tell it either."""
    sla = config.goal.sla
    if config.goal.planner_optimization_target != "sla" or sla is None or sla.has_token_bounds:
        return config, []
    return _drop_scaling(
        config,
        why=", because an e2e-only SLA cannot seed the planner's ttft/itl target",
        refusal="every entry scales, but an e2e-only SLA cannot seed the planner's ttft/itl target; set "
        "sla.ttft_ms and sla.itl_ms, or include 'disabled'",
    )


def _drop_scaling(config: SmartSearchConfig, *, why: str, refusal: str) -> FilterResult:
    policies = config.search_space.planner_scaling_policy
    kept = [policy for policy in policies if not enables_scaling(policy)]
    dropped = [policy for policy in policies if enables_scaling(policy)]
    return _keep_policies(config, kept, dropped, why=why, refusal=refusal)


def _keep_policies(
    config: SmartSearchConfig, kept: list[Any], dropped: list[Any], *, why: str, refusal: str
) -> FilterResult:
    """Search on with the policies that are left; raise InputError when none is."""
    if not dropped:
        return config, []
    if not kept:
        raise InputError(f"planner_scaling_policy: {refusal}")
    note = f"planner_scaling_policy: dropped {len(dropped)}{why}: {_listed(dropped)}"
    return _with_choices(config, {"planner_scaling_policy": kept}), [note]


def _collapse_easy_planner(config: SmartSearchConfig) -> FilterResult:
    """Filter 3: throughput and latency planners use fixed thresholds; their details change nothing (D7)."""
    space, target = config.search_space, config.goal.planner_optimization_target
    if target == "sla" or not any(enables_scaling(policy) for policy in space.planner_scaling_policy):
        return config, []
    details = ("planner_fpm_sampling", "planner_load_sensitivity")
    several = [knob for knob in details if len(getattr(space, knob)) > 1]
    if not several:
        return config, []
    note = f"{', '.join(several)}: no effect on a planner that optimises {target}; one choice is searched"
    return _with_choices(config, {knob: getattr(space, knob)[:1] for knob in several}), [note]


def _collapse_disk_weight(config: SmartSearchConfig) -> FilterResult:
    """Search one worth of a block on disk where a router is searched and deployments have no disk."""
    space = config.search_space
    is_searched = space.num_g2_blocks > 0 and "kv_router" in space.router_mode
    if not is_searched or space.num_g3_blocks > 0 or len(space.disk_cache_hit_weight) == 1:
        return config, []
    note = "disk_cache_hit_weight: no effect without a disk tier; one choice is searched"
    return _with_choices(config, {"disk_cache_hit_weight": space.disk_cache_hit_weight[:1]}), [note]


def _with_choices(config: SmartSearchConfig, choices: dict[str, list[Any]]) -> SmartSearchConfig:
    space = config.search_space.model_copy(update=choices)
    return config.model_copy(update={"search_space": space})


def _listed(entries: Sequence[Any]) -> str:
    return ", ".join(str(entry) for entry in entries)
