"""Settings of a spec that are legal but cannot act on the chosen deployment, for the report."""

from __future__ import annotations

from collections.abc import Iterator

from aisimulate.config.engine import RoleConfig
from aisimulate.config.kv_router import unused_router_settings
from aisimulate.config.rank import RankConfig
from aisimulate.config.spec import Aggregated, Disaggregated, ReplaySpec, WorkerPool
from aisimulate.config.timing import ExternalTiming
from aisimulate.config.traffic import RuntimeTraffic

_TRANSFER = ("kv_transfer_bytes_per_token", "kv_transfer_bandwidth", "kv_transfer_timing_mode")
_PREFILL_ONLY = (
    ("decode_speedup_ratio", "on a prefill worker"),
    ("decode_scale", "on a prefill worker, which never only decodes"),
    ("preemption_mode", "on a prefill worker, which never runs more than one request on"),
    ("prefill_schedule_interval", "on a prefill worker, where nobody decodes"),
)


def unused_settings(spec: ReplaySpec, traffic: RuntimeTraffic | None) -> Iterator[str]:
    """Name every setting with a non-default value that this replay does not use, one line each."""
    if traffic is not None and spec.requests:
        yield "spec.requests: replaced by traffic"
    yield from _unused_pools(spec)
    yield from unused_router_settings(spec)
    for stage in spec.stages:
        yield from _unused_rank(spec, stage)
    if isinstance(spec.topology, Disaggregated):
        yield from _unused_pair(spec, spec.topology)


def _unused_pools(spec: ReplaySpec) -> Iterator[str]:
    if spec.adapters.scaling.provider != "none":
        return
    for name, pool in _pools(spec):
        if pool.startup_delay_ms:
            yield f"spec.topology.{name}.startup_delay_ms: no effect without scaling"


def _pools(spec: ReplaySpec) -> list[tuple[str, WorkerPool]]:
    topology = spec.topology
    if isinstance(topology, Aggregated):
        return [("workers", topology.workers)]
    return [("prefill", topology.prefill), ("decode", topology.decode)]


def _unused_rank(spec: ReplaySpec, stage: str | None) -> Iterator[str]:
    path, role = spec.engine.rank_path(stage), spec.engine.role(stage)
    rank, default = role.rank, RankConfig()
    for name, reason in _unused_names(role, isinstance(spec.topology, Disaggregated)):
        if getattr(rank, name) != getattr(default, name):
            yield f"{path}.{name}: no effect {reason}"
    yield from _unused_sharing(path, rank)
    rates, drafted = rank.aic_nextn_accept_rates, rank.aic_nextn
    if rates is not None and drafted is not None and rates.count(",") >= drafted:
        yield f"{path}.aic_nextn_accept_rates: no effect beyond the first {drafted} (aic_nextn)"
    if rank.backend == "sglang" and rank.sglang.schedule_policy == "lpm" and not rank.enable_prefix_caching:
        yield f"{path}.sglang.schedule_policy: no effect without enable_prefix_caching"


def _unused_sharing(path: str, rank: RankConfig) -> Iterator[str]:
    """Name what acts only on memory that several share."""
    for field in ("native_host_offload", "g3_offload"):
        tier = getattr(rank, field)
        if tier is None or tier.scope == "cluster_shared":
            continue
        for name, info in type(tier).model_fields.items():
            is_shared = name == "kv_layout_id" or name.startswith("shared_")
            if is_shared and getattr(tier, name) != info.default:
                yield f"{path}.{field}.{name}: no effect with scope {tier.scope}"


def _unused_pair(spec: ReplaySpec, topology: Disaggregated) -> Iterator[str]:
    """Name what has no effect on prefill and decode workers (spec 01 section 6)."""
    engine, default = spec.engine, RankConfig()
    if engine.prefill is not None and engine.decode is not None:
        flat = {"rank": (engine.rank, default), "dp_size": (engine.dp_size, 1)}
        flat["tensor_parallel_size"] = (engine.tensor_parallel_size, 1)
        for name, (value, usual) in flat.items():
            if value != usual:
                yield f"spec.engine.{name}: no effect beside prefill and decode"
    prefill, decode = (engine.role(stage).rank for stage in ("prefill", "decode"))
    for name, reason in _PREFILL_ONLY:
        if name == "preemption_mode" and prefill.aic_nextn:
            continue  # where bursts do not fit, several may be at an end
        if getattr(prefill, name) != getattr(default, name) and engine.prefill is not None:
            yield f"{engine.rank_path('prefill')}.{name}: no effect {reason}"
    if decode.prefill_scale != default.prefill_scale and engine.decode is not None:
        yield f"{engine.rank_path('decode')}.prefill_scale: no effect on a decode worker"
    for name in _TRANSFER:
        if getattr(decode, name) not in (getattr(default, name), getattr(prefill, name)):
            yield f"{engine.rank_path('decode')}.{name}: no effect, transfers are those of the prefill worker"
    yield from _unused_transfer(engine.rank_path("prefill"), prefill, topology)


def _unused_transfer(path: str, rank: RankConfig, topology: Disaggregated) -> Iterator[str]:
    is_timed = rank.kv_transfer_bytes_per_token is not None and bool(rank.kv_transfer_bandwidth)
    if is_timed and topology.handoff_latency_ms:
        yield "spec.topology.handoff_latency_ms: no effect beside bytes and bandwidth of the transfer"
    default = RankConfig()
    for name in () if is_timed else _TRANSFER:
        if getattr(rank, name) != getattr(default, name):
            yield f"{path}.{name}: no effect without both bytes and bandwidth of the transfer"


def _unused_names(role: RoleConfig, disaggregated: bool) -> Iterator[tuple[str, str]]:
    rank = role.rank
    if role.dp_size == 1:
        yield "prefill_schedule_interval", "on a single attention-DP rank"
    if not disaggregated:
        yield from ((name, "in an aggregated topology") for name in _TRANSFER)
    if rank.native_host_offload is None and rank.state_cache is None:
        yield "kv_cache_bytes_per_token", "without a host tier or state cache"
    if rank.backend == "sglang" and not isinstance(rank.timing_model, ExternalTiming):
        yield "max_num_batched_tokens", "on backend sglang"  # with measured times it sizes the KV cache
    for name in ("sglang", "trtllm"):
        if rank.backend != name:
            yield name, f"on backend {rank.backend}"
