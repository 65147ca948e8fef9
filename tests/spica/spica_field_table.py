"""What each field of a search config does, on which small search."""

from __future__ import annotations

from spica_walk import (
    CROWD,
    DISKED,
    DRAWN,
    EXPERTS,
    FEW,
    FORECAST,
    FRONT,
    GOODPUT,
    HOSTED,
    IN_TURN,
    LOOP,
    ONE_BY_ONE,
    PAIR,
    PAIR_CROWD,
    PAIR_GROUPS,
    PINNED,
    POOL,
    RATE,
    ROUTED,
    ROUTED_DISKED,
    ROUTED_HOSTED,
    SCALED,
    SCREENED,
    SEEDED,
    SESSIONS,
    SETTLING,
    SHARED,
    SHARED_DISK,
    SIZED,
    SWEEP,
    TRACE,
    TRACE_PATH,
    Acts,
    Effect,
    Inert,
    Refused,
    Table,
    Why,
    changed,
)


def space(base, **fields) -> Acts:
    return Acts(base, {f"search_space.{name}": value for name, value in fields.items()})


def load(base, **fields) -> Acts:
    return Acts(base, {f"workload.{name}": value for name, value in fields.items()})


def idle(why: Why, reason: str, **fields) -> Inert:
    """A pinned field or knob of the search space without effect; the note names it first."""
    changes = {f"search_space.{name}": value for name, value in fields.items()}
    return Inert(PINNED, changes, f"{', '.join(fields)}: no effect {reason}", why)


def unsupported(why: Why, knob: str, value: str) -> Effect:
    text = f"search_space.{knob}: none of {value} can be simulated yet"
    return Refused(
        PINNED, {f"search_space.{knob}": [value], "search_space.parallel_configs": None}, text, why
    )


def dropped(why: Why, knob: str, value: str, kept: str) -> Effect:
    note = f"{knob}: dropped {value} (cannot be simulated yet), searching {kept}"
    return Inert(POOL, {f"search_space.{knob}": [value, kept]}, note, why)


def role_fields() -> dict[str, tuple[Effect, ...]]:
    """The fields of the two disaggregated roles: they act in that mode, and do nothing without it."""
    acting = {
        "prefill_max_num_batched_tokens": space(PAIR, prefill_max_num_batched_tokens=[16384]),
        "prefill_max_num_seqs": space(PAIR, prefill_max_num_seqs=[1]),
        "prefill_gpu_memory_utilization": space(PAIR_GROUPS, prefill_gpu_memory_utilization=0.2),
        "prefill_num_gpu_blocks": space(
            PAIR_GROUPS, prefill_gpu_memory_utilization=None, prefill_num_gpu_blocks=700
        ),
        "decode_num_gpu_blocks": space(PAIR, decode_num_gpu_blocks=2500),
        "prefill_enable_prefix_caching": space(PAIR, prefill_enable_prefix_caching=False),
        "decode_max_num_batched_tokens": Refused(
            PAIR,
            {"search_space.decode_max_num_batched_tokens": [4096]},
            "decode_max_num_batched_tokens",
            Why.ONE_VALUE,
        ),
        "decode_max_num_seqs": space(PAIR_CROWD, decode_max_num_seqs=[1024]),
        "decode_gpu_memory_utilization": space(PAIR, decode_gpu_memory_utilization=0.5),
        "decode_enable_prefix_caching": Acts(
            PAIR, {"search_space.decode_enable_prefix_caching": True}, sees=("payloads", "notes")
        ),
    }
    given = {
        "max_num_batched_tokens": [8192],
        "max_num_seqs": [256],
        "gpu_memory_utilization": 0.5,
        "num_gpu_blocks": 5000,
        "enable_prefix_caching": True,
    }
    rows = {
        name: (effect, idle(Why.MODE, "without disagg", **{name: given[name.split("_", 1)[1]]}))
        for name, effect in acting.items()
    }
    sizes = {"prefill_block_size": 32, "decode_block_size": 32}
    both = (space(PAIR, **sizes), idle(Why.MODE, "without disagg", **sizes))
    return rows | dict.fromkeys(sizes, both)


