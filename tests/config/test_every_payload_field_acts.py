"""Every field of a payload acts, or is refused, or is reported without effect.

Only what this version leaves to later ones may do the last two; each such row names its reason.
"""

from __future__ import annotations

import pytest

from aisimulate.config.aic import AicConfig
from aisimulate.config.engine import EngineConfig, RoleConfig
from aisimulate.config.rank import HostOffload, RankConfig, SglangConfig, StateCache, TrtllmConfig
from aisimulate.config.spec import (
    Adapters,
    Aggregated,
    Disaggregated,
    Provider,
    ReplayRequest,
    ReplaySpec,
    SlaConfig,
    WorkerPool,
)
from aisimulate.config.timing import ExternalTiming, FixedTiming, PolynomialTiming
from aisimulate.config.traffic import RuntimeTraffic

from .field_payloads import (
    AIC,
    CAPPED,
    CONFIG,
    CONSTANT,
    CROWD,
    FIXED,
    INTERVAL,
    LONG,
    MOE,
    MOE_2,
    POISSON,
    RANK,
    RANKS,
    RELATIVE,
    SESSIONS,
    SHARED,
    SQUEEZE,
    SYNTHETIC,
    TP_2,
    TRACE,
)
from .field_walk import Acts, FieldTable, Inert, Refused, changed, models_below, result
from .payloads import refused

# Reasons for which a field may be refused or inert.
SGLANG = "SGLang"
TRTLLM = "TensorRT-LLM"
DISAGG = "disaggregation"
ROUTER = "kv_router"
PLANNER = "planner"
TIERS = "host tiers and state caches"
SPECULATION = "speculation"
INTERVALS = "prefill intervals"
FORMATS = "trace formats other than mooncake"
ONE_VALUE = "there is one legal value"
CHECK = "a cross-check: the value must repeat that of another field, which acts"
DATA = "no data tell two values apart"
REASONS = {
    SGLANG,
    TRTLLM,
    DISAGG,
    ROUTER,
    PLANNER,
    TIERS,
    SPECULATION,
    INTERVALS,
    FORMATS,
    ONE_VALUE,
    CHECK,
    DATA,
}
# Fields that act in no payload at all, all of a kind whose reason every row of theirs gives.
INERT_MODELS = (Disaggregated, Provider, Adapters, HostOffload, StateCache, SglangConfig, TrtllmConfig)

ENGINE, RANK_PATH = "spec.engine", "spec.engine.rank"
POOL = {"initial_workers": 1}
PAIR = {"kind": "disaggregated", "prefill": POOL, "decode": POOL}
TIER = {
    f"{RANK_PATH}.kv_cache_bytes_per_token": 64,
    f"{RANK_PATH}.native_host_offload": {"num_host_blocks": 8},
}
STATE = {f"{RANK_PATH}.kv_cache_bytes_per_token": 64}
OFFLOAD = f"{RANK_PATH}.native_host_offload: a value is not supported yet"

TABLE = FieldTable()


def rank(base, metric=None, **fields) -> Acts:
    return Acts(base, {f"{RANK_PATH}.{name}": value for name, value in fields.items()}, metric)


def no_rank(reason, text, **fields) -> Refused:
    return Refused(CROWD, {f"{RANK_PATH}.{name}": value for name, value in fields.items()}, text, reason)


def idle_rank(reason, note, **fields) -> Inert:
    changes = {f"{RANK_PATH}.{name}": value for name, value in fields.items()}
    return Inert(CROWD, changes, f"{RANK_PATH}.{note}", reason)


def request(base, metric=None, **fields) -> Acts:
    return Acts(base, {f"spec.requests.1.{name}": value for name, value in fields.items()}, metric)


def traffic(base, metric=None, **fields) -> Acts:
    return Acts(base, {f"traffic.{name}": value for name, value in fields.items()}, metric)


def aic(base=AIC, metric="mean_e2e_latency_ms", beside=None, **fields) -> Acts:
    changes = {f"{CONFIG}.{name}": value for name, value in fields.items()}
    return Acts(base, changes | (beside or {}), metric)


def no_aic(reason, text, **fields) -> Refused:
    return Refused(AIC, {f"{CONFIG}.{name}": value for name, value in fields.items()}, text, reason)


