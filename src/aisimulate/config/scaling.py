"""Reads `spec.adapters.scaling`, and holds it against the topology and the engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.config.messages import parse_model
from aisimulate.config.planner import PlannerConfig, ScriptConfig
from aisimulate.config.spec import Aggregated
from aisimulate.core.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.config.spec import ReplaySpec

PATH = "spec.adapters.scaling.config"


def scaling_config(spec: ReplaySpec) -> PlannerConfig | ScriptConfig | None:
    """Check the settings of the scaling policy; None for one that has none or that nobody knows.

    Raises InputError with field path, value and rule.
    """
    adapter = spec.adapters.scaling
    if adapter.provider == "scripted":
        script = parse_model(ScriptConfig, _settings(adapter.config), PATH)
        _check_script(spec, script)
        return script
    if adapter.provider == "planner":
        planner = parse_model(PlannerConfig, _settings(adapter.config), PATH)
        for field, problem in _contradictions(spec, planner):
            raise InputError(f"{PATH}.{field}: {problem}")
        return planner
    return None


def scaling_notes(spec: ReplaySpec, config: PlannerConfig | ScriptConfig | None) -> list[str]:
    """Name the settings that cannot act, or not from the start."""
    if not isinstance(config, PlannerConfig):
        return []
    who = f"optimization_target {config.optimization_target!r}"
    if config.planner_mode == "direct":
        who += " in planner_mode 'direct'"
    notes = [f"{PATH}.{name}: no effect on {who}" for name in config.inert]
    idle = (name for name in config.idle_options if name not in config.inert)
    notes += [f"{PATH}.{name}: no effect on load_predictor {config.family!r}" for name in idle]
    return notes + _start_notes(spec, config)


def _start_notes(spec: ReplaySpec, config: PlannerConfig) -> list[str]:
    """Tell that the replay starts with more GPUs than the planner may hold."""
    start = sum(
        getattr(spec.topology, stage or "workers").initial_workers * spec.engine.role(stage).gpus_per_worker
        for stage in spec.stages
    )
    if not 0 <= config.max_gpu_budget < start:
        return []
    return [
        f"{PATH}.max_gpu_budget: {config.max_gpu_budget} is less than the initial workers take ({start} GPUs)"
    ]


def _settings(config: object) -> object:
    return {} if config is None else config


def _check_script(spec: ReplaySpec, script: ScriptConfig) -> None:
    if any(step.abrupt for step in script.decisions):
        _check_abrupt(spec, script)
    if not isinstance(spec.topology, Aggregated):
        return
    for number, step in enumerate(script.decisions):
        if step.target_prefill is not None:
            raise InputError(
                f"{PATH}.decisions[{number}].target_prefill: "
                f"{step.target_prefill} has no pool in an aggregated topology"
            )


def _check_abrupt(spec: ReplaySpec, script: ScriptConfig) -> None:
    """Refuse to lose workers where others know of their requests, or memory outlives them."""
    number = next(number for number, step in enumerate(script.decisions) if step.abrupt)
    placement = spec.adapters.placement.provider
    combinations = (
        (not isinstance(spec.topology, Aggregated), "in a disaggregated topology"),
        (placement != "round_robin", f"with placement {placement!r}"),
        (spec.engine.rank.native_host_offload is not None, "with native_host_offload"),
    )
    for is_there, beside in combinations:
        if is_there:
            problem = f"true is not supported yet {beside} (supported: false)"
            raise UnsupportedError(f"{PATH}.decisions[{number}].abrupt: {problem}")


def _contradictions(spec: ReplaySpec, config: PlannerConfig) -> Iterator[tuple[str, str]]:
    mode = "agg" if isinstance(spec.topology, Aggregated) else "disagg"
    if config.mode not in (None, mode):
        yield "mode", f"{config.mode!r} contradicts the topology ({mode})"
    if mode == "agg":
        for field in ("prefill_min_endpoint", "decode_min_endpoint"):
            if getattr(config, field) is not None:
                yield (
                    field,
                    f"{getattr(config, field)} has no role in an aggregated topology; use min_endpoint",
                )
        if config.prefill_engine_num_gpu is not None:
            yield (
                "prefill_engine_num_gpu",
                f"{config.prefill_engine_num_gpu} has no role without a prefill pool",
            )
    yield from _missing_thresholds(config, mode)
    yield from _wrong_costs(spec, config)


def _missing_thresholds(config: PlannerConfig, mode: str) -> Iterator[tuple[str, str]]:
    if config.optimization_target != "load":
        return
    names = ["decode_scale_up_kv_rate", "decode_scale_down_kv_rate"]
    if mode == "disagg":
        names += ["prefill_scale_up_queue_tokens", "prefill_scale_down_queue_tokens"]
    elif config.prefill_scale_up_queue_tokens is not None:
        yield "prefill_scale_up_queue_tokens", "has no role without a prefill pool"
    for name in names:
        if getattr(config, name) is None:
            yield name, "missing (required for optimization_target 'load')"


def _wrong_costs(spec: ReplaySpec, config: PlannerConfig) -> Iterator[tuple[str, str]]:
    """GPUs of a replica follow from its engine; when given they must be the same."""
    drafted = spec.engine.role(spec.stages[-1]).rank.aic_nextn or 0
    if config.speculative_nextn not in (0, drafted):
        yield (
            "speculative_nextn",
            f"{config.speculative_nextn} contradicts aic_nextn of the engine ({drafted})",
        )
    total = least = 0
    for stage in spec.stages:
        gpus = spec.engine.role(stage).gpus_per_worker
        field = f"{stage or 'decode'}_engine_num_gpu"
        given = getattr(config, field)
        if given not in (None, gpus):
            yield field, f"{given} contradicts the engine, whose replica takes {gpus} GPUs"
        total += gpus * floor_of(config, stage)
        least += gpus
    if 0 <= config.max_gpu_budget < least:
        problem = f"{config.max_gpu_budget} serves nobody: one replica of every pool takes {least} GPUs"
        yield "max_gpu_budget", problem
    elif 0 <= config.max_gpu_budget < total:
        yield "max_gpu_budget", f"{config.max_gpu_budget} is less than the least replicas take ({total} GPUs)"


def floor_of(config: PlannerConfig, stage: str | None) -> int:
    """Least replicas of a role."""
    own = getattr(config, f"{stage}_min_endpoint", None)
    return config.min_endpoint if own is None else int(own)
