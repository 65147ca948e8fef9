"""What each field of the spec and of the traffic does, on which small payload."""

from __future__ import annotations

from aisimulate.config.frontend import FrontendConfig
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
from aisimulate.config.traffic import RuntimeTraffic

from .field_payloads import (
    CAPPED,
    CONSTANT,
    CROWD,
    EASY,
    INTERVAL,
    PAIR,
    PLAYS,
    POISSON,
    RANK,
    RANKS,
    RELATIVE,
    SCRIPTED,
    SESSIONS,
    SHARED,
    SUBAGENT,
    SYNTHETIC,
    TRACE,
    TRACES,
    UNLINKED,
)
from .field_rows import pair, request, traffic
from .field_table_calibration import CALIBRATED
from .field_table_router import ROUTED
from .field_walk import Acts, FieldTable, Inert, Refused, Why, changed

TABLE = FieldTable()
# Three workers by turns, where a prefix may be elsewhere.
TURNS = changed(ROUTED, {"spec.adapters": {"placement": {"provider": "round_robin"}}})

# The spec -----------------------------------------------------------------------------------------------

TABLE.add(
    ReplaySpec,
    version=Refused(CROWD, {"spec.version": 2}, "spec.version: 2 is not 1 (the only version)", Why.ONE_VALUE),
    topology=Acts(
        CROWD, {"spec.topology": {"kind": "aggregated", "workers": {"initial_workers": 2}}}, "duration_ms"
    ),
    engine=Acts(CROWD, {"spec.engine": {"rank": RANK | {"max_num_seqs": 2}}}, "duration_ms"),
    adapters=Acts(TURNS, {"spec.adapters": {"placement": {"provider": "kv_router"}}}, "mean_ttft_ms"),
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
    calibration=Acts(CALIBRATED, {"spec.calibration": None}, "provenance"),
    frontend=Acts(CROWD, {"spec.frontend": {"ttft_offset_ms": 5.0}}, "mean_ttft_ms"),
    requests=(
        Acts(CROWD, {"spec.requests": CROWD["spec"]["requests"][:2]}, "num_requests"),
        Inert(
            SYNTHETIC,
            {"spec.requests": CROWD["spec"]["requests"]},
            "spec.requests: replaced by traffic",
            Why.TIED,
        ),
    ),
)
TABLE.add(
    FrontendConfig,
    preset=Acts(CROWD, {"spec.frontend": {"preset": "inferencex"}}, "mean_ttft_ms"),
    stream_interval=Acts(CROWD, {"spec.frontend": {"stream_interval": 2}}, "mean_ttft_ms"),
    ttft_offset_ms=Acts(CAPPED, {"spec.frontend": {"ttft_offset_ms": 5.0}}, "duration_ms"),
    receive_interval=Acts(CROWD, {"spec.frontend": {"receive_interval": 3}}, "mean_ttft_ms"),
    step_overhead_ms=Acts(CROWD, {"spec.frontend": {"step_overhead_ms": 3.0}}, "mean_itl_ms"),
)
TABLE.add(
    Aggregated,
    kind=Acts(CROWD, {"spec.topology": PAIR["spec"]["topology"] | {"kind": "disaggregated"}}, "duration_ms"),
    workers=Acts(CROWD, {"spec.topology.workers": {"initial_workers": 3}}, "duration_ms"),
)
TABLE.add(
    WorkerPool,
    initial_workers=Acts(CROWD, {"spec.topology.workers.initial_workers": 2}, "duration_ms"),
    startup_delay_ms=(
        Acts(EASY, {"spec.topology.workers.startup_delay_ms": 25.0}, "gpu_hours"),
        Inert(
            CROWD,
            {"spec.topology.workers.startup_delay_ms": 5.0},
            "spec.topology.workers.startup_delay_ms: no effect without scaling",
            Why.TIED,
        ),
    ),
)
TABLE.add(
    Disaggregated,
    kind=Acts(CROWD, {"spec.topology": PAIR["spec"]["topology"] | {"kind": "disaggregated"}}, "duration_ms"),
    prefill=pair(PAIR, "mean_ttft_ms", prefill={"initial_workers": 2}),
    decode=pair(PAIR, "duration_ms", decode={"initial_workers": 2}),
    handoff_latency_ms=pair(UNLINKED, "mean_ttft_ms", handoff_latency_ms=5.0),
)
TABLE.add(
    Adapters,
    placement=(
        Acts(TURNS, {"spec.adapters.placement": {"provider": "kv_router"}}, "mean_ttft_ms"),
        Refused(
            CROWD,
            {"spec.adapters.placement": {"provider": "round_robin", "config": {"weight": 1}}},
            'spec.adapters.placement.config: {"weight": 1} has no effect: round_robin has no settings',
            Why.TIED,
        ),
    ),
    scaling=Acts(CROWD, {"spec.adapters.scaling": SCRIPTED["spec"]["adapters"]["scaling"]}, "gpu_hours"),
)
TABLE.add(
    Provider,
    provider=(
        Acts(TURNS, {"spec.adapters.placement.provider": "kv_router"}, "mean_ttft_ms"),
        Refused(
            CROWD,
            {"spec.adapters.placement.provider": "kv_ruter"},
            "spec.adapters.placement.provider: engine composition requires round_robin or kv_router "
            "placement, got \"kv_ruter\"; did you mean 'kv_router'?",
            Why.TIED,
        ),
    ),
    config=(
        Acts(SCRIPTED, {"spec.adapters.scaling.config.first_tick_ms": 30.0}, "gpu_hours"),
        Acts(ROUTED, {"spec.adapters.placement.config": {"overlap_score_credit": 0.0}}, "mean_ttft_ms"),
        Refused(
            CROWD,
            {"spec.adapters.scaling": {"provider": "none", "config": {"interval_s": 5}}},
            'spec.adapters.scaling.config: {"interval_s": 5} has no effect without scaling',
            Why.TIED,
        ),
    ),
)
TABLE.add(
    SlaConfig,
    ttft_ms=Acts(
        changed(CROWD, {"spec.sla": {"ttft_ms": 1e6}}),
        {"spec.sla.ttft_ms": 20.0},
        "goodput_completed_requests",
    ),
    itl_ms=Acts(
        changed(CROWD, {"spec.sla": {"itl_ms": 1e6}}), {"spec.sla.itl_ms": 5.2}, "goodput_completed_requests"
    ),
    e2e_ms=Acts(
        changed(CROWD, {"spec.sla": {"e2e_ms": 1e6}}),
        {"spec.sla.e2e_ms": 140.0},
        "goodput_completed_requests",
    ),
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

# The traffic --------------------------------------------------------------------------------------------

TABLE.add(
    RuntimeTraffic,
    source_type=traffic(CAPPED, "total_input_tokens", source_type="synthetic-session"),
    load_type=traffic(CONSTANT, "duration_ms", load_type="poisson"),
    trace_path=traffic(TRACE, "num_requests", trace_path=str(TRACES / "planned_outputs.jsonl")),
    trace_paths=(
        traffic(TRACE, "num_requests", trace_path=None, trace_paths=[str(TRACES / "planned_outputs.jsonl")]),
        Refused(
            TRACE,
            {"traffic.trace_paths": [TRACE["traffic"]["trace_path"]] * 2},
            "trace format 'mooncake' takes exactly one file, got 2",
            Why.TIED,
        ),
    ),
    trace_format=(
        traffic(TRACE, "total_input_tokens", trace_format="mooncake-delta"),
        traffic(PLAYS, "num_requests", trace_path=str(TRACES / "subagent.json"), trace_format="weka"),
    ),
    trace_block_size=traffic(TRACE, "prefix_cache_reused_ratio", trace_block_size=1024),
    arrival_speedup_ratio=traffic(TRACE, "duration_ms", arrival_speedup_ratio=2.0),
    replay_concurrency=traffic(TRACE, "duration_ms", replay_concurrency=1),
    agentic_lanes=traffic(PLAYS, "duration_ms", agentic_lanes=1),
    weka_nested_timestamp_basis=traffic(SUBAGENT, "duration_ms", weka_nested_timestamp_basis="relative"),
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
        Why.TIED,
    ),
)