def idle_aic(reason, note, base=AIC, **fields) -> Inert:
    changes = {f"{CONFIG}.{name}": value for name, value in fields.items()}
    return Inert(base, changes, f"{CONFIG}.{note}", reason)


def disagg(**changes) -> Refused:
    topology = PAIR | changes
    text = "spec.topology.kind: topology 'disaggregated' is not supported yet (supported: aggregated)"
    return Refused(CROWD, {"spec.topology": topology}, text, DISAGG)


# The spec -----------------------------------------------------------------------------------------------

TABLE.add(
    ReplaySpec,
    version=Refused(CROWD, {"spec.version": 2}, "spec.version: 2 is not 1 (the only version)", ONE_VALUE),
    topology=Acts(CROWD, {"spec.topology": {"kind": "aggregated", "workers": {"initial_workers": 2}}}),
    engine=Acts(CROWD, {"spec.engine": {"rank": RANK | {"max_num_seqs": 2}}}),
    adapters=Refused(
        CROWD,
        {"spec.adapters": {"placement": {"provider": "kv_router"}}},
        "spec.adapters.placement.provider: placement 'kv_router' is not supported yet",
        ROUTER,
    ),
    max_sim_time_ms=(
        Acts(CROWD, {"spec.max_sim_time_ms": 130.0}, "unfinished_requests"),
        Acts(SYNTHETIC, {"spec.max_sim_time_ms": 30}, "unfinished_requests"),
    ),
    max_in_flight=(
        Acts(CROWD, {"spec.max_in_flight": 1}, "duration_ms"),
        Acts(SYNTHETIC, {"spec.max_in_flight": 1}, "duration_ms"),
        Acts(TRACE, {"spec.max_in_flight": 1}, "duration_ms"),
    ),
    record_per_request=Acts(CROWD, {"spec.record_per_request": False}, "per_request"),
    sla=Acts(CROWD, {"spec.sla": {"ttft_ms": 20.0}}, "goodput_completed_requests"),
    requests=(
        Acts(CROWD, {"spec.requests": CROWD["spec"]["requests"][:2]}, "num_requests"),
        Inert(
            SYNTHETIC,
            {"spec.requests": CROWD["spec"]["requests"]},
            "spec.requests: replaced by traffic",
            CHECK,
        ),
    ),
)
TABLE.add(
    Aggregated,
    kind=disagg(),
    workers=Acts(CROWD, {"spec.topology.workers": {"initial_workers": 3}}, "duration_ms"),
)
TABLE.add(
    WorkerPool,
    initial_workers=Acts(CROWD, {"spec.topology.workers.initial_workers": 2}, "duration_ms"),
    startup_delay_ms=Inert(
        CROWD,
        {"spec.topology.workers.startup_delay_ms": 5.0},
        "spec.topology.workers.startup_delay_ms: no effect without scaling",
        PLANNER,
    ),
)
TABLE.add(
    Disaggregated,
    kind=disagg(),
    prefill=disagg(prefill={"initial_workers": 2}),
    decode=disagg(decode={"initial_workers": 2}),
    handoff_latency_ms=disagg(handoff_latency_ms=5.0),
)
TABLE.add(
    Adapters,
    placement=Refused(
        CROWD,
        {"spec.adapters.placement": {"provider": "round_robin", "config": {"weight": 1}}},
        'spec.adapters.placement.config: {"weight": 1} has no effect: round_robin has no settings',
        ROUTER,
    ),
    scaling=Refused(
        CROWD,
        {"spec.adapters.scaling": {"provider": "planner"}},
        "spec.adapters.scaling.provider: scaling 'planner' is not supported yet (supported: none)",
        PLANNER,
    ),
)
TABLE.add(
    Provider,
    provider=Refused(
        CROWD,
        {"spec.adapters.placement.provider": "kv_router"},
        "placement 'kv_router' is not supported yet (supported: round_robin)",
        ROUTER,
    ),
    config=Refused(
        CROWD,
        {"spec.adapters.scaling": {"provider": "none", "config": {"interval_s": 5}}},
        'spec.adapters.scaling.config: {"interval_s": 5} has no effect without scaling',
        PLANNER,
    ),
)
TABLE.add(
    SlaConfig,
    ttft_ms=Acts(changed(CROWD, {"spec.sla": {"ttft_ms": 1e6}}), {"spec.sla.ttft_ms": 20.0}),
    itl_ms=Acts(changed(CROWD, {"spec.sla": {"itl_ms": 1e6}}), {"spec.sla.itl_ms": 5.6}),
    e2e_ms=Acts(changed(CROWD, {"spec.sla": {"e2e_ms": 1e6}}), {"spec.sla.e2e_ms": 140.0}),
)
TABLE.add(
    ReplayRequest,
    id=request(CROWD, "per_request", id="z"),
    arrival_time_ms=request(CROWD, "mean_ttft_ms", arrival_time_ms=50.0),
    input_tokens=request(RANKS, "total_input_tokens", input_tokens=25),
    output_tokens=request(CROWD, "total_output_tokens", output_tokens=21),
    input_token_ids=request(CROWD, "prefix_cache_reused_ratio", input_token_ids=list(range(500, 524))),
    output_token_ids=request(CROWD, "total_output_tokens", output_token_ids=[1, 2, 3]),
    dp_rank=request(RANKS, "per_request", dp_rank=0),
    session_id=request(CROWD, "per_request", session_id="s"),
    turn_index=request(CROWD, "per_request", turn_index=3),
    metadata=request(CROWD, "per_request", metadata={"tenant": "a"}),
)