NO_DISK, LOCAL_DISK = "with num_g3_blocks 0", "with g3_scope worker_local"
NO_ROUTER, NO_TIER, NO_POLICY = "without kv_router", "with num_g2_blocks 0", "without a scaling policy"

SEARCH_SPACE: dict[str, tuple[Effect, ...]] = {
    "model_name": (space(PINNED, model_name="Qwen/Qwen3-8B"),),
    "hardware_sku": (space(PINNED, hardware_sku="h100_sxm"),),
    "gpu_budget": (space(POOL, gpu_budget=1),),
    "min_gpu_budget": (space(POOL, min_gpu_budget=2),),
    "min_endpoint": (space(SCALED, min_endpoint=2), idle(Why.POLICY, NO_POLICY, min_endpoint=2)),
    "context_length": (space(TRACE, context_length=1450),),
    "startup_time": (space(SCALED, startup_time=2.0), idle(Why.POLICY, NO_POLICY, startup_time=60.0)),
    "aic_nextn": (space(PINNED, aic_nextn=1),),
    "aic_nextn_choices": (
        space(changed(PINNED, {"sweep.candidates_per_round": 3}), aic_nextn_choices=[0, 2, 1]),
    ),
    "backend_version": (
        Acts(PINNED, {"search_space.backend_version": {"vllm": "next"}}, ("payloads",)),
        Refused(
            PINNED,
            {"search_space.backend_version": {"vllm": "0.1"}},
            "'0.1' is not available for vllm on h200_sxm",
            Why.CHOICE,
        ),
    ),
    "custom_choices": (
        space(CROWD, custom_choices=True, agg_max_num_seqs=[100]),
        Refused(
            CROWD,
            {"search_space.custom_choices": True, "search_space.agg_max_num_seqs": [0]},
            "must be a whole number from 1",
            Why.CHOICE,
        ),
    ),
    "include_single_gpu_moe": (
        space(EXPERTS, include_single_gpu_moe=True),
        Inert(
            POOL,
            {"search_space.include_single_gpu_moe": True},
            "include_single_gpu_moe: no effect on meta-llama/Meta-Llama-3.1-8B, which has no experts",
            Why.PERMIT,
        ),
    ),
    # Each replay gets the permission; what it permits is tested with a feigned network.
    "allow_model_download": (Acts(PINNED, {"search_space.allow_model_download": True}, ("payloads",)),),
    "timing_mode": (space(CROWD, timing_mode="fused"),),
    "scheduling_look_ahead": (
        space(CROWD, scheduling_look_ahead=1),
        space(PAIR, scheduling_look_ahead=1),
        space(ROUTED, scheduling_look_ahead=1),
        space(SCALED, scheduling_look_ahead=1),
    ),
    "agg_block_size": (space(TRACE, agg_block_size=96), space(CROWD, agg_block_size=65_536)),
    "agg_gpu_memory_utilization": (space(PINNED, agg_gpu_memory_utilization=0.6),),
    "agg_num_gpu_blocks": (space(PINNED, agg_num_gpu_blocks=3000),),
    "agg_enable_prefix_caching": (space(TRACE, agg_enable_prefix_caching=False),),
    "num_g2_blocks": (
        space(HOSTED, num_g2_blocks=300),
        Acts(PAIR, {"search_space.num_g2_blocks": 10, "search_space.kv_bytes_per_token": 64}, ("payloads",)),
    ),
    "num_g2_blocks_choices": (
        space(
            changed(HOSTED, {"sweep.candidates_per_round": 2}),
            num_g2_blocks=None,
            num_g2_blocks_choices=[300, 4000],
        ),
    ),
    "kv_bytes_per_token": (
        space(HOSTED, kv_bytes_per_token=1_310_720),
        idle(Why.TIERS, NO_TIER, kv_bytes_per_token=64),
    ),
    "bandwidth_g1_to_g2_gbps": (
        space(HOSTED, bandwidth_g1_to_g2_gbps=0.5),
        idle(Why.TIERS, NO_TIER, bandwidth_g1_to_g2_gbps=32.0),
    ),
    "bandwidth_g2_to_g1_gbps": (
        space(HOSTED, bandwidth_g2_to_g1_gbps=2.0),
        idle(Why.TIERS, NO_TIER, bandwidth_g2_to_g1_gbps=32.0),
    ),
    "offload_batch_size": (
        Inert(
            HOSTED,
            {"search_space.offload_batch_size": 8},
            "offload_batch_size: no effect on host memory, where a pass stores all its blocks at once",
            Why.ONE_VALUE,
        ),
        idle(Why.TIERS, NO_TIER, offload_batch_size=8),
    ),
    "num_g3_blocks": (
        space(DISKED, num_g3_blocks=300),
        Refused(
            PAIR,
            {
                "search_space.num_g2_blocks": 10,
                "search_space.kv_bytes_per_token": 64,
                "search_space.num_g3_blocks": 10,
            },
            "search_space.deployment_mode: none of disagg can be simulated yet",
            Why.TIERS,
        ),
    ),
    "g3_scope": (
        Acts(DISKED, {"search_space.g3_scope": "cluster_shared"}, ("payloads",)),
        idle(Why.TIERS, NO_DISK, g3_scope="cluster_shared"),
    ),
    **{
        name: (space(DISKED, **{name: 0.5}), idle(Why.TIERS, NO_DISK, **{name: 0.5}))
        for name in ("bandwidth_g2_to_g3_gbps", "bandwidth_g3_to_g2_gbps")
    },
    "g3_latency_ms": (space(DISKED, g3_latency_ms=50.0), idle(Why.TIERS, NO_DISK, g3_latency_ms=50.0)),
    **{
        name: (
            space(SHARED_DISK, **{name: 0.5}),
            Inert(DISKED, {f"search_space.{name}": 0.5}, f"{name}: no effect {LOCAL_DISK}", Why.TIERS),
        )
        for name in ("shared_bandwidth_g2_to_g3_gbps", "shared_bandwidth_g3_to_g2_gbps")
    },
    "active_decode_blocks_threshold": (idle(Why.ADMISSION, NO_ROUTER, active_decode_blocks_threshold=0.5),),
    "active_prefill_tokens_threshold": (idle(Why.ADMISSION, NO_ROUTER, active_prefill_tokens_threshold=9),),
    "active_prefill_tokens_threshold_frac": (
        idle(Why.ADMISSION, NO_ROUTER, active_prefill_tokens_threshold_frac=0.5),
    ),
    "no_admission_control": (
        idle(Why.ADMISSION, NO_ROUTER, no_admission_control=True),
        Refused(
            PINNED,
            {
                "search_space.no_admission_control": True,
                "search_space.router_mode": ["kv_router", "round_robin"],
            },
            "router admission control is not supported by the Dynamo replay API",
            Why.ADMISSION,
        ),
    ),
    "deployment_mode": (
        Acts(
            POOL,
            {
                "search_space.deployment_mode": ["disagg"],
                "search_space.agg_max_num_batched_tokens": None,
                "search_space.agg_max_num_seqs": None,
            },
        ),
        Acts(POOL, {"search_space.deployment_mode": ["agg", "disagg"]}),
    ),
    "backend": (
        space(POOL, backend=["sglang"]),
        space(POOL, backend=["trtllm"]),
    ),
    "agg_max_num_batched_tokens": (space(PINNED, agg_max_num_batched_tokens=[16384]),),
    "agg_max_num_seqs": (space(CROWD, agg_max_num_seqs=[512]),),
    "router_mode": (
        space(
            IN_TURN,
            router_mode=["kv_router"],
            overlap_score_credit=[1.0],
            prefill_load_scale=[1.0],
            router_temperature=[0.0],
        ),
        space(
            changed(IN_TURN, {"search_space.aic_nextn": 1}),
            router_mode=["kv_router"],
            overlap_score_credit=[1.0],
            prefill_load_scale=[1.0],
            router_temperature=[0.0],
        ),
    ),
    "overlap_score_credit": (
        space(ROUTED, overlap_score_credit=[0.5]),
        idle(Why.CHOICE, NO_ROUTER, overlap_score_credit=[0.5]),
    ),
    "prefill_load_scale": (
        space(ROUTED, prefill_load_scale=[4.0]),
        idle(Why.CHOICE, NO_ROUTER, prefill_load_scale=[2.0]),
    ),
    "host_cache_hit_weight": (
        space(ROUTED_HOSTED, host_cache_hit_weight=[1.0]),
        idle(Why.CHOICE, NO_ROUTER, host_cache_hit_weight=[0.5]),
        Inert(
            ROUTED,
            {"search_space.host_cache_hit_weight": [0.5]},
            f"host_cache_hit_weight: no effect {NO_TIER}",
            Why.CHOICE,
        ),
    ),
    "disk_cache_hit_weight": (
        Acts(ROUTED_DISKED, {"search_space.disk_cache_hit_weight": [0.5]}, ("payloads",)),
        idle(Why.TIERS, NO_ROUTER, disk_cache_hit_weight=[0.5]),
        Inert(
            ROUTED_HOSTED,
            {"search_space.disk_cache_hit_weight": [0.0, 0.25, 0.5]},
            "disk_cache_hit_weight: no effect without a disk tier; one choice is searched",
            Why.TIERS,
        ),
    ),
    "router_temperature": (
        space(ROUTED, router_temperature=[1.0]),
        idle(Why.CHOICE, NO_ROUTER, router_temperature=[0.5]),
    ),
    "planner_scaling_policy": (
        space(SCALED, planner_scaling_policy=["disabled"]),
        space(SCALED, planner_scaling_policy=[LOOP | {"planner_mode": "direct"}]),
        space(SCALED, planner_scaling_policy=["load_180_5"]),
        space(SCALED, planner_scaling_policy=["direct_load_180_5"]),
    ),
    "planner_fpm_sampling": (
        space(SCALED, planner_fpm_sampling=["small"]),
        idle(Why.POLICY, NO_POLICY, planner_fpm_sampling=["small"]),
    ),
    "planner_load_sensitivity": (
        space(SCALED, planner_load_sensitivity=["aggressive"]),
        idle(Why.POLICY, NO_POLICY, planner_load_sensitivity=["aggressive"]),
    ),
    "load_predictor_candidates": (
        Acts(FORECAST, {"search_space.load_predictor_candidates": ["kalman_default_raw"]}, ("payloads",)),
        idle(Why.POLICY, "without throughput scaling", load_predictor_candidates=["arima_raw"]),
    ),
    "parallel_configs": (
        space(PINNED, parallel_configs=[{"tp": 2}]),
        space(PINNED, parallel_configs=[{"tp": 1, "replicas": 2}]),
    ),
    **role_fields(),
}

