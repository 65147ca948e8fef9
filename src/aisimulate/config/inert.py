"""Settings of a spec that are legal but cannot act on the chosen deployment, for the report."""

from __future__ import annotations

from collections.abc import Iterator

from aisimulate.config.rank import RankConfig
from aisimulate.config.spec import Aggregated, Disaggregated, ReplaySpec, WorkerPool
from aisimulate.config.traffic import RuntimeTraffic

_TRANSFER = ("kv_transfer_bytes_per_token", "kv_transfer_bandwidth", "kv_transfer_timing_mode")


def unused_settings(spec: ReplaySpec, traffic: RuntimeTraffic | None) -> Iterator[str]:
    """Name every setting with a non-default value that this replay does not use, one line each."""
    if traffic is not None and spec.requests:
        yield "spec.requests: replaced by traffic"
    yield from _unused_pools(spec)
    for stage in spec.stages:
        yield from _unused_rank(spec, stage)


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
    path = spec.engine.rank_path(stage)
    rank, default = spec.engine.role(stage).rank, RankConfig()
    for name, reason in _unused_names(rank, isinstance(spec.topology, Disaggregated)):
        if getattr(rank, name) != getattr(default, name):
            yield f"{path}.{name}: no effect {reason}"


def _unused_names(rank: RankConfig, disaggregated: bool) -> Iterator[tuple[str, str]]:
    if not disaggregated:
        yield from ((name, "in an aggregated topology") for name in _TRANSFER)
    if rank.native_host_offload is None and rank.state_cache is None:
        yield "kv_cache_bytes_per_token", "without a host tier or state cache"
    for name in ("sglang", "trtllm"):
        if rank.backend != name:
            yield name, f"on backend {rank.backend}"
