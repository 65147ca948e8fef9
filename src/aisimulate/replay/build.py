"""The one place that turns configuration into engines, placement and traffic."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

from aisimulate.config.spec import Aggregated
from aisimulate.core.units import clock_ns
from aisimulate.engine.polling import PollingWorker
from aisimulate.engine.polling_ahead import PollingAheadWorker
from aisimulate.replay.agentic_traffic import require_aggregated
from aisimulate.replay.build_scaled import Wired, aggregated_plan, scaled_fleet, scales
from aisimulate.replay.calibrated import ttft_ratio_of
from aisimulate.replay.capabilities import require_supported
from aisimulate.replay.client import ClientTraffic
from aisimulate.replay.engines import build_workers
from aisimulate.replay.fleet import Fleet
from aisimulate.replay.frontend import frontend_of
from aisimulate.replay.observe.arrivals import AnnouncedTraffic, Routers
from aisimulate.replay.observe.fleet import ObservedFleet, watch_workers
from aisimulate.replay.outcome import Sla
from aisimulate.replay.routed_traffic import RoutedTraffic
from aisimulate.replay.routing import route_aggregated, routing_of
from aisimulate.replay.settled import Settled
from aisimulate.replay.tiers import Tiers
from aisimulate.replay.timed_rank import timed_rank
from aisimulate.replay.traffic import build_workload, inline_workload, resolve_kv_capacity
from aisimulate.router.round_robin import RoundRobin
from aisimulate.workload.driver import SessionDriver
from aisimulate.workload.drivers import Driver, DriverMaker, make_driver

if TYPE_CHECKING:
    from aisimulate.config.engine import RoleConfig
    from aisimulate.config.payload import Execution
    from aisimulate.config.rank import RankConfig
    from aisimulate.config.spec import ReplaySpec
    from aisimulate.core.traffic import Workload
    from aisimulate.engine.polling import Inner
    from aisimulate.engine.protocols import Worker
    from aisimulate.replay.build_scaled import PoolPlan
    from aisimulate.replay.client import Frontend
    from aisimulate.replay.fleet import Placement
    from aisimulate.replay.observe.hub import Hub
    from aisimulate.replay.scaling import ScalingPolicy
    from aisimulate.replay.ticks import Scaler
    from aisimulate.router.route import Routes


@dataclass(slots=True)
class BuiltReplay:
    """Everything wired up and ready to run. `provenance` tells where times and capacity come from."""

    fleet: Fleet
    workers: list[Worker]
    driver: Driver
    dp_size: int
    gpus_per_worker: int
    sla: Sla
    record_per_request: bool
    timing_mode: str
    provenance: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    settled: Settled | None = None
    tiers: Tiers | None = None
    prefill_workers: int = 0
    prefill_dp_size: int = 1
    prefill_gpus_per_worker: int = 0
    routes: Routes = field(default_factory=dict)
    scaler: Scaler | None = None
    look_ahead: int = 0
    frontend: Frontend | None = None


def build_replay(
    execution: Execution,
    hub: Hub | None = None,
    scaling: ScalingPolicy | None = None,
    drive: DriverMaker = make_driver,
) -> BuiltReplay:
    """Wire up the replay that a payload describes; `hub` is told what happens in it.

    `scaling` takes the place of the scaling policy that the payload names, `drive` that of the usual driver.
    Raises `InputError` (`UnsupportedError` for what this version cannot simulate) or `TimingError`.
    """
    spec = execution.spec
    require_supported(spec, execution.traffic)
    if not isinstance(spec.topology, Aggregated):
        from aisimulate.replay.build_disagg import build_disaggregated  # noqa: PLC0415 - it builds on this file

        return build_disaggregated(execution, scaling, hub, drive)
    timed = timed_rank(execution)
    role, rank = timed.role, timed.rank
    replicas = spec.topology.workers.initial_workers
    workload = workload_of(execution, rank, rank, role, replicas)
    driver = drive(workload, rank.block_size)
    frontend = frontend_of(spec, ttft_ratio_of(execution))
    heard = heard_traffic(driver, frontend, hub)
    wired = _wire(spec, aggregated_plan(spec, role, rank, timed.timer), heard, hub, scaling, frontend)
    return BuiltReplay(
        fleet=wired.fleet,
        settled=wired.settled,
        workers=wired.workers,
        tiers=wired.tiers,
        driver=driver,
        dp_size=role.dp_size,
        gpus_per_worker=role.gpus_per_worker,
        sla=Sla(**spec.sla.model_dump()),
        record_per_request=spec.record_per_request,
        timing_mode=rank.timing_mode,
        provenance=timed.provenance | wired.provenance,
        notes=[*execution.notes, *timed.notes, *workload.notes],
        scaler=wired.scaler,
        routes=wired.routes,
        look_ahead=rank.scheduling_look_ahead,
        frontend=frontend,
    )


def heard_traffic(driver: Driver, frontend: Frontend | None, hub: Hub | None) -> Driver:
    """Put between the traffic and the engines who has to hear of it."""
    if frontend is not None and frontend.offset_ns:
        driver = ClientTraffic(driver, frontend.offset_ns)
    return driver if hub is None else AnnouncedTraffic(driver, hub)


def _wire(
    spec: ReplaySpec,
    plan: PoolPlan,
    driver: Driver,
    hub: Hub | None,
    scaling: ScalingPolicy | None,
    frontend: Frontend | None,
) -> Wired:
    """Make the workers of an aggregated fleet and what drives them."""
    limit_ns = None if spec.max_sim_time_ms is None else clock_ns(spec.max_sim_time_ms)
    if scales(spec, scaling):
        return scaled_fleet(spec, plan, driver, limit_ns, scaling, hub)
    workers = build_workers(plan.rank, plan.timer, plan.role.dp_size, plan.config.initial_workers)
    if frontend is not None and frontend.receive_interval > 1:
        kind = PollingAheadWorker if plan.rank.scheduling_look_ahead else PollingWorker
        workers = [kind(cast("Inner", worker), frontend.receive_interval) for worker in workers]
    tiers = Tiers(workers)
    placed = _placed(spec, plan, workers, driver, hub)
    workers = placed.workers
    gathers = frontend is not None and frontend.stream_interval > 1
    looks_back = isinstance(driver, SessionDriver) and driver.looks_back
    keeps_all = hub is not None or spec.record_per_request or gathers or looks_back
    settled = None if keeps_all else Settled()
    if hub is not None:
        workers = watch_workers(workers, hub)
    make_fleet = partial(Fleet, settled=settled) if hub is None else partial(ObservedFleet, hub=hub)
    fleet = make_fleet(workers, placed.traffic, placed.placement, limit_ns)
    if isinstance(placed.traffic, RoutedTraffic):
        placed.traffic.connect(fleet)
    return Wired(fleet, workers, settled, tiers=tiers, routes=placed.routes, provenance=placed.provenance)


@dataclass(slots=True)
class _Placed:
    """Workers, the traffic that reaches them, and what places it; `routes` by pool, where there are any."""

    workers: list[Worker]
    traffic: Driver
    placement: Placement
    routes: Routes = field(default_factory=dict)
    provenance: dict[str, object] = field(default_factory=dict)


def _placed(
    spec: ReplaySpec, plan: PoolPlan, workers: list[Worker], driver: Driver, hub: Hub | None
) -> _Placed:
    """Choose what places the requests of an aggregated pool."""
    if (routing := routing_of(spec)) is not None:
        if hub is not None:
            routing = routing.recording()
        pool, told, traffic = route_aggregated(routing, plan.rank, plan.timer, workers, driver)
        if hub is not None:
            hub.meet_routers(Routers(pool.router, None, pool.recorded, driver))
        routes: Routes = {"agg": pool.routes if spec.record_per_request else None}
        return _Placed(told, traffic, pool.router, routes, routing.provenance)
    return _Placed(workers, driver, RoundRobin(range(len(workers)), plan.role.dp_size))


def workload_of(
    execution: Execution, first: RankConfig, rank: RankConfig, role: RoleConfig, replicas: int
) -> Workload:
    """Load or draw the traffic.

    Prompts are cut into blocks for the rank that computes them, `first`; a KV load fills `replicas` workers
    of `role`, whose capacity is that of `rank`.
    """
    spec, traffic = execution.spec, execution.traffic
    if traffic is None:
        return inline_workload(spec)
    concurrency = resolve_kv_capacity(traffic, rank, role.dp_size, replicas)
    if concurrency is not None:
        traffic = traffic.model_copy(update={"concurrency": concurrency})
    workload = build_workload(traffic, first.block_size, spec.max_in_flight)
    require_aggregated(workload, spec.topology.kind)
    return workload