WORKLOAD: dict[str, tuple[Effect, ...]] = {
    "isl": (load(PINNED, isl=31_000), load(RATE, isl=2100)),
    "osl": (load(PINNED, osl=9), load(RATE, osl=9)),
    "concurrency": (load(FEW, concurrency=4),),
    "kv_load_ratio": (load(PINNED, kv_load_ratio=0.2), load(FRONT, kv_load_ratio=[0.1, 0.4])),
    "request_rate": (load(RATE, request_rate=6),),
    "num_request_ratio": (load(PINNED, num_request_ratio=2), load(RATE, num_request_ratio=3)),
    "shared_prefix_ratio": (load(SHARED, shared_prefix_ratio=0.8),),
    "num_prefix_groups": (load(SHARED, num_prefix_groups=6),),
    "turns_per_session": (load(FEW, turns_per_session=2),),
    "inter_turn_delay_ms": (load(SESSIONS, inter_turn_delay_ms=70),),
    "trace_path": (load(TRACE, trace_path=None, isl=20, osl=2, request_rate=1, num_request_ratio=4),),
    "frontend": (load(PINNED, frontend={"ttft_offset_ms": 20.0}),),
    "trace_format": (load(TRACE, trace_format="mooncake-delta"),),
    "trace_block_size": (load(TRACE, trace_block_size=1024),),
    "arrival_speedup_ratio": (load(TRACE, arrival_speedup_ratio=2),),
    "replay_concurrency": (load(TRACE, replay_concurrency=1),),
}

