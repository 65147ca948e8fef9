"""What each field of the engine and of its timing does, on which small payload."""

from __future__ import annotations

from aisimulate.config.aic import AicConfig
from aisimulate.config.engine import EngineConfig, RoleConfig
from aisimulate.config.rank import (
    DiskOffload,
    HostOffload,
    RankConfig,
    SglangConfig,
    StateCache,
    TrtllmConfig,
)
from aisimulate.config.timing import ExternalTiming, FixedTiming, LinearTiming, PolynomialTiming

from .field_payloads import (
    AIC,
    AIC_SGLANG,
    AIC_TRTLLM,
    CONFIG,
    CRAMMED_PAIR,
    CROWD,
    DRAFTS,
    FIXED,
    GROUP,
    LINEAR,
    LONG,
    MOE,
    MOE_2,
    OTHER_SYSTEMS,
    PAIR,
    POLYNOMIAL,
    RANK,
    RANKS,
    RETURNING,
    SCRIPTED,
    SGLANG,
    SPILLING,
    SPREAD,
    SQUEEZE,
    TP_2,
)
from .field_rows import (
    DECODE_TIER,
    DISK,
    ENGINE,
    OFFLOAD,
    RANK_PATH,
    SHARED_HOST,
    STATE,
    THREE_WORKERS,
    TIER,
    aic,
    idle_aic,
    idle_rank,
    no_aic,
    no_rank,
    rank,
    role,
    sglang,
    source,
)
from .field_table_router import ROUTED
from .field_walk import Acts, FieldTable, Inert, Refused, Why, changed

TABLE = FieldTable()

# The engine ---------------------------------------------------------------------------------------------