# The engine ---------------------------------------------------------------------------------------------

TABLE.add(
    EngineConfig,
    dp_size=Acts(CROWD, {f"{ENGINE}.dp_size": 2}, "duration_ms"),
    tensor_parallel_size=Acts(CROWD, {f"{ENGINE}.tensor_parallel_size": 2}, "gpu_hours"),
    rank=Acts(CROWD, {f"{ENGINE}.rank": RANK | {"max_num_seqs": 1}}, "duration_ms"),
    prefill=Refused(
        CROWD, {f"{ENGINE}.prefill": {}}, "engine.prefill: has no effect in an aggregated topology", DISAGG
    ),
    decode=Refused(
        CROWD, {f"{ENGINE}.decode": {}}, "engine.decode: has no effect in an aggregated topology", DISAGG
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
        no_rank(SGLANG, "backend 'sglang' is not supported yet (supported: vllm)", backend="sglang"),
        no_rank(TRTLLM, "backend 'trtllm' is not supported yet (supported: vllm)", backend="trtllm"),
    ),
    num_gpu_blocks=rank(CROWD, "duration_ms", num_gpu_blocks=12),
    block_size=rank(CROWD, "prefix_cache_reused_ratio", block_size=8),
    max_model_len=rank(CROWD, "rejected_requests", max_model_len=20),
    max_num_seqs=rank(CROWD, "duration_ms", max_num_seqs=2),
    max_num_batched_tokens=rank(CROWD, "mean_ttft_ms", max_num_batched_tokens=32),
    prefill_schedule_interval=no_rank(
        INTERVALS, "prefill_schedule_interval: 2 is not supported yet", prefill_schedule_interval=2
    ),
    prefill_decode_interval=no_rank(
        SGLANG,
        "prefill_decode_interval: 2 is not 0 (only sglang spaces its prefills)",
        prefill_decode_interval=2,
    ),
    enable_prefix_caching=rank(CROWD, "prefix_cache_reused_ratio", enable_prefix_caching=False),
    enable_chunked_prefill=rank(LONG, "rejected_requests", enable_chunked_prefill=False),
    speedup_ratio=rank(CROWD, "duration_ms", speedup_ratio=2.0),
    decode_speedup_ratio=rank(CROWD, "duration_ms", decode_speedup_ratio=2.0),
    aic_nextn=no_rank(SPECULATION, "aic_nextn: 1 is not supported yet (supported: null)", aic_nextn=1),
    aic_nextn_accept_rates=no_rank(
        SPECULATION, "aic_nextn_accept_rates: needs aic_nextn", aic_nextn_accept_rates="0.5"
    ),
    aic_mtp_seed=no_rank(SPECULATION, "aic_mtp_seed: 7 has no effect without aic_nextn", aic_mtp_seed=7),
    worker_type=no_rank(
        DISAGG, "worker_type: 'prefill' contradicts the topology (aggregated)", worker_type="prefill"
    ),
    preemption_mode=rank(SQUEEZE, "mean_e2e_latency_ms", preemption_mode="fifo"),
    emit_kv_events=no_rank(ROUTER, "emit_kv_events: true is not supported yet", emit_kv_events=True),
    emit_kv_token_ids=no_rank(ROUTER, "emit_kv_token_ids: needs emit_kv_events", emit_kv_token_ids=True),
    kv_transfer_bytes_per_token=idle_rank(
        DISAGG,
        "kv_transfer_bytes_per_token: no effect in an aggregated topology",
        kv_transfer_bytes_per_token=64,
    ),
    kv_transfer_bandwidth=idle_rank(
        DISAGG, "kv_transfer_bandwidth: no effect in an aggregated topology", kv_transfer_bandwidth=50.0
    ),
    kv_transfer_timing_mode=idle_rank(
        DISAGG,
        "kv_transfer_timing_mode: no effect in an aggregated topology",
        kv_transfer_timing_mode="destination_missing",
    ),
    kv_cache_bytes_per_token=idle_rank(
        TIERS,
        "kv_cache_bytes_per_token: no effect without a host tier or state cache",
        kv_cache_bytes_per_token=64,
    ),
    native_host_offload=Refused(CROWD, TIER, OFFLOAD, TIERS),
    g3_offload=(
        no_rank(TIERS, "g3_offload: needs native_host_offload", g3_offload={}),
        Refused(CROWD, TIER | {f"{RANK_PATH}.g3_offload": {}}, OFFLOAD, TIERS),
    ),
    state_cache=Refused(
        CROWD,
        STATE | {f"{RANK_PATH}.state_cache": {"bytes_per_request": 100}},
        f"{RANK_PATH}.state_cache: a value is not supported yet (supported: null)",
        TIERS,
    ),
    timing_model=rank(CROWD, "duration_ms", timing_model={"type": "polynomial"}),
    sglang=idle_rank(SGLANG, "sglang: no effect on backend vllm", sglang={"schedule_policy": "lpm"}),
    trtllm=no_rank(
        TRTLLM,
        "trtllm.capacity_scheduler_policy: 'max' is not 'guaranteed_no_evict'",
        trtllm={"capacity_scheduler_policy": "max"},
    ),
)
TABLE.add(
    SglangConfig,
    **{
        name: idle_rank(SGLANG, "sglang: no effect on backend vllm", sglang={name: value})
        for name, value in {
            "schedule_policy": "lpm",
            "max_prefill_tokens": 1,
            "chunked_prefill_size": 1,
            "clip_max_new_tokens": 1,
            "schedule_conservativeness": 0.5,
        }.items()
    },
)
TABLE.add(TrtllmConfig, capacity_scheduler_policy=TABLE.rows[RankConfig]["trtllm"])
TABLE.add(
    HostOffload,
    **{
        name: Refused(CROWD, TIER | {f"{RANK_PATH}.native_host_offload.{name}": 4}, OFFLOAD, TIERS)
        for name in ("num_host_blocks", "d2h_bandwidth_gbps", "h2d_bandwidth_gbps")
    },
)
TABLE.add(StateCache, bytes_per_request=TABLE.rows[RankConfig]["state_cache"])

