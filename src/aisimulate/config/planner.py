"""Settings of the scaling policies (`spec.adapters.scaling`): planner and script (spec 03 section B1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from aisimulate.config.base import Count, FieldError, Millis, Positive, PositiveCount, StrictModel
from aisimulate.core.limits import MAX_GPUS, MAX_WORKERS
from aisimulate.core.units import common_interval_s
from aisimulate.forecast.presets import DEFAULT_PRESET, MOST_LAGS, OPTIONS_OF_FAMILY, OWN_OPTIONS, PRESETS

Interval = Annotated[float, Field(ge=0.001, le=1e9, allow_inf_nan=False)]
Gpus = Annotated[int, Field(ge=-1, le=MAX_GPUS)]
Floor = Annotated[int, Field(ge=0, le=MAX_WORKERS)]
RoleFloor = Annotated[int, Field(ge=1, le=MAX_WORKERS)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Tokens = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Variance = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Lags = Annotated[int, Field(ge=1, le=MOST_LAGS)]

_CLOSE = 1e-9
_LEAST_TICK_S = 0.001

SLA_ONLY = (
    "ttft_ms",
    "itl_ms",
    "throughput_adjustment_interval_seconds",
    "max_throughput_scaling_replicas",
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
    "load_predictor_warmup_trace",
)
"""What only target `sla` reads."""

REFERENCE_ONLY = (
    "max_throughput_scaling_replicas",
    "max_num_fpm_samples",
    "fpm_sample_bucket_size",
    "load_scaling_down_sensitivity",
    "load_min_observations",
)
"""What only the reference mode reads."""

PREDICTOR = SLA_ONLY[SLA_ONLY.index("load_predictor") :]


class Scheduling(StrictModel):
    """How often the planner wakes up (s); None: the greatest interval that divides those of its branches."""

    scale_interval_seconds: Interval | None = None
    """time between ticks; `null`: the greatest that does, of a millisecond or more :rule: divides the
    intervals in use"""


class PlannerConfig(StrictModel):
    """The planner: targets, intervals (s), bounds (GPUs, replicas, ms) and what it learns from.

    `planner_mode` is ours.
    """

    field_aliases: ClassVar[Mapping[str, str]] = {
        "throughput_adjustment_interval": "throughput_adjustment_interval_seconds",
        "load_adjustment_interval": "load_adjustment_interval_seconds",
        "ttft": "ttft_ms",
        "itl": "itl_ms",
    }

    planner_mode: Literal["reference", "direct"] = "reference"
    """decide as the reference does, or size directly by the simulator's own timing"""
    mode: Literal["agg", "disagg"] | None = None
    """repeats the topology :rule: that of the topology"""
    optimization_target: Literal["throughput", "latency", "load", "sla"] = "throughput"
    """fixed thresholds, thresholds of your own, or bounds on latency"""
    enable_throughput_scaling: bool = True
    """size for the load that is forecast :rule: needs `sla`"""
    enable_load_scaling: bool = False
    """react to the load there is :rule: always on without `sla`"""
    throughput_adjustment_interval_seconds: Interval = 180.0
    """time between forecasts"""
    load_adjustment_interval_seconds: Interval = 5.0
    """time between reactions :rule: below the other one when both act"""
    scheduling: Scheduling = Scheduling()
    """how often the planner wakes up"""
    max_throughput_scaling_replicas: PositiveCount = 8
    """sla: most workers that a forecast adds or removes at a time :unit: workers"""
    max_gpu_budget: Gpus = 8
    """most GPUs; -1: no bound :unit: GPUs :rule: at least what the least workers take"""
    min_gpu_budget: Gpus = -1
    """least GPUs; -1: no bound :unit: GPUs :rule: up to `max_gpu_budget`"""
    min_endpoint: Floor = 1
    """least workers of each pool :unit: workers"""
    prefill_min_endpoint: RoleFloor | None = None
    """least prefill workers instead :unit: workers :rule: a pair of pools only"""
    decode_min_endpoint: RoleFloor | None = None
    """least decode workers instead :unit: workers :rule: a pair of pools only"""
    prefill_engine_num_gpu: PositiveCount | None = None
    """repeats what a prefill worker takes :unit: GPUs :rule: only that of the engine"""
    decode_engine_num_gpu: PositiveCount | None = None
    """repeats what a decode or aggregated worker takes :unit: GPUs :rule: only that of the engine"""
    ttft_ms: Positive = 500.0
    """sla: bound on time to first token :rule: alias `ttft`"""
    itl_ms: Positive = 50.0
    """sla: bound on time between tokens :rule: alias `itl`"""
    load_predictor: str = "arima"
    """sla, direct: what forecasts the load; where direct is not told it takes `pool` on logarithms; `arima`
    and `prophet` need [the extra](forecasting.md#choosing-one), and a preset `pool_log1p` is `pool` with
    `load_predictor_log1p` :rule: `constant`, `arima`, `kalman`, `prophet`, `smoothing`, `ridge`, `pool`"""
    load_predictor_log1p: bool = False
    """forecast logarithms"""
    prophet_window_size: PositiveCount = 50
    """prophet: how far it looks back :unit: windows"""
    kalman_q_level: Variance = 1.0
    """kalman: noise of the level"""
    kalman_q_trend: Variance = 0.1
    """kalman: noise of the trend"""
    kalman_r: Positive = 10.0
    """kalman: noise of what is seen"""
    kalman_min_points: PositiveCount = 5
    """kalman: windows before it forecasts :unit: windows"""
    smoothing_alpha: Share = 0.25
    """smoothing: share of each error by which the level moves"""
    ridge_lags: Lags = 8
    """ridge: windows that it looks back :unit: windows"""
    load_predictor_warmup_trace: str | None = None
    """sla, direct: traffic of the past, as it was; its windows are learnt before the replay starts :rule: a
    Mooncake or Dynamo request trace"""
    max_num_fpm_samples: PositiveCount = 64
    """sla, reference: forward passes that its model keeps :unit: passes"""
    fpm_sample_bucket_size: PositiveCount = 16
    """sla, reference: cells that it sorts them into :rule: only a square number"""
    load_scaling_down_sensitivity: Percent = 80.0
    """sla, reference: share of a bound that may be used after a worker went :unit: %"""
    load_min_observations: PositiveCount = 5
    """sla, reference: passes before its model is used :unit: passes"""
    prefill_scale_up_queue_tokens: Tokens | None = None
    """load: queued prompt tokens of a rank at which prefill workers are added :rule: `load` only"""
    prefill_scale_down_queue_tokens: Tokens | None = None
    """load: and removed :rule: below the other one"""
    decode_scale_up_kv_rate: Tokens | None = None
    """load: KV use of a rank at which workers are added :unit: % :rule: `load` only"""
    decode_scale_down_kv_rate: Tokens | None = None
    """load: and removed :unit: % :rule: below the other one"""
    speculative_nextn: Count = 0
    """repeats the engine's draft tokens :unit: tokens :rule: only 0 or that of the engine"""
    report_interval_hours: None = None
    """the replay writes no reports of its own :rule: `null`"""
    live_dashboard_port: Literal[0] = 0
    """nor has it a dashboard"""

    @property
    def is_sla(self) -> bool:
        """Whether bounds on latency are aimed at."""
        return self.optimization_target == "sla"

    @property
    def scales_by_throughput(self) -> bool:
        """Whether a forecast decides."""
        return self.is_sla and self.enable_throughput_scaling

    @property
    def scales_by_load(self) -> bool:
        """Whether the load decides."""
        return not self.is_sla or self.enable_load_scaling

    @property
    def inert(self) -> tuple[str, ...]:
        """Fields that were given and have no effect on this target."""
        unread: tuple[str, ...] = () if self.is_sla else SLA_ONLY
        if self.planner_mode == "direct":
            # It forecasts whatever its target, and learns nothing.
            unread = (*(name for name in unread if name not in PREDICTOR), *REFERENCE_ONLY)
        return tuple(name for name in dict.fromkeys(unread) if name in self.model_fields_set)

    @property
    def family(self) -> str:
        """The family of the forecaster; the direct mode has a default of its own."""
        return str(self.predictor()["load_predictor"])

    @property
    def idle_options(self) -> tuple[str, ...]:
        """Options that were given and belong to other forecasters."""
        mine = OPTIONS_OF_FAMILY.get(self.family, ())
        options = [name for names in OPTIONS_OF_FAMILY.values() for name in names]
        return tuple(name for name in options if name in self.model_fields_set and name not in mine)

    def predictor(self) -> dict[str, Any]:
        """Name the forecaster and its options."""
        if self.planner_mode == "direct" and "load_predictor" not in self.model_fields_set:
            return PRESETS[DEFAULT_PRESET]
        return {name: getattr(self, name) for name in PREDICTOR}

    @field_validator("fpm_sample_bucket_size")
    @classmethod
    def _square(cls, value: int) -> int:
        if math.isqrt(value) ** 2 != value:
            raise ValueError(f"{value} is not a perfect square")
        return value

    @model_validator(mode="after")
    def _branches(self) -> Self:
        given = self.model_fields_set
        if self.planner_mode == "direct" and self.optimization_target == "load":
            raise FieldError(
                "optimization_target", "'load' has thresholds, which planner_mode 'direct' has no use for"
            )
        if self.is_sla:
            if not (self.enable_throughput_scaling or self.enable_load_scaling):
                raise FieldError("enable_load_scaling", "false, and throughput scaling is off too")
            return self
        target = self.optimization_target
        if "enable_throughput_scaling" in given and self.enable_throughput_scaling:
            raise FieldError(
                "enable_throughput_scaling", f"true needs optimization_target 'sla', not {target!r}"
            )
        if "enable_load_scaling" in given and not self.enable_load_scaling:
            raise FieldError("enable_load_scaling", f"false leaves target {target!r} nothing to scale by")
        return self

    @model_validator(mode="after")
    def _intervals(self) -> Self:
        load_s, throughput_s = (
            self.load_adjustment_interval_seconds,
            self.throughput_adjustment_interval_seconds,
        )
        if self.scales_by_throughput and self.scales_by_load and load_s >= throughput_s:
            problem = f"{load_s:g} must be below throughput_adjustment_interval_seconds ({throughput_s:g})"
            raise FieldError("load_adjustment_interval_seconds", problem)
        if self.scales_by_throughput and common_interval_s(load_s, throughput_s) < _LEAST_TICK_S:
            problem = (
                f"{load_s} and throughput_adjustment_interval_seconds ({throughput_s}) "
                "are not multiples of one time between ticks, of a millisecond or more"
            )
            raise FieldError("load_adjustment_interval_seconds", problem)
        tick_s = self.scheduling.scale_interval_seconds
        for interval_s in (load_s, throughput_s) if self.scales_by_throughput else (load_s,):
            if tick_s is not None and abs(interval_s / tick_s - round(interval_s / tick_s)) > _CLOSE:
                problem = f"{tick_s:g} does not divide the interval {interval_s:g}"
                raise FieldError("scheduling.scale_interval_seconds", problem)
        return self

    @model_validator(mode="after")
    def _budget(self) -> Self:
        if 0 <= self.max_gpu_budget < self.min_gpu_budget:
            problem = f"{self.min_gpu_budget} is above max_gpu_budget ({self.max_gpu_budget})"
            raise FieldError("min_gpu_budget", problem)
        return self

    @model_validator(mode="after")
    def _thresholds(self) -> Self:
        pairs = (("prefill", "queue_tokens"), ("decode", "kv_rate"))
        for role, unit in pairs:
            names = [f"{role}_scale_{way}_{unit}" for way in ("up", "down")]
            up, down = (getattr(self, name) for name in names)
            if self.optimization_target != "load":
                given = next((name for name in names if getattr(self, name) is not None), None)
                if given is not None:
                    raise FieldError(given, "has an effect with optimization_target 'load' only")
            elif up is not None and down is not None and up <= down:
                raise FieldError(names[0], f"{up:g} must be above {names[1]} ({down:g})")
        return self


class ScriptStep(StrictModel):
    """Workers that the pools should have from a tick on; None: as before."""

    target_prefill: Floor | None = None
    """prefill workers from then on; `null`: as before :unit: workers :rule: a pair of pools only"""
    target_decode: Floor | None = None
    """decode or aggregated workers from then on; `null`: as before :unit: workers"""
    abrupt: bool = False
    """workers that go do so at once, as when they fail; their requests start again on others, from the prompt
    :rule: not with a router, host memory, or pairs of pools"""


class ScriptConfig(StrictModel):
    """A fixed plan: the decisions of ticks from `first_tick_ms` on, `step_ms` apart."""

    first_tick_ms: Annotated[Millis, Field(gt=0)]
    """when the first decision is made"""
    step_ms: Annotated[float, Field(ge=0.001, le=9e12, allow_inf_nan=False)]
    """time to the next one"""
    decisions: Annotated[tuple[ScriptStep, ...], Field(strict=False, min_length=1)]
    """workers from each tick on :rule: at least one"""
