"""Who places the requests of pools that scale: in turn, or a router that gets to know new workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisimulate.replay.observe.arrivals import Routers
from aisimulate.replay.routed_traffic import AggregatedTraffic, PairTraffic, RoutedTraffic
from aisimulate.replay.routing import RoutedPool
from aisimulate.router.clock import RouterClock
from aisimulate.router.kv_router import ready_workers
from aisimulate.router.moving import MovingPoolRoundRobin, MovingRoundRobin

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.config.spec import ReplaySpec
    from aisimulate.engine.protocols import Worker
    from aisimulate.replay.build_scaled import PoolPlan
    from aisimulate.replay.fleet import Fleet, Placement
    from aisimulate.replay.observe.arrivals import HitRates
    from aisimulate.replay.routing import Routing
    from aisimulate.replay.ticks import ScaledTraffic
    from aisimulate.router.route import Routes
    from aisimulate.workload.drivers import Driver


@dataclass(slots=True)
class Stage:
    """One pool: what places its requests, what is told of its workers, how they are made and served."""

    placement: Placement
    listener: object
    make: Callable[[int], Worker]
    serve: Callable[[Any], list[Any]] | None = None


@dataclass(slots=True)
class Front:
    """What stands between the traffic and the pools; `pools` are those with a router."""

    stages: list[Stage]
    traffic: Driver
    pools: dict[str, RoutedPool] = field(default_factory=dict)
    routers: Routers | None = None
    provenance: dict[str, object] = field(default_factory=dict)

    def hit_rates(self) -> HitRates | None:
        """Begin to count what routers expect to find in caches, where there are any."""
        return None if self.routers is None else self.routers.hit_rates()

    def connect(self, fleet: Fleet, counts: list[int]) -> None:
        """Let the first workers take requests, and the event loop know when the router lets somebody in."""
        for pool, count in zip(self.pools.values(), counts, strict=bool(self.pools)):
            ready_workers(pool.router, range(count))
        if isinstance(self.traffic, RoutedTraffic):
            self.traffic.connect(fleet)

    def reported(self, spec: ReplaySpec) -> Routes:
        """Give the decisions of the routers where records are wanted."""
        return {name: pool.routes if spec.record_per_request else None for name, pool in self.pools.items()}


def placed_in_turn(plan: PoolPlan, traffic: ScaledTraffic) -> Front:
    """Place the requests of one pool in turn."""
    placement = MovingRoundRobin(range(plan.config.initial_workers), plan.role.dp_size)
    return Front([Stage(placement, placement, plan.make)], traffic)


def pair_in_turn(plans: tuple[PoolPlan, PoolPlan], traffic: ScaledTraffic) -> Front:
    """Place the requests of both pools in turn, each by itself."""
    stages = []
    for plan in plans:
        placement = MovingPoolRoundRobin(range(plan.config.initial_workers), plan.role.dp_size)
        stages.append(Stage(placement, placement, plan.make))
    return Front(stages, traffic)


def routed(routing: Routing, plan: PoolPlan, traffic: ScaledTraffic) -> Front:
    """Put a router in front of one pool."""
    clock, routing = RouterClock(), routing.recording()
    pool = RoutedPool("agg", routing, routing.options, plan.rank, plan.timer, clock)
    front = AggregatedTraffic(traffic, pool.router, clock)

    def make(index: int) -> Worker:
        return pool.adopt(index, plan.make(index), front)

    stage = Stage(pool.router, pool.router, make)
    routers = Routers(pool.router, None, pool.recorded, traffic)
    return Front([stage], front, {"agg": pool}, routers, routing.provenance)


def routed_pair(routing: Routing, plans: tuple[PoolPlan, PoolPlan], traffic: ScaledTraffic) -> Front:
    """Put routers in front of a prefill and a decode pool."""
    clock, routing = RouterClock(), routing.recording()
    options = routing.options.for_prefill_pool(), routing.options.for_decode_pool()
    pools = [
        RoutedPool(name, routing, option, plan.rank, plan.timer, clock)
        for name, option, plan in zip(("prefill", "decode"), options, plans, strict=True)
    ]
    front = PairTraffic(traffic, pools[0].router, pools[1].router, clock)

    def maker(pool: RoutedPool, plan: PoolPlan) -> Callable[[int], Worker]:
        return lambda index: pool.adopt(index, plan.make(index), front)

    prefill, decode = front.placements()
    stages = [
        Stage(prefill, prefill, maker(pools[0], plans[0]), front.sources),
        Stage(decode, decode, maker(pools[1], plans[1])),
    ]
    named = {"prefill": pools[0], "decode": pools[1]}
    routers = Routers(pools[1].router, pools[0].router, pools[0].recorded, traffic)
    return Front(stages, front, named, routers, routing.provenance)