# Timing -------------------------------------------------------------------------------------------------

TABLE.add(
    PolynomialTiming,
    type=rank(changed(CROWD, {f"{RANK_PATH}.timing_model": {"type": "polynomial"}}), timing_model=FIXED),
)
TABLE.add(
    FixedTiming,
    type=rank(CROWD, "duration_ms", timing_model={"type": "polynomial"}),
    prefill_ms=Acts(CROWD, {f"{RANK_PATH}.timing_model.prefill_ms": 11.0}, "mean_ttft_ms"),
    decode_ms=Acts(CROWD, {f"{RANK_PATH}.timing_model.decode_ms": 6.0}, "mean_itl_ms"),
)
TABLE.add(
    ExternalTiming,
    type=rank(AIC, "mean_e2e_latency_ms", timing_model={"type": "polynomial"}),
    provider=Refused(
        AIC,
        {f"{RANK_PATH}.timing_model.provider": "other"},
        'native timing provider "other" is not installed; only "aic" is available',
        ONE_VALUE,
    ),
    config=Acts(AIC, {f"{CONFIG}.system": "h100_sxm"}, "mean_e2e_latency_ms"),
)
TABLE.add(
    AicConfig,
    model=aic(model="Qwen/Qwen3-8B"),
    backend=no_aic(SGLANG, "AIC backend 'sglang' does not match engine backend 'vllm'", backend="sglang"),
    system=aic(system="h100_sxm"),
    tp=(
        aic(tp=2, beside={f"{ENGINE}.tensor_parallel_size": 2}),
        no_aic(CHECK, "AIC tp=2 does not match engine tensor_parallel_size=1", tp=2),
    ),
    backend_version=aic(backend_version="next"),
    pp=aic(pp=2),
    attention_dp=(
        aic(attention_dp=2, beside={f"{ENGINE}.dp_size": 2}),
        no_aic(CHECK, "AIC attention_dp=2 does not match engine dp_size=1", attention_dp=2),
    ),
    moe_tp_size=(
        aic(MOE_2, moe_tp_size=1, moe_ep_size=2),
        idle_aic(
            DATA,
            "moe_tp_size: no effect on meta-llama/Meta-Llama-3.1-8B, which has no experts",
            base=TP_2,
            moe_tp_size=2,
            moe_ep_size=1,
        ),
    ),
    moe_ep_size=(
        aic(MOE_2, moe_tp_size=1, moe_ep_size=2),
        idle_aic(
            DATA,
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
            DATA,
            "moe_dtype: no effect on meta-llama/Meta-Llama-3.1-8B, which has no experts",
            moe_dtype="fp8",
        ),
    ),
    fmha_dtype=aic(changed(AIC, {f"{CONFIG}.backend_version": "next"}), fmha_dtype="fp8"),
    kv_cache_dtype=aic(kv_cache_dtype="fp8"),
    comm_dtype=idle_aic(
        DATA,
        "comm_dtype: no effect because the data price communication in half precision only",
        base=TP_2,
        comm_dtype="int8",
    ),
    nextn=no_aic(SPECULATION, "AIC nextn=1 does not match engine aic_nextn=0", nextn=1),
    kv_block_size=no_aic(CHECK, "AIC kv_block_size=32 does not match engine block_size=64", kv_block_size=32),
    gpu_memory_utilization=(
        aic(gpu_memory_utilization=0.5),
        idle_aic(
            CHECK,
            "gpu_memory_utilization: no effect beside num_gpu_blocks",
            base=changed(AIC, {f"{RANK_PATH}.num_gpu_blocks": 9000}),
            gpu_memory_utilization=0.5,
        ),
    ),
    mem_fraction_static=idle_aic(
        SGLANG, "mem_fraction_static: no effect on this backend", mem_fraction_static=0.5
    ),
    free_gpu_memory_fraction=idle_aic(
        TRTLLM, "free_gpu_memory_fraction: no effect on this backend", free_gpu_memory_fraction=0.5
    ),
    systems_path=no_aic(ONE_VALUE, "'h200_sxm' must be one of", systems_path="tests/data"),
)