TABLE.add(
    EngineConfig,
    dp_size=Acts(CROWD, {f"{ENGINE}.dp_size": 2}, "duration_ms"),
    tensor_parallel_size=Acts(CROWD, {f"{ENGINE}.tensor_parallel_size": 2}, "gpu_hours"),
    rank=Acts(CROWD, {f"{ENGINE}.rank": RANK | {"max_num_seqs": 1}}, "duration_ms"),
    prefill=(
        role("prefill", PAIR, "mean_ttft_ms", rank=RANK | {"max_num_batched_tokens": 24}),
        Refused(
            CROWD,
            {f"{ENGINE}.prefill": {}},
            "engine.prefill: has no effect in an aggregated topology",
            Why.TIED,
        ),
    ),
    decode=(
        role("decode", PAIR, "duration_ms", dp_size=2),
        Refused(
            CROWD,
            {f"{ENGINE}.decode": {}},
            "engine.decode: has no effect in an aggregated topology",
            Why.TIED,
        ),
    ),
)
TABLE.add(
    RoleConfig,
    dp_size=TABLE.rows[EngineConfig]["dp_size"],
    tensor_parallel_size=TABLE.rows[EngineConfig]["tensor_parallel_size"],
    rank=TABLE.rows[EngineConfig]["rank"],
)
TABLE.add(
    RankConfig,
    backend=(
        rank(changed(SGLANG, {f"{RANK_PATH}.backend": "vllm"}), "mean_ttft_ms", backend="sglang"),
        rank(SQUEEZE, "mean_e2e_latency_ms", backend="trtllm"),
    ),
    num_gpu_blocks=rank(CROWD, "duration_ms", num_gpu_blocks=12),
    block_size=rank(CROWD, "prefix_cache_reused_ratio", block_size=8),
    max_model_len=rank(CROWD, "rejected_requests", max_model_len=20),
    max_num_seqs=rank(CROWD, "duration_ms", max_num_seqs=2),
    max_num_batched_tokens=(
        rank(CROWD, "mean_ttft_ms", max_num_batched_tokens=16),
        Inert(
            SGLANG,
            {f"{RANK_PATH}.max_num_batched_tokens": 16},
            f"{RANK_PATH}.max_num_batched_tokens: no effect on backend sglang",
            Why.SGLANG,
        ),
    ),
    prefill_schedule_interval=(
        rank(GROUP, "mean_ttft_ms", prefill_schedule_interval=4),
        idle_rank(
            Why.TIED,
            "prefill_schedule_interval: no effect on a single attention-DP rank",
            prefill_schedule_interval=4,
        ),
    ),
    prefill_decode_interval=(
        sglang(prefill_decode_interval=2),
        no_rank(
            Why.SGLANG,
            "prefill_decode_interval: 2 is not 0 (only sglang spaces its prefills)",
            prefill_decode_interval=2,
        ),
    ),
    enable_prefix_caching=rank(CROWD, "prefix_cache_reused_ratio", enable_prefix_caching=False),
    enable_chunked_prefill=rank(LONG, "rejected_requests", enable_chunked_prefill=False),
    speedup_ratio=rank(CROWD, "duration_ms", speedup_ratio=2.0),
    decode_speedup_ratio=rank(CROWD, "duration_ms", decode_speedup_ratio=2.0),
    aic_nextn=rank(CROWD, "duration_ms", aic_nextn=1),
    aic_nextn_accept_rates=(
        rank(DRAFTS, "duration_ms", aic_nextn_accept_rates="0.1"),
        no_rank(Why.TIED, "aic_nextn_accept_rates: needs aic_nextn", aic_nextn_accept_rates="0.5"),
        Inert(
            changed(DRAFTS, {f"{RANK_PATH}.aic_nextn_accept_rates": "0.85,0.3"}),
            {f"{RANK_PATH}.aic_nextn_accept_rates": "0.85,0.3,0.5"},
            f"{RANK_PATH}.aic_nextn_accept_rates: no effect beyond the first 2 (aic_nextn)",
            Why.TIED,
        ),
    ),
    aic_mtp_seed=(
        rank(DRAFTS, "mean_e2e_latency_ms", aic_mtp_seed=7),
        no_rank(Why.TIED, "aic_mtp_seed: 7 has no effect without aic_nextn", aic_mtp_seed=7),
    ),
    worker_type=no_rank(
        Why.TIED, "worker_type: 'prefill' contradicts the topology (aggregated)", worker_type="prefill"
    ),
    preemption_mode=rank(SQUEEZE, "mean_e2e_latency_ms", preemption_mode="fifo"),
    emit_kv_events=no_rank(Why.EVENTS, "emit_kv_events: true would change nothing", emit_kv_events=True),
    emit_kv_token_ids=no_rank(Why.EVENTS, "emit_kv_token_ids: needs emit_kv_events", emit_kv_token_ids=True),
    kv_transfer_bytes_per_token=(
        source(PAIR, "mean_ttft_ms", kv_transfer_bytes_per_token=500_000),
        idle_rank(
            Why.TIED,
            "kv_transfer_bytes_per_token: no effect in an aggregated topology",
            kv_transfer_bytes_per_token=64,
        ),
    ),
    kv_transfer_bandwidth=(
        source(PAIR, "mean_ttft_ms", kv_transfer_bandwidth=0.5),
        idle_rank(
            Why.TIED, "kv_transfer_bandwidth: no effect in an aggregated topology", kv_transfer_bandwidth=50.0
        ),
    ),
    kv_transfer_timing_mode=(
        source(SPREAD, "mean_ttft_ms", kv_transfer_timing_mode="destination_missing"),
        idle_rank(
            Why.TIED,
            "kv_transfer_timing_mode: no effect in an aggregated topology",
            kv_transfer_timing_mode="destination_missing",
        ),
    ),
    kv_cache_bytes_per_token=(
        rank(RETURNING, "mean_ttft_ms", kv_cache_bytes_per_token=500_000),
        idle_rank(
            Why.TIED,
            "kv_cache_bytes_per_token: no effect without a host tier or state cache",
            kv_cache_bytes_per_token=64,
        ),
    ),
    native_host_offload=(
        rank(RETURNING, "mean_ttft_ms", native_host_offload={"num_host_blocks": 64}),
        Acts(CRAMMED_PAIR, DECODE_TIER, "mean_e2e_latency_ms"),
        Refused(
            changed(
                PAIR,
                {f"{ENGINE}.decode.dp_size": 2, f"{ENGINE}.decode.rank.prefill_schedule_interval": 2},
            ),
            DECODE_TIER,
            "native_host_offload: a value is not supported with dp_size 2 and prefill_schedule_interval 2",
            Why.TIERS,
        ),
    ),
    g3_offload=(
        rank(SPILLING, "first_admission_prefix_cache_reused_ratio", g3_offload=None),
        no_rank(
            Why.TIERS,
            "g3_offload: needs native_host_offload",
            g3_offload={"scope": "worker_local", "num_g3_blocks": 8},
        ),
        Refused(
            RANKS,
            TIER | {f"{RANK_PATH}.g3_offload": {"scope": "worker_local", "num_g3_blocks": 8}},
            f"{RANK_PATH}.g3_offload: a value is not supported with dp_size 2",
            Why.TIERS,
        ),
    ),
    state_cache=(
        Acts(CROWD, STATE | {f"{RANK_PATH}.state_cache": {"bytes_per_request": 900}}, "mean_ttft_ms"),
        Acts(DRAFTS, STATE | {f"{RANK_PATH}.state_cache": {"bytes_per_request": 900}}, "mean_ttft_ms"),
        Refused(
            PAIR,
            {
                f"{ENGINE}.prefill.rank.{name}": value
                for name, value in {
                    "kv_cache_bytes_per_token": 64,
                    "state_cache": {"bytes_per_request": 100},
                }.items()
            },
            "prefill.rank.state_cache: a value is not supported in a disaggregated topology",
            Why.TIERS,
        ),
    ),
    timing_model=rank(CROWD, "duration_ms", timing_model={"type": "polynomial"}),
    timing_mode=(
        rank(CROWD, "mean_e2e_latency_ms", timing_mode="fused"),
        rank(CROWD, "mean_e2e_latency_ms", timing_mode="half"),
    ),
    prefill_scale=(
        rank(CROWD, "mean_ttft_ms", prefill_scale=1.5),
        Inert(
            PAIR,
            {f"{ENGINE}.decode.rank.prefill_scale": 1.5},
            f"{ENGINE}.decode.rank.prefill_scale: no effect on a decode worker",
            Why.TIED,
        ),
    ),
    decode_scale=(
        rank(CROWD, "mean_itl_ms", decode_scale=1.5),
        Inert(
            PAIR,
            {f"{ENGINE}.prefill.rank.decode_scale": 1.5},
            f"{ENGINE}.prefill.rank.decode_scale: no effect on a prefill worker, which never only decodes",
            Why.TIED,
        ),
    ),
    scheduling_look_ahead=(
        rank(CROWD, "mean_ttft_ms", scheduling_look_ahead=1),
        rank(ROUTED, "mean_ttft_ms", scheduling_look_ahead=1),
        rank(SCRIPTED, "mean_ttft_ms", scheduling_look_ahead=1),
        rank(DRAFTS, "mean_ttft_ms", scheduling_look_ahead=1),
    ),
    sglang=(
        sglang(sglang={"chunked_prefill_size": 8}),
        idle_rank(Why.SGLANG, "sglang: no effect on backend vllm", sglang={"schedule_policy": "lpm"}),
        Inert(
            changed(SGLANG, {f"{RANK_PATH}.enable_prefix_caching": False}),
            {f"{RANK_PATH}.sglang": {"schedule_policy": "lpm"}},
            f"{RANK_PATH}.sglang.schedule_policy: no effect without enable_prefix_caching",
            Why.SGLANG,
        ),
    ),
    trtllm=no_rank(
        Why.ONE_VALUE,
        "trtllm.capacity_scheduler_policy: 'max' is not 'guaranteed_no_evict'",
        trtllm={"capacity_scheduler_policy": "max"},
    ),
)
TABLE.add(
    SglangConfig,
    **{
        name: (
            sglang(sglang={name: value}),
            idle_rank(Why.SGLANG, "sglang: no effect on backend vllm", sglang={name: value}),
        )
        for name, value in {
            "schedule_policy": "lpm",
            "max_prefill_tokens": 12,
            "chunked_prefill_size": 8,
            "clip_max_new_tokens": 1,
            "schedule_conservativeness": 0.0,
        }.items()
    },
)
TABLE.add(TrtllmConfig, capacity_scheduler_policy=TABLE.rows[RankConfig]["trtllm"])
TABLE.add(
    HostOffload,
    num_host_blocks=Acts(RETURNING, {f"{OFFLOAD}.num_host_blocks": 7}, "prefix_cache_reused_ratio"),
    d2h_bandwidth_gbps=Acts(RETURNING, {f"{OFFLOAD}.d2h_bandwidth_gbps": 0.1}, "mean_ttft_ms"),
    h2d_bandwidth_gbps=Acts(RETURNING, {f"{OFFLOAD}.h2d_bandwidth_gbps": 0.1}, "mean_ttft_ms"),
    scope=(
        Acts(changed(RETURNING, THREE_WORKERS), SHARED_HOST, "mean_ttft_ms"),
        Refused(
            changed(RETURNING, {f"{ENGINE}.dp_size": 2, f"{RANK_PATH}.prefill_schedule_interval": 2}),
            SHARED_HOST,
            f'{OFFLOAD}.scope: "cluster_shared" is not supported with dp_size 2 and prefill_schedule',
            Why.TIERS,
        ),
    ),
    latency_to_first_byte_ms=Acts(RETURNING, {f"{OFFLOAD}.latency_to_first_byte_ms": 3.0}, "mean_ttft_ms"),
    kv_layout_id=(
        Refused(
            RETURNING,
            SHARED_HOST | {f"{OFFLOAD}.kv_layout_id": " "},
            f"{OFFLOAD}.kv_layout_id: a name that is not blank is needed by scope cluster_shared",
            Why.TIED,
        ),
        Inert(
            RETURNING,
            {f"{OFFLOAD}.kv_layout_id": "one"},
            f"{OFFLOAD}.kv_layout_id: no effect with scope dp_rank_local",
            Why.TIERS,
        ),
    ),
    **{
        f"shared_{way}_bandwidth_gbps": (
            Acts(
                changed(RETURNING, SHARED_HOST),
                {f"{OFFLOAD}.shared_{way}_bandwidth_gbps": 0.1},
                "mean_ttft_ms",
            ),
            Inert(
                RETURNING,
                {f"{OFFLOAD}.shared_{way}_bandwidth_gbps": 0.5},
                f"{OFFLOAD}.shared_{way}_bandwidth_gbps: no effect with scope dp_rank_local",
                Why.TIERS,
            ),
        )
        for way in ("d2h", "h2d")
    },
)
TABLE.add(
    DiskOffload,
    scope=Acts(changed(SPILLING, THREE_WORKERS), {f"{DISK}.scope": "cluster_shared"}, "mean_ttft_ms"),
    num_g3_blocks=Acts(SPILLING, {f"{DISK}.num_g3_blocks": 2}, "mean_ttft_ms"),
    latency_to_first_byte_ms=Acts(SPILLING, {f"{DISK}.latency_to_first_byte_ms": 3.0}, "mean_ttft_ms"),
    read_bandwidth_gbps=Acts(SPILLING, {f"{DISK}.read_bandwidth_gbps": 0.1}, "mean_ttft_ms"),
    write_bandwidth_gbps=Acts(SPILLING, {f"{DISK}.write_bandwidth_gbps": 0.01}, "mean_ttft_ms"),
    **{
        f"shared_{way}_bandwidth_gbps": (
            Acts(
                changed(SPILLING, {f"{DISK}.scope": "cluster_shared"}),
                {f"{DISK}.shared_{way}_bandwidth_gbps": 0.01},
                "mean_ttft_ms",
            ),
            Inert(
                SPILLING,
                {f"{DISK}.shared_{way}_bandwidth_gbps": 0.5},
                f"{DISK}.shared_{way}_bandwidth_gbps: no effect with scope worker_local",
                Why.TIERS,
            ),
        )
        for way in ("read", "write")
    },
)
TABLE.add(StateCache, bytes_per_request=TABLE.rows[RankConfig]["state_cache"])

