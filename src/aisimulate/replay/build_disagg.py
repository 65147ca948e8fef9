"""Turns the configuration of a disaggregated fleet into prefill and decode pools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from aisimulate.config.aic import aic_config
from aisimulate.config.engine import role_capacity_is_explicit
from aisimulate.config.spec import Disaggregated
from aisimulate.core.units import clock_ns
from aisimulate.engine.transfer import TransferTime
from aisimulate.replay.aic_errors import aic_settings_at
from aisimulate.replay.build import BuiltReplay, provenance_of, timing_of, workload_of
from aisimulate.replay.capacity import materialize_capacity, unused_aic_settings
from aisimulate.replay.disagg_fleet import DestinationFirstFleet, DisaggFleet
from aisimulate.replay.observe.fleet import (
    ObservedDestinationFirstFleet,
    ObservedPairFleet,
    watch_workers,
)
from aisimulate.replay.outcome import Sla
from aisimulate.replay.pair_engines import build_pair_workers
from aisimulate.router.pool_round_robin import PoolRoundRobin
from aisimulate.timing.one_sided import OneSidedTimer
from aisimulate.workload.drivers import make_driver

if TYPE_CHECKING:
    from aisimulate.config.engine import RoleConfig
    from aisimulate.config.payload import Execution
    from aisimulate.config.rank import RankConfig
    from aisimulate.engine.protocols import Worker
    from aisimulate.replay.disagg_fleet import FirstDestination, Source
    from aisimulate.replay.observe.hub import Hub
    from aisimulate.replay.pair_engines import PairWorker


@dataclass(slots=True)
class _Pool:
    """The workers of one role, made of its configuration."""

    role: RoleConfig
    rank: RankConfig
    workers: list[PairWorker]
    provenance: dict[str, object]
    notes: list[str]


def build_disaggregated(execution: Execution, hub: Hub | None = None) -> BuiltReplay:
    """Wire up a replay on a prefill and a decode pool; raises like `build_replay`."""
    spec = execution.spec
    topology = spec.topology
    assert isinstance(topology, Disaggregated)
    prefill, decode = _pool(execution, "prefill"), _pool(execution, "decode")
    workload = workload_of(execution, prefill.rank, decode.rank, decode.role, len(decode.workers))
    driver = make_driver(workload, prefill.rank.block_size)
    limit_ns = None if spec.max_sim_time_ms is None else clock_ns(spec.max_sim_time_ms)
    workers = cast("list[Worker]", [*prefill.workers, *decode.workers])
    if hub is not None:
        workers = watch_workers(workers, hub, len(prefill.workers))
    first_decode = len(prefill.workers)
    fleet = _fleet_type(prefill.rank.backend, hub)(
        (workers[:first_decode], workers[first_decode:]),
        (
            cast("list[list[Source]]", [worker.ranks for worker in prefill.workers]),
            cast("list[list[FirstDestination]]", [worker.ranks for worker in decode.workers]),
        ),
        (
            PoolRoundRobin(len(prefill.workers), prefill.role.dp_size),
            PoolRoundRobin(len(decode.workers), decode.role.dp_size),
        ),
        driver,
        _transfer_time(prefill.rank, topology.handoff_latency_ms),
        limit_ns,
    )
    if isinstance(fleet, ObservedPairFleet) and hub is not None:
        fleet.hub = hub
    return BuiltReplay(
        fleet=fleet,
        workers=workers,
        driver=driver,
        dp_size=decode.role.dp_size,
        gpus_per_worker=decode.role.gpus_per_worker,
        sla=Sla(**spec.sla.model_dump()),
        record_per_request=spec.record_per_request,
        timing_mode="additive",
        provenance={"prefill": prefill.provenance, "decode": decode.provenance},
        notes=[*execution.notes, *dict.fromkeys([*prefill.notes, *decode.notes]), *workload.notes],
        prefill_workers=len(prefill.workers),
        prefill_dp_size=prefill.role.dp_size,
        prefill_gpus_per_worker=prefill.role.gpus_per_worker,
    )


def _fleet_type(backend: str, hub: Hub | None) -> type[DisaggFleet]:
    if backend == "sglang":
        return DestinationFirstFleet if hub is None else ObservedDestinationFirstFleet
    return DisaggFleet if hub is None else ObservedPairFleet


def _pool(execution: Execution, stage: str) -> _Pool:
    """Settle capacity and timing of one role, each by itself, and make its workers."""
    spec = execution.spec
    role = spec.engine.role(stage)
    aic = aic_config(role.rank)
    explicit = role_capacity_is_explicit(execution.engine, stage)
    path = spec.engine.rank_path(stage)
    with aic_settings_at(path):
        rank = role.rank if aic is None else materialize_capacity(aic, role, explicit)
        notes = [] if aic is None else list(unused_aic_settings(aic, path, explicit))
        timing = timing_of(rank, aic)
    both = timing.timer(
        rank.num_gpu_blocks * rank.block_size,
        rank.speedup_ratio,
        rank.speedup_ratio * rank.decode_speedup_ratio,
    )
    timer = OneSidedTimer(both, prefills=stage == "prefill")
    replicas = getattr(spec.topology, stage).initial_workers
    workers = build_pair_workers(rank, timer, stage, role.dp_size, replicas)
    is_estimated = aic is not None and not explicit
    return _Pool(role, rank, workers, provenance_of(rank, timing, capacity_is_estimated=is_estimated), notes)


def _transfer_time(rank: RankConfig, latency_ms: float) -> TransferTime:
    """Time the transfers as the prefill side describes them."""
    return TransferTime(
        rank.kv_transfer_bytes_per_token,
        rank.kv_transfer_bandwidth,
        rank.kv_transfer_timing_mode == "destination_missing",
        latency_ms,
    )