# The traffic --------------------------------------------------------------------------------------------

TABLE.add(
    RuntimeTraffic,
    source_type=traffic(CAPPED, "total_input_tokens", source_type="synthetic-session"),
    load_type=traffic(CONSTANT, "duration_ms", load_type="poisson"),
    trace_path=traffic(TRACE, "num_requests", trace_path="tests/data/traces/planned_outputs.jsonl"),
    trace_paths=traffic(TRACE, "num_requests", trace_paths=[TRACE["traffic"]["trace_path"]] * 2),
    trace_format=Refused(
        TRACE,
        {"traffic.trace_format": "mooncake-delta"},
        "trace format 'mooncake-delta' is not supported yet (supported: mooncake)",
        FORMATS,
    ),
    trace_block_size=traffic(TRACE, "prefix_cache_reused_ratio", trace_block_size=1024),
    arrival_speedup_ratio=traffic(TRACE, "duration_ms", arrival_speedup_ratio=2.0),
    replay_concurrency=traffic(TRACE, "duration_ms", replay_concurrency=1),
    isl=traffic(CAPPED, "total_input_tokens", isl=25),
    osl=traffic(CAPPED, "total_output_tokens", osl=9),
    request_count=traffic(CAPPED, "num_requests", request_count=7),
    turns_per_session=traffic(SESSIONS, "num_requests", turns_per_session=3),
    shared_prefix_ratio=traffic(SHARED, "prefix_cache_reused_ratio", shared_prefix_ratio=0.8),
    num_prefix_groups=traffic(SHARED, "prefix_cache_reused_ratio", num_prefix_groups=6),
    inter_turn_delay_ms=traffic(SESSIONS, "duration_ms", inter_turn_delay_ms=7.0),
    request_rate=(
        traffic(CONSTANT, "duration_ms", request_rate=40.0),
        traffic(POISSON, "duration_ms", request_rate=40.0),
    ),
    arrival_interval_ms=traffic(INTERVAL, "duration_ms", arrival_interval_ms=25.0),
    arrival_seed=traffic(POISSON, "duration_ms", arrival_seed=43),
    concurrency=traffic(CAPPED, "duration_ms", concurrency=3),
    num_request_ratio=traffic(
        changed(CAPPED, {"traffic.request_count": None, "traffic.num_request_ratio": 2.0}),
        "num_requests",
        num_request_ratio=3.0,
    ),
    kv_load_ratio=traffic(RELATIVE, "duration_ms", kv_load_ratio=0.2),
    max_sim_time_ms=Refused(
        SYNTHETIC,
        {"traffic.max_sim_time_ms": 30.0},
        "traffic.max_sim_time_ms: 30 must equal spec.max_sim_time_ms, which is not set",
        CHECK,
    ),
)