# Timing -------------------------------------------------------------------------------------------------

TABLE.add(
    PolynomialTiming,
    type=rank(POLYNOMIAL, "duration_ms", timing_model=FIXED),
)
TABLE.add(
    FixedTiming,
    type=rank(CROWD, "duration_ms", timing_model={"type": "polynomial"}),
    prefill_ms=Acts(CROWD, {f"{RANK_PATH}.timing_model.prefill_ms": 11.0}, "mean_ttft_ms"),
    decode_ms=Acts(CROWD, {f"{RANK_PATH}.timing_model.decode_ms": 6.0}, "mean_itl_ms"),
)
TABLE.add(
    LinearTiming,
    type=rank(LINEAR, "duration_ms", timing_model={"type": "polynomial"}),
    **{
        name: Acts(LINEAR, {f"{RANK_PATH}.timing_model.{name}": 2.0}, "duration_ms")
        for name in LinearTiming.model_fields
        if name != "type"
    },
)
TABLE.add(
    ExternalTiming,
    type=rank(AIC, "mean_e2e_latency_ms", timing_model={"type": "polynomial"}),
    provider=Refused(
        AIC,
        {f"{RANK_PATH}.timing_model.provider": "other"},
        'native timing provider "other" is not installed; only "aic" is available',
        Why.ONE_VALUE,
    ),
    config=Acts(AIC, {f"{CONFIG}.system": "h100_sxm"}, "mean_e2e_latency_ms"),
)
TABLE.add(
    AicConfig,
    model=aic(model="Qwen/Qwen3-8B"),
    backend=(
        aic(backend="sglang", beside={f"{RANK_PATH}.backend": "sglang"}),
        no_aic(Why.TIED, "AIC backend 'sglang' does not match engine backend 'vllm'", backend="sglang"),
    ),
    system=aic(system="h100_sxm"),
    tp=(
        aic(tp=2, beside={f"{ENGINE}.tensor_parallel_size": 2}),
        no_aic(Why.TIED, "AIC tp=2 does not match engine tensor_parallel_size=1", tp=2),
    ),
    backend_version=aic(metric="provenance", backend_version="next"),
    pp=aic(pp=2),
    attention_dp=(
        aic(attention_dp=2, beside={f"{ENGINE}.dp_size": 2}),
        no_aic(Why.TIED, "AIC attention_dp=2 does not match engine dp_size=1", attention_dp=2),
    ),
    moe_tp_size=(
        aic(MOE_2, moe_tp_size=1, moe_ep_size=2),
        idle_aic(
            Why.DATA,
            "moe_tp_size: no effect on meta-llama/Meta-Llama-3.1-8B, which has no experts",
            base=TP_2,
            moe_tp_size=2,
            moe_ep_size=1,
        ),
    ),
    moe_ep_size=(
        aic(MOE_2, moe_tp_size=1, moe_ep_size=2),
        idle_aic(
            Why.DATA,
            "moe_ep_size: no effect on meta-llama/Meta-Llama-3.1-8B, which has no experts",
            base=TP_2,
            moe_tp_size=1,
            moe_ep_size=2,
        ),
    ),
    gemm_dtype=aic(gemm_dtype="fp8"),
    moe_dtype=(
        aic(MOE, moe_dtype="fp8"),
        idle_aic(
            Why.DATA,
            "moe_dtype: no effect on meta-llama/Meta-Llama-3.1-8B, which has no experts",
            moe_dtype="fp8",
        ),
    ),
    fmha_dtype=no_aic(Why.DATA, "fmha_dtype: 'fp8' has no prefill-attention data", fmha_dtype="fp8"),
    kv_cache_dtype=aic(kv_cache_dtype="fp8"),
    comm_dtype=idle_aic(
        Why.DATA,
        "comm_dtype: no effect because the data price communication in half precision only",
        base=TP_2,
        comm_dtype="int8",
    ),
    nextn=(
        aic(nextn=1, beside={f"{RANK_PATH}.aic_nextn": 1}),
        no_aic(Why.TIED, "AIC nextn=1 does not match engine aic_nextn=0", nextn=1),
    ),
    kv_block_size=no_aic(
        Why.TIED, "AIC kv_block_size=32 does not match engine block_size=64", kv_block_size=32
    ),
    gpu_memory_utilization=(
        aic(gpu_memory_utilization=0.5),
        idle_aic(
            Why.TIED,
            "gpu_memory_utilization: no effect beside num_gpu_blocks",
            base=changed(AIC, {f"{RANK_PATH}.num_gpu_blocks": 9000}),
            gpu_memory_utilization=0.5,
        ),
    ),
    mem_fraction_static=(
        aic(AIC_SGLANG, mem_fraction_static=0.5),
        idle_aic(Why.SGLANG, "mem_fraction_static: no effect on this backend", mem_fraction_static=0.5),
    ),
    free_gpu_memory_fraction=(
        aic(AIC_TRTLLM, "provenance", free_gpu_memory_fraction=0.8),
        idle_aic(
            Why.TIED, "free_gpu_memory_fraction: no effect on this backend", free_gpu_memory_fraction=0.5
        ),
    ),
    systems_path=aic(systems_path=OTHER_SYSTEMS),
    # What it permits is tested with a feigned network (test_aic.py).
    allow_model_download=no_aic(
        Why.PERMIT,
        f"{CONFIG}.model: 'nobody/nothing' is not bundled",
        model="nobody/nothing",
        allow_model_download=False,
    ),
)
