"""What each setting of the scaling policies does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aisimulate.config.planner import PlannerConfig, Scheduling, ScriptConfig, ScriptStep

from .field_payloads import (
    EASY,
    FITTED,
    FORECAST,
    LEARNED,
    PAIR_PLANNED,
    SCRIPTED,
    SCRIPTED_PAIR,
    SIZED,
    SMOOTHED,
    STEERED,
    STEERED_PAIR,
    STEERED_TWO,
)
from .field_walk import Acts, FieldTable, Inert, Payload, Refused, Why, changed

TABLE = FieldTable()
_PAST = str(Path(__file__).parents[2] / "examples/aisimulate/spica/traces/mooncake_conversation_1000.jsonl")
_PATH = "spec.adapters.scaling.config"

_WORKERS = "spec.topology.workers.initial_workers"


def acts(base: Payload, metric: str = "gpu_hours", **fields: Any) -> Acts:
    return Acts(base, {f"{_PATH}.{name}": value for name, value in fields.items()}, metric)


def refused(base: Payload, text: str, why: Why, **fields: Any) -> Refused:
    return Refused(base, {f"{_PATH}.{name}": value for name, value in fields.items()}, text, why)


def unread(**fields: Any) -> Inert:
    """A setting of SLA planners, given to one that has fixed thresholds."""
    (name,) = fields
    note = f"{_PATH}.{name}: no effect on optimization_target 'throughput'"
    return Inert(EASY, {f"{_PATH}.{name}": value for name, value in fields.items()}, note, Why.OTHER_TARGET)


def of_others(name: str, value: Any) -> Inert:
    """An option of another forecaster than the one in use."""
    note = f"{_PATH}.{name}: no effect on load_predictor 'kalman'"
    return Inert(FORECAST, {f"{_PATH}.{name}": value}, note, Why.OTHER_TARGET)


TABLE.add(
    PlannerConfig,
    planner_mode=acts(EASY, planner_mode="direct"),
    mode=refused(EASY, "mode: 'disagg' contradicts the topology (agg)", Why.TIED, mode="disagg"),
    optimization_target=acts(EASY, optimization_target="latency"),
    enable_throughput_scaling=(
        acts(SIZED, enable_throughput_scaling=False, enable_load_scaling=True),
        refused(EASY, "true needs optimization_target 'sla'", Why.TIED, enable_throughput_scaling=True),
    ),
    enable_load_scaling=(
        acts(SIZED, enable_load_scaling=True),
        refused(EASY, "false leaves target 'throughput' nothing", Why.TIED, enable_load_scaling=False),
    ),
    throughput_adjustment_interval_seconds=(
        acts(SIZED, throughput_adjustment_interval_seconds=0.16),
        unread(throughput_adjustment_interval_seconds=60.0),
    ),
    load_adjustment_interval_seconds=acts(EASY, load_adjustment_interval_seconds=0.04),
    scheduling=acts(EASY, "planner_total_ticks", scheduling={"scale_interval_seconds": 0.01}),
    max_throughput_scaling_replicas=(
        acts(SIZED, max_throughput_scaling_replicas=1),
        unread(max_throughput_scaling_replicas=1),
    ),
    max_gpu_budget=acts(EASY, max_gpu_budget=2),
    min_gpu_budget=acts(EASY, min_gpu_budget=4),
    min_endpoint=acts(EASY, min_endpoint=3),
    prefill_min_endpoint=acts(PAIR_PLANNED, prefill_min_endpoint=2),
    decode_min_endpoint=acts(PAIR_PLANNED, decode_min_endpoint=2),
    prefill_engine_num_gpu=refused(
        PAIR_PLANNED, "contradicts the engine", Why.TIED, prefill_engine_num_gpu=9
    ),
    decode_engine_num_gpu=refused(PAIR_PLANNED, "contradicts the engine", Why.TIED, decode_engine_num_gpu=9),
    ttft_ms=(acts(LEARNED, ttft_ms=9.0), unread(ttft_ms=9.0)),
    itl_ms=(acts(LEARNED, itl_ms=4.0), unread(itl_ms=4.0)),
    load_predictor=(acts(FORECAST, load_predictor="constant"), unread(load_predictor="constant")),
    load_predictor_log1p=(acts(FORECAST, load_predictor_log1p=True), unread(load_predictor_log1p=True)),
    prophet_window_size=(unread(prophet_window_size=20), of_others("prophet_window_size", 20)),
    smoothing_alpha=(acts(SMOOTHED, smoothing_alpha=0.05), of_others("smoothing_alpha", 0.5)),
    ridge_lags=(acts(FITTED, ridge_lags=1), of_others("ridge_lags", 4)),
    kalman_q_level=(acts(FORECAST, kalman_q_level=50.0), unread(kalman_q_level=2.0)),
    kalman_q_trend=(acts(FORECAST, kalman_q_trend=20.0), unread(kalman_q_trend=2.0)),
    kalman_r=(acts(FORECAST, kalman_r=0.1), unread(kalman_r=2.0)),
    kalman_min_points=(acts(FORECAST, kalman_min_points=30), unread(kalman_min_points=2)),
    load_predictor_warmup_trace=(
        acts(FORECAST, load_predictor_warmup_trace=_PAST),
        unread(load_predictor_warmup_trace=_PAST),
        refused(
            FORECAST, "no/such/trace: no such file", Why.TIED, load_predictor_warmup_trace="no/such/trace"
        ),
    ),
    max_num_fpm_samples=(acts(LEARNED, max_num_fpm_samples=5), unread(max_num_fpm_samples=5)),
    fpm_sample_bucket_size=unread(fpm_sample_bucket_size=4),
    load_scaling_down_sensitivity=(
        acts(LEARNED, load_scaling_down_sensitivity=0.0),
        unread(load_scaling_down_sensitivity=0.0),
    ),
    load_min_observations=(acts(LEARNED, load_min_observations=20), unread(load_min_observations=20)),
    prefill_scale_up_queue_tokens=acts(STEERED_PAIR, prefill_scale_up_queue_tokens=400.0),
    prefill_scale_down_queue_tokens=acts(STEERED_TWO, prefill_scale_down_queue_tokens=48.0),
    decode_scale_up_kv_rate=acts(STEERED, decode_scale_up_kv_rate=400.0),
    decode_scale_down_kv_rate=acts(STEERED, decode_scale_down_kv_rate=0.0),
    speculative_nextn=refused(EASY, "contradicts aic_nextn of the engine (0)", Why.TIED, speculative_nextn=2),
    report_interval_hours=refused(
        EASY, f"{_PATH}.report_interval_hours", Why.ONE_VALUE, report_interval_hours=24.0
    ),
    live_dashboard_port=refused(
        EASY, f"{_PATH}.live_dashboard_port", Why.ONE_VALUE, live_dashboard_port=8080
    ),
)
TABLE.add(
    Scheduling,
    scale_interval_seconds=Acts(
        EASY, {f"{_PATH}.scheduling.scale_interval_seconds": 0.01}, "planner_total_ticks"
    ),
)
TABLE.add(
    ScriptConfig,
    first_tick_ms=acts(SCRIPTED, first_tick_ms=30.0),
    step_ms=acts(SCRIPTED, step_ms=30.0),
    decisions=acts(SCRIPTED, decisions=[{"target_decode": 4}]),
)
TABLE.add(
    ScriptStep,
    target_prefill=(
        acts(SCRIPTED_PAIR, decisions=[{"target_prefill": 2}]),
        refused(
            SCRIPTED,
            "decisions[0].target_prefill: 2 has no pool in an aggregated topology",
            Why.TIED,
            decisions=[{"target_prefill": 2}],
        ),
    ),
    target_decode=acts(SCRIPTED, decisions=[{"target_decode": 3}, {"target_decode": 1}]),
    abrupt=(
        Acts(
            changed(SCRIPTED, {_WORKERS: 2, f"{_PATH}.decisions": [{"target_decode": 1}]}),
            {f"{_PATH}.decisions": [{"target_decode": 1, "abrupt": True}]},
            "mean_e2e_latency_ms",
        ),
        refused(
            SCRIPTED_PAIR,
            "decisions[0].abrupt: true is not supported yet in a disaggregated topology (supported: false)",
            Why.TIED,
            decisions=[{"target_decode": 1, "abrupt": True}],
        ),
    ),
)