ACTS, REFUSED, INERT = (list(TABLE.cases(kind)) for kind in (Acts, Refused, Inert))


def named(cases):
    return pytest.mark.parametrize("effect", [effect for _, effect in cases], ids=[name for name, _ in cases])


@named(ACTS)
def test_a_field_acts(effect):
    before, after = result(effect.base), result(changed(effect.base, effect.changes))
    if effect.metric is not None:
        before, after = before.get(effect.metric), after.get(effect.metric)
    assert before != after


@named(REFUSED)
def test_a_field_is_refused_with_its_reason(effect):
    assert effect.text in refused(result, changed(effect.base, effect.changes))
    result(effect.base)


@named(INERT)
def test_a_field_without_effect_is_reported(effect):
    from aisimulate.replay.execute import execute

    payload = changed(effect.base, effect.changes)
    assert effect.note in execute(payload)["notes"]
    assert effect.note not in execute(effect.base).get("notes", ())
    assert result(payload) == result(effect.base)


def test_every_field_of_every_model_is_walked():
    walked = {(model, name) for model, fields in TABLE.rows.items() for name in fields}
    models = models_below(ReplaySpec, RuntimeTraffic, AicConfig)
    assert walked == {(model, name) for model in models for name in model.model_fields}


def test_a_row_changes_the_field_it_stands_for():
    for model, fields in TABLE.rows.items():
        for name, effects in fields.items():
            for effect in effects:
                assert mentions(effect, name), (model, name)


def mentions(effect, name) -> bool:
    """Whether a change sets `name`, by its path or inside the value."""
    return any(name in path.split(".") or name in str(value) for path, value in effect.changes.items())


def test_only_what_comes_later_may_have_no_effect():
    excused = {
        (model, name)
        for model, fields in TABLE.rows.items()
        for name, effects in fields.items()
        if not any(isinstance(effect, Acts) for effect in effects)
    }
    for model, name in excused:
        for effect in TABLE.rows[model][name]:
            assert effect.reason in REASONS


def test_a_setting_at_its_default_is_no_remark():
    from aisimulate.replay.execute import execute

    for base in (CROWD, SYNTHETIC, TRACE, AIC):
        assert "notes" not in execute(base)
