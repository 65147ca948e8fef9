"""Turns the configuration of a disaggregated fleet into prefill and decode pools."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from aisimulate.config.spec import Disaggregated
from aisimulate.core.units import clock_ns
from aisimulate.engine.transfer import TransferTime
from aisimulate.replay.build import BuiltReplay, heard_traffic, workload_of
from aisimulate.replay.build_scaled import PoolPlan, Wired, scaled_pair, scales
from aisimulate.replay.calibrated import ttft_ratio_of
from aisimulate.replay.destination_first import DestinationFirstFleet
from aisimulate.replay.disagg_fleet import DisaggFleet
from aisimulate.replay.engines import shared_host
from aisimulate.replay.frontend import frontend_of
from aisimulate.replay.observe.arrivals import Routers
from aisimulate.replay.observe.fleet import (
    ObservedDestinationFirstFleet,
    ObservedPairFleet,
    watch_workers,
)
from aisimulate.replay.outcome import Sla
from aisimulate.replay.pair_engines import pair_worker
from aisimulate.replay.plain_pair import PlainPairFleet, is_plain_pair
from aisimulate.replay.routed_traffic import PairTraffic
from aisimulate.replay.routing import route_pair, routing_of
from aisimulate.replay.tiers import Tiers
from aisimulate.replay.timed_rank import timed_rank
from aisimulate.router.pool_round_robin import PoolRoundRobin
from aisimulate.timing.one_sided import OneSidedTimer
from aisimulate.workload.drivers import DriverMaker, make_driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.config.engine import RoleConfig
    from aisimulate.config.payload import Execution
    from aisimulate.config.rank import RankConfig
    from aisimulate.config.spec import ReplaySpec, WorkerPool
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.shared_host import SharedHost
    from aisimulate.replay.destination_first import FirstDestination
    from aisimulate.replay.disagg_fleet import Source
    from aisimulate.replay.fleet import Placement
    from aisimulate.replay.observe.hub import Hub
    from aisimulate.replay.pair_engines import PairWorker
    from aisimulate.replay.scaling import ScalingPolicy
    from aisimulate.router.route import Routes
    from aisimulate.workload.drivers import Driver


@dataclass(slots=True)
class _Pool:
    """The workers of one role, made of its configuration."""

    role: RoleConfig
    rank: RankConfig
    timer: PassTimer
    make: Callable[[int], PairWorker]
    workers: list[PairWorker]
    provenance: dict[str, object]
    notes: list[str]

    def plan(self, config: WorkerPool) -> PoolPlan:
        """Describe the pool to what scales it."""
        return PoolPlan(
            config, self.role, self.rank, self.timer, lambda number: cast("Worker", self.make(number))
        )


def build_disaggregated(
    execution: Execution,
    scaling: ScalingPolicy | None = None,
    hub: Hub | None = None,
    drive: DriverMaker = make_driver,
) -> BuiltReplay:
    """Wire up a replay on a prefill and a decode pool; raises like `build_replay`."""
    spec = execution.spec
    topology = spec.topology
    assert isinstance(topology, Disaggregated)
    host = _shared_host(execution)
    prefill, decode = _pool(execution, "prefill", host), _pool(execution, "decode", host)
    workload = workload_of(execution, prefill.rank, decode.rank, decode.role, len(decode.workers))
    driver = drive(workload, prefill.rank.block_size)
    frontend = frontend_of(spec, ttft_ratio_of(execution))
    heard = heard_traffic(driver, frontend, hub)
    limit_ns = None if spec.max_sim_time_ms is None else clock_ns(spec.max_sim_time_ms)
    transfer = _transfer_time(prefill.rank, topology.handoff_latency_ms)
    if scales(spec, scaling):
        plans = {"prefill": prefill.plan(topology.prefill), "decode": decode.plan(topology.decode)}
        wired = scaled_pair(spec, plans, heard, transfer, limit_ns, scaling, hub)
    else:
        wired = _fixed_pair(spec, prefill, decode, heard, transfer, limit_ns, hub)
    return BuiltReplay(
        fleet=wired.fleet,
        workers=wired.workers,
        driver=driver,
        dp_size=decode.role.dp_size,
        gpus_per_worker=decode.role.gpus_per_worker,
        sla=Sla(**spec.sla.model_dump()),
        record_per_request=spec.record_per_request,
        timing_mode="additive",
        provenance={"prefill": prefill.provenance, "decode": decode.provenance, **wired.provenance},
        notes=[*execution.notes, *dict.fromkeys([*prefill.notes, *decode.notes]), *workload.notes],
        tiers=wired.tiers,
        prefill_workers=len(prefill.workers),
        prefill_dp_size=prefill.role.dp_size,
        prefill_gpus_per_worker=prefill.role.gpus_per_worker,
        scaler=wired.scaler,
        routes=wired.routes,
        frontend=frontend,
        look_ahead=max(pool.rank.scheduling_look_ahead for pool in (prefill, decode)),
    )


def _fixed_pair(
    spec: ReplaySpec,
    prefill: _Pool,
    decode: _Pool,
    driver: Driver,
    transfer: TransferTime,
    limit_ns: int | None,
    hub: Hub | None,
) -> Wired:
    """Wire up pools that stay as they are."""
    pools = cast("tuple[list[Worker], list[Worker]]", (prefill.workers, decode.workers))
    placed = _placed(spec, (prefill, decode), pools, driver, hub)
    sources, workers = placed.sources(), placed.workers
    if hub is not None:
        first_decode = len(prefill.workers)
        watched = watch_workers([*workers[0], *workers[1]], hub, first_decode)
        workers = watched[:first_decode], watched[first_decode:]
    fleet_type = _fleet_type(prefill.rank.backend, hub)
    if fleet_type is DisaggFleet and is_plain_pair(
        workers, placed.placements, placed.traffic, transfer, limit_ns
    ):
        fleet_type = PlainPairFleet
    fleet = fleet_type(
        workers,
        (
            sources,
            cast("list[list[FirstDestination]]", [worker.ranks for worker in decode.workers]),
        ),
        placed.placements,
        placed.traffic,
        transfer,
        limit_ns,
    )
    if isinstance(fleet, ObservedPairFleet) and hub is not None:
        fleet.hub = hub
    if isinstance(placed.traffic, PairTraffic):
        placed.traffic.connect(fleet)
    tiers = Tiers(pools[0])
    return Wired(fleet, fleet.workers, tiers=tiers, routes=placed.routes, provenance=placed.provenance)


def _fleet_type(backend: str, hub: Hub | None) -> type[DisaggFleet]:
    if backend == "sglang":
        return DestinationFirstFleet if hub is None else ObservedDestinationFirstFleet
    return DisaggFleet if hub is None else ObservedPairFleet


@dataclass(slots=True)
class _Placed:
    """Workers, the traffic that reaches them, and what places it; `routes` by pool, where there are any."""

    workers: tuple[list[Worker], list[Worker]]
    traffic: Driver
    placements: tuple[Placement, Placement]
    routes: Routes = field(default_factory=dict)
    provenance: dict[str, object] = field(default_factory=dict)

    def sources(self) -> list[list[Source]]:
        """List the ranks of each prefill worker; they tell the router, if any, what it has to know."""
        traffic = self.traffic
        workers: list[Any] = list(self.workers[0])
        if not isinstance(traffic, PairTraffic):
            return [worker.ranks for worker in workers]
        return [traffic.sources(worker) for worker in workers]


def _placed(
    spec: ReplaySpec,
    pools: tuple[_Pool, _Pool],
    workers: tuple[list[Worker], list[Worker]],
    driver: Driver,
    hub: Hub | None,
) -> _Placed:
    """Choose what places the requests of both pools, each by itself."""
    routing = routing_of(spec)
    if routing is None:
        prefill, decode = (PoolRoundRobin(len(pool.workers), pool.role.dp_size) for pool in pools)
        return _Placed(workers, driver, (prefill, decode))
    if hub is not None:
        routing = routing.recording()
    ranks, timers = (pools[0].rank, pools[1].rank), (pools[0].timer, pools[1].timer)
    routed, told, traffic = route_pair(routing, ranks, timers, workers, driver)
    if hub is not None:
        hub.meet_routers(Routers(routed[1].router, routed[0].router, routed[0].recorded, driver))
    routes = {
        name: pool.routes if spec.record_per_request else None
        for name, pool in zip(("prefill", "decode"), routed, strict=True)
    }
    return _Placed(told, traffic, traffic.placements(), routes, routing.provenance)


def _shared_host(execution: Execution) -> SharedHost | None:
    """Make the host memory that ranks of both pools share, if any do; they have been found to agree on it."""
    for stage in ("prefill", "decode"):
        rank = execution.spec.engine.role(stage).rank
        tier = rank.native_host_offload
        if tier is not None and (host := shared_host(rank, tier)) is not None:
            return host
    return None


def _pool(execution: Execution, stage: str, host: SharedHost | None) -> _Pool:
    """Settle capacity and timing of one role, each by itself, and make its workers."""
    timed = timed_rank(execution, stage)
    role, rank = timed.role, timed.rank
    timer = OneSidedTimer(timed.timer, prefills=stage == "prefill")
    replicas = getattr(execution.spec.topology, stage).initial_workers
    tier = rank.native_host_offload
    is_private = tier is None or tier.scope == "dp_rank_local"
    make = partial(pair_worker, rank, timer, stage, role.dp_size, None if is_private else host)
    workers = [make(number) for number in range(replicas)]
    return _Pool(role, rank, timer, make, workers, timed.provenance, timed.notes)


def _transfer_time(rank: RankConfig, latency_ms: float) -> TransferTime:
    """Time the transfers as the prefill side describes them."""
    return TransferTime(
        rank.kv_transfer_bytes_per_token,
        rank.kv_transfer_bandwidth,
        rank.kv_transfer_timing_mode == "destination_missing",
        latency_ms,
    )
