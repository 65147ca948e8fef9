"""Wires up replays whose pools scale: watched workers, placement that moves, and the policy that decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisimulate.core.units import clock_ns
from aisimulate.replay.capabilities import require_scalable
from aisimulate.replay.engines import worker_maker
from aisimulate.replay.routing import routing_of
from aisimulate.replay.scaled_fleet import ScaledDestinationFirstFleet, ScaledDisaggFleet, ScaledFleet
from aisimulate.replay.scaled_placement import pair_in_turn, placed_in_turn, routed, routed_pair
from aisimulate.replay.scaled_pool import ScaledPool
from aisimulate.replay.scaling_policies import policy_of
from aisimulate.replay.ticks import ScaledTraffic, Scaler
from aisimulate.replay.worker_pool import LifecycleLog, WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.config.engine import RoleConfig
    from aisimulate.config.rank import RankConfig
    from aisimulate.config.spec import ReplaySpec
    from aisimulate.config.spec import WorkerPool as PoolConfig
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.transfer import TransferTime
    from aisimulate.replay.fleet import Fleet
    from aisimulate.replay.observe.hub import Hub
    from aisimulate.replay.scaled_fleet import Scaled
    from aisimulate.replay.scaled_placement import Front, Stage
    from aisimulate.replay.scaling import ScalingPolicy
    from aisimulate.replay.settled import Settled
    from aisimulate.replay.tiers import Tiers
    from aisimulate.router.route import Routes
    from aisimulate.workload.drivers import Driver


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What the workers of one pool are made of; `make` builds the worker of a number."""

    config: PoolConfig
    role: RoleConfig
    rank: RankConfig
    timer: PassTimer
    make: Callable[[int], Worker]


@dataclass(frozen=True, slots=True)
class Wired:
    """An event loop, its workers (the list grows when they scale), where ended requests go, what scales."""

    fleet: Fleet
    workers: list[Worker]
    settled: Settled | None = None
    scaler: Scaler | None = None
    tiers: Tiers | None = None
    routes: Routes = field(default_factory=dict)
    provenance: dict[str, object] = field(default_factory=dict)


def scales(spec: ReplaySpec, policy: ScalingPolicy | None) -> bool:
    """Whether anybody may change the number of workers."""
    return policy is not None or spec.adapters.scaling.provider != "none"


def aggregated_plan(spec: ReplaySpec, role: RoleConfig, rank: RankConfig, timer: PassTimer) -> PoolPlan:
    """Plan the pool of an aggregated fleet."""
    config: PoolConfig = spec.topology.workers  # type: ignore[union-attr]
    return PoolPlan(config, role, rank, timer, worker_maker(rank, timer, role.dp_size))


def scaled_fleet(
    spec: ReplaySpec,
    plan: PoolPlan,
    driver: Driver,
    limit_ns: int | None,
    policy: ScalingPolicy | None,
    hub: Hub | None = None,
) -> Wired:
    """Wire up one pool that scales. Raises like `build_replay`."""
    require_scalable(spec)
    policy = policy or policy_of(spec, {"agg": plan})
    traffic, log = ScaledTraffic(driver), LifecycleLog()
    front = (
        placed_in_turn(plan, traffic)
        if (routing := routing_of(spec)) is None
        else routed(routing, plan, traffic)
    )
    pool, workers = _pool("agg", plan, front.stages[0], log, hub)
    fleet = ScaledFleet(workers, front.traffic, front.stages[0].placement, limit_ns)
    front.connect(fleet, [len(workers)])
    scaler = Scaler(policy, [pool], log, traffic, front.hit_rates())
    fleet.scale_by(scaler)
    _introduce(hub, fleet, front, [pool])
    return Wired(
        fleet,
        workers,
        scaler=scaler,
        tiers=pool.tiers,
        routes=front.reported(spec),
        provenance=front.provenance,
    )


def scaled_pair(
    spec: ReplaySpec,
    plans: dict[str, PoolPlan],
    driver: Driver,
    transfer: TransferTime,
    limit_ns: int | None,
    policy: ScalingPolicy | None,
    hub: Hub | None = None,
) -> Wired:
    """Wire up a prefill and a decode pool that scale. Raises like `build_replay`."""
    require_scalable(spec)
    policy = policy or policy_of(spec, plans)
    traffic, log = ScaledTraffic(driver), LifecycleLog()
    both = plans["prefill"], plans["decode"]
    routing = routing_of(spec)
    front = pair_in_turn(both, traffic) if routing is None else routed_pair(routing, both, traffic)
    made = [
        _pool(side, plan, stage, log, hub)
        for (side, plan), stage in zip(plans.items(), front.stages, strict=True)
    ]
    pools = [pool for pool, _ in made]
    ranks = [[pool.serving_ranks(index) for index in range(len(members))] for pool, members in made]
    source_first = plans["prefill"].rank.backend != "sglang"
    new_fleet = ScaledDisaggFleet if source_first else ScaledDestinationFirstFleet
    fleet = new_fleet(
        (made[0][1], made[1][1]),
        (ranks[0], ranks[1]),
        (front.stages[0].placement, front.stages[1].placement),
        front.traffic,
        transfer,
        limit_ns,
    )
    front.connect(fleet, [len(members) for _, members in made])
    scaler = Scaler(policy, pools, log, traffic, front.hit_rates())
    fleet.scale_by(scaler)
    _introduce(hub, fleet, front, pools)
    return Wired(
        fleet,
        fleet.workers,
        scaler=scaler,
        tiers=pools[0].tiers,
        routes=front.reported(spec),
        provenance=front.provenance,
    )


def _introduce(hub: Hub | None, fleet: Scaled, front: Front, pools: list[ScaledPool]) -> None:
    """Let those who watch know the routers and the first workers, and the fleet those who watch."""
    if hub is None:
        return
    if front.routers is not None:
        hub.meet_routers(front.routers)
    hub.begin([worker for pool in pools for worker in pool.watched])
    fleet.hub = hub


def _pool(
    name: str, plan: PoolPlan, stage: Stage, log: LifecycleLog, hub: Hub | None
) -> tuple[ScaledPool, list[Worker]]:
    """Make a pool with its first workers, watched."""
    count = plan.config.initial_workers
    pool = WorkerPool(name, count, clock_ns(plan.config.startup_delay_ms), log)
    side = "prefill" if name == "prefill" else "decode"
    scaled = ScaledPool(side, pool, stage.listener, stage.make, stage.serve, hub)
    return scaled, [scaled.new_worker(index) for index in range(count)]