SLA = ("payloads", "metrics", "results")
# Its data are not physical, so that they are hardly trusted.
BLOCK_FP8 = changed(
    PINNED,
    {
        "search_space.model_name": "Qwen/Qwen3-32B-FP8",
        "search_space.parallel_configs": [{"tp": 2}],
        "workload": {"isl": 100, "osl": 4, "concurrency": 1, "num_request_ratio": 2},
    },
)
GOAL: dict[str, tuple[Effect, ...]] = {
    "target": (
        Acts(POOL, {"goal.target": "e2e_latency"}, ("results",)),
        Acts(POOL, {"goal.target": "throughput_per_gpu"}, ("results",)),
        Acts(POOL, {"goal.target": "ttft"}, ("results",)),
        Acts(POOL, {"goal.target": "itl"}, ("results",)),
    ),
    "sla": (Acts(TRACE, {"goal.sla": {"e2e_ms": 100}}),),
    "strict_sla": (
        Acts(changed(GOODPUT, {"goal.sla": {"e2e_ms": 0.001}}), {"goal.strict_sla": True}, ("statuses",)),
    ),
    "confidence_penalty": (Acts(BLOCK_FP8, {"goal.confidence_penalty": 0.2}, ("results",)),),
    "min_confidence": (Acts(BLOCK_FP8, {"goal.min_confidence": "medium"}, ("statuses",)),),
    "min_goodput_rps": (Acts(SIZED, {"goal.min_goodput_rps": 1e6}, ("statuses",)),),
    "pareto_objectives": (
        Acts(FRONT, {"goal.pareto_objectives": ["throughput", "e2e_latency"]}, ("results",)),
    ),
}
SLA_TARGET: dict[str, tuple[Effect, ...]] = {
    "ttft_ms": (Acts(GOODPUT, {"goal.sla.ttft_ms": 20}, SLA),),
    "itl_ms": (Acts(GOODPUT, {"goal.sla.itl_ms": 5}, SLA),),
    "e2e_ms": (Acts(GOODPUT, {"goal.sla": {"e2e_ms": 100}}, SLA),),
}
SWEEP_CONFIG: dict[str, tuple[Effect, ...]] = {
    "max_rounds": (Acts(DRAWN, {"sweep.max_rounds": 3}),),
    "parallel_evals": (
        Acts(ONE_BY_ONE, {"sweep.parallel_evals": 3}, ("payloads", "metrics", "pools")),
        Acts(DRAWN, {"sweep.parallel_evals": 3}, ("pools",)),
    ),
    "candidates_per_round": (Acts(DRAWN, {"sweep.candidates_per_round": 3}),),
    "max_trials": (Acts(DRAWN, {"sweep.max_trials": 3}),),
    "max_seconds": (Acts(DRAWN, {"sweep.max_seconds": 1e-9}),),
    "asks": (
        Acts(
            changed(SEEDED, {"sweep.sampler": "pool-gp", "sweep.screen": "off", "sweep.max_rounds": 12}),
            {"sweep.asks": "pipelined"},
        ),
    ),
    "mode_order": (
        Acts(
            changed(DRAWN, {"search_space.deployment_mode": ["agg", "disagg"]}),
            {"sweep.mode_order": "interleaved"},
        ),
    ),
    "executor": (Acts(DRAWN, {"sweep.executor": "ray"}, ("pools",)),),
    "max_worker_mb": (Acts(DRAWN, {"sweep.max_worker_mb": 100_000}, ("pools",)),),
    "random_seed": (Acts(SEEDED, {"sweep.random_seed": 2}),),
    "max_eval_seconds": (Acts(PINNED, {"sweep.max_eval_seconds": 0.001}, ("statuses",)),),
    "policy": (
        Acts(SEEDED, {"sweep.policy": "thorough", "sweep.sampler": "auto", "sweep.max_rounds": None}),
        Acts(SEEDED, {"sweep.policy": "focused", "sweep.sampler": "auto"}),
    ),
    "sampler": (
        Acts(DRAWN, {"sweep.sampler": "grid"}),
        Acts(POOL, {"sweep.sampler": "random", "sweep.random_seed": 3}),
        Acts(SEEDED, {"sweep.sampler": "quasi-random"}),
    ),
    "sampler_algorithm": (
        Refused(DRAWN, {"sweep.sampler_algorithm": "tpe"}, "optuna and vizier have", Why.CHOICE),
    ),
    "max_suggest_seconds": (
        Refused(DRAWN, {"sweep.max_suggest_seconds": 9}, "only the sampler vizier is limited", Why.CHOICE),
    ),
    "max_suggest_mb": (
        Refused(DRAWN, {"sweep.max_suggest_mb": 900}, "only the sampler vizier is limited", Why.CHOICE),
    ),
    "screen": (Acts(SCREENED, {"sweep.screen": "off"}),),
    "early_stop": (Acts(SETTLING, {"sweep.early_stop": "off"}, ("statuses",)),),
    "load_predictor_choice": (
        Acts(FORECAST, {"sweep.load_predictor_choice": "replay"}, ("payloads", "pools")),
        Inert(
            SCALED,
            {"sweep.load_predictor_choice": "replay"},
            "sweep.load_predictor_choice: no effect without throughput scaling over a trace",
            Why.POLICY,
        ),
    ),
}
CALIBRATION = {
    "version": 1,
    "key": {"backend": "vllm"},
    "decode_scale": 1.5,
    "source": {"file": "log.jsonl", "sha256": "0" * 64, "format": "vllm"},
}
FRONTEND: dict[str, tuple[Effect, ...]] = {
    "preset": (load(PINNED, frontend={"preset": "inferencex"}),),
    "stream_interval": (load(PINNED, frontend={"stream_interval": 3}),),
    "ttft_offset_ms": (load(PINNED, frontend={"ttft_offset_ms": 20.0}),),
    "receive_interval": (
        load(
            changed(RATE, {"workload.request_rate": 50, "workload.osl": 40}), frontend={"receive_interval": 7}
        ),
    ),
    "step_overhead_ms": (load(PINNED, frontend={"step_overhead_ms": 4.0}),),
}
SECTIONS: dict[str, tuple[Effect, ...]] = {
    "search_space": (Acts(PINNED, {"search_space": POOL["search_space"]}),),
    "workload": (Acts(PINNED, {"workload": {"trace_path": TRACE_PATH}}),),
    "goal": (Acts(PINNED, {"goal": {"target": "e2e_latency"}}, ("results",)),),
    "sweep": (Acts(DRAWN, {"sweep": SWEEP}),),
    "calibration": (
        Acts(PINNED, {"calibration": CALIBRATION}),
        Refused(
            PINNED,
            {"calibration": {**CALIBRATION, "key": {"backend": "vllm", "system": "x"}}},
            "calibration: made for system 'x', but search_space.hardware_sku is",
            Why.CHOICE,
        ),
    ),
}
TABLE: Table = {
    "SmartSearchConfig": SECTIONS,
    "SearchSpace": SEARCH_SPACE,
    "Workload": WORKLOAD,
    "FrontendConfig": FRONTEND,
    "OptimizationGoal": GOAL,
    "SLATarget": SLA_TARGET,
    "SweepConfig": SWEEP_CONFIG,
}
