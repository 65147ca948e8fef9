"""From the settings of a scaling policy in a payload to the policy itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.config.aic import aic_config
from aisimulate.config.planner import PlannerConfig, ScriptConfig
from aisimulate.config.scaling import PATH, floor_of, scaling_config
from aisimulate.core.errors import InputError, UnsupportedError
from aisimulate.forecast import TrafficForecaster
from aisimulate.planner.bootstrap import sample_passes
from aisimulate.planner.direct import DirectPlanner
from aisimulate.planner.exact import ExactEngine
from aisimulate.planner.model import EngineModel
from aisimulate.planner.policy import PlannerPolicy
from aisimulate.planner.reference import ReferencePlanner
from aisimulate.planner.regression import PassRegression
from aisimulate.planner.settings import AGG, EngineLimits, PlannerSettings, Thresholds
from aisimulate.replay.scaling import ScriptedPolicy
from aisimulate.workload.windows import aggregate, detected_arrivals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.config.spec import ReplaySpec
    from aisimulate.replay.build_scaled import PoolPlan
    from aisimulate.replay.scaling import ScalingPolicy


def policy_of(spec: ReplaySpec, plans: Mapping[str, PoolPlan]) -> ScalingPolicy:
    """Make the policy that `spec.adapters.scaling` names, for pools by name (agg, or prefill and decode).

    Raises InputError for settings that it does not take, UnsupportedError for a missing forecaster.
    """
    config = scaling_config(spec)
    if isinstance(config, ScriptConfig):
        steps = [step.model_dump(exclude_none=True) for step in config.decisions]
        return ScriptedPolicy(config.first_tick_ms, config.step_ms, steps)
    if isinstance(config, PlannerConfig):
        return _planner(config, plans)
    raise InputError(f"spec.adapters.scaling.provider: {spec.adapters.scaling.provider!r} scales nothing")


def _planner(config: PlannerConfig, plans: Mapping[str, PoolPlan]) -> ScalingPolicy:
    settings = planner_settings(config, tuple(plans))
    limits = {pool: engine_limits(plan) for pool, plan in plans.items()}
    if config.planner_mode == "direct":
        return _direct(config, settings, limits, plans)
    models = {} if settings.is_easy else {pool: _model(settings, limits, pool, plans[pool]) for pool in plans}
    forecast = _forecaster(config, settings.throughput_interval_s) if settings.scales_by_throughput else None
    return PlannerPolicy(ReferencePlanner(settings, limits, models, forecast), settings.pools)


def _direct(
    config: PlannerConfig,
    settings: PlannerSettings,
    limits: Mapping[str, EngineLimits],
    plans: Mapping[str, PoolPlan],
) -> ScalingPolicy:
    engines = {
        pool: ExactEngine(pool, plan.timer, limits[pool], plan.role.dp_size) for pool, plan in plans.items()
    }
    uses = {"load": settings.scales_by_load, "throughput": settings.scales_by_throughput}
    intervals_s = {"load": settings.load_interval_s, "throughput": settings.throughput_interval_s}
    # A window that is off costs a replica for a while, so that levels serve better than the last window.
    forecasts = {
        branch: _forecaster(config, intervals_s[branch], restrained=False)
        for branch, used in uses.items()
        if used
    }
    startup_s = max(plan.config.startup_delay_ms for plan in plans.values()) / 1000.0
    planner = DirectPlanner(settings, limits, engines, forecasts, startup_s)
    return PlannerPolicy(planner, settings.pools)


def planner_settings(config: PlannerConfig, pools: tuple[str, ...]) -> PlannerSettings:
    """Turn checked settings into plain values."""
    return PlannerSettings(
        pools=pools,
        target=config.optimization_target,
        scales_by_throughput=config.scales_by_throughput,
        scales_by_load=config.scales_by_load,
        throughput_interval_s=config.throughput_adjustment_interval_seconds,
        load_interval_s=config.load_adjustment_interval_seconds,
        tick_s=config.scheduling.scale_interval_seconds,
        most_replicas_per_step=config.max_throughput_scaling_replicas,
        max_gpus=config.max_gpu_budget,
        min_gpus=config.min_gpu_budget,
        min_replicas=tuple(floor_of(config, None if pool == AGG else pool) for pool in pools),
        ttft_ms=config.ttft_ms,
        itl_ms=config.itl_ms,
        samples=config.max_num_fpm_samples,
        sample_cells=config.fpm_sample_bucket_size,
        min_samples=config.load_min_observations,
        sensitivity=config.load_scaling_down_sensitivity / 100.0,
        thresholds=Thresholds(
            config.prefill_scale_up_queue_tokens,
            config.prefill_scale_down_queue_tokens,
            config.decode_scale_up_kv_rate,
            config.decode_scale_down_kv_rate,
        ),
    )


def engine_limits(plan: PoolPlan) -> EngineLimits:
    """What a replica of a pool costs and holds."""
    rank, role = plan.rank, plan.role
    tokens = rank.sglang.chunked_prefill_size if rank.backend == "sglang" else rank.max_num_batched_tokens
    return EngineLimits(
        gpus=role.gpus_per_worker,
        batched_tokens=tokens,
        seqs=rank.max_num_seqs,
        kv_tokens=rank.num_gpu_blocks * rank.block_size * role.dp_size,
        context_tokens=rank.max_model_len,
        nextn=rank.aic_nextn or 0,
    )


def _model(
    settings: PlannerSettings, limits: Mapping[str, EngineLimits], pool: str, plan: PoolPlan
) -> EngineModel:
    """Make the model of an engine; where there is measured data, with samples of it (spec 03 section B7)."""
    regression = PassRegression(
        pool, samples=settings.samples, cells=settings.sample_cells, min_samples=settings.min_samples
    )
    model = EngineModel(pool, regression, limits[pool], settings.samples)
    if aic_config(plan.rank) is not None and plan.role.dp_size == 1:
        model.observe(sample_passes(pool, plan.timer, limits[pool]))
    return model


def _forecaster(config: PlannerConfig, interval_s: float, *, restrained: bool = True) -> TrafficForecaster:
    """Make the forecaster of windows of `interval_s`, which may know other windows already."""
    try:
        forecaster = TrafficForecaster(config.predictor(), interval_s=interval_s, restrained=restrained)
    except UnsupportedError as error:
        raise UnsupportedError(f"{PATH}.load_predictor: {error}; 'pool' needs none") from None
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{PATH}: {error}") from None
    if config.load_predictor_warmup_trace is not None:
        forecaster.warm(aggregate(detected_arrivals(Path(config.load_predictor_warmup_trace)), interval_s))
    return forecaster
