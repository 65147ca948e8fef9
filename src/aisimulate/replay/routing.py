"""Puts a KV-aware router in front of the workers of a replay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from aisimulate.config.kv_router import kv_router_config
from aisimulate.core.seeds import named_seed
from aisimulate.core.units import clock_ns
from aisimulate.engine.ahead_progress import decoding_view_of
from aisimulate.engine.cache_view import RunCacheView
from aisimulate.engine.offload_scheduler import Offloading
from aisimulate.engine.pool_look import PatientCacheView, PatientLook, PoolLook, outlook_of
from aisimulate.engine.told_worker import telling
from aisimulate.replay.placement_policies import make_policy
from aisimulate.replay.routed_traffic import AggregatedTraffic, PairTraffic
from aisimulate.router.clock import RouterClock
from aisimulate.router.kv_router import KvRouter, ready_workers
from aisimulate.router.options import RouterOptions
from aisimulate.router.policy import PolicyRouter

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as ListOf

    from aisimulate.config.kv_router import KvRouterConfig
    from aisimulate.config.rank import RankConfig
    from aisimulate.config.spec import ReplaySpec
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.decoding_view import DecodingView, UnevenDecodingView
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.told_worker import PassListener
    from aisimulate.router.policy import PlacementPolicy
    from aisimulate.router.route import Route
    from aisimulate.workload.drivers import Driver


@dataclass(frozen=True, slots=True)
class Routing:
    """How the pools of a replay are routed: by cost, or by policies that `policy` makes, one for each pool.

    `records`: whether the decisions are kept for the report.
    """

    options: RouterOptions
    records: bool
    policy: Callable[[], PlacementPolicy] | None = None

    def recording(self) -> Routing:
        """The same with a record of every decision."""
        return replace(self, records=True)

    @property
    def provenance(self) -> dict[str, object]:
        """The seed of all draws, if there are any; a policy has its own ways."""
        options = self.options
        draws = options.temperature > 0 or options.tie_break == "random"
        return {"router_seed": options.seed} if draws and self.policy is None else {}


def routing_of(spec: ReplaySpec) -> Routing | None:
    """Read how requests are routed; None where they are placed in turn. Raises InputError."""
    placement, config = spec.adapters.placement, kv_router_config(spec)
    if config is not None:
        return Routing(router_options(config), spec.record_per_request)
    if placement.provider == "round_robin":
        return None
    return Routing(RouterOptions(), spec.record_per_request, partial(make_policy, placement))


def router_options(config: KvRouterConfig) -> RouterOptions:
    """Turn the settings into plain values."""
    scale, credit = config.prefill_load_scale, config.overlap_score_credit
    if config.overlap_score_weight is not None:
        scale = config.overlap_score_weight
        credit = credit if scale else 0.0
    return RouterOptions(
        overlap_score_credit=credit,
        overlap_score_credit_decay=config.overlap_score_credit_decay,
        prefill_load_scale=scale,
        temperature=config.router_temperature,
        host_cache_hit_weight=config.host_cache_hit_weight,
        disk_cache_hit_weight=config.disk_cache_hit_weight,
        decode_active_request_weight=config.decode_active_request_weight,
        use_kv_events=config.use_kv_events,
        ttl_secs=config.router_ttl_secs,
        kv_event_lag_ms=config.kv_event_lag_ms,
        track_active_blocks=config.router_track_active_blocks,
        track_prefill_tokens=config.router_track_prefill_tokens,
        assume_kv_reuse=config.router_assume_kv_reuse,
        track_output_blocks=config.router_track_output_blocks,
        output_block_decay=config.router_output_block_decay,
        predict_prefill=config.router_prefill_load_model != "none",
        queue_threshold=config.router_queue_threshold,
        queue_policy=config.router_queue_policy,
        tie_break=config.tie_break,
        seed=config.seed,
    )


class RoutedPool:
    """One pool and its router: every worker of the pool has to be adopted before it is used."""

    def __init__(
        self,
        name: str,
        routing: Routing,
        options: RouterOptions,
        rank: RankConfig,
        timer: PassTimer,
        clock: RouterClock,
    ) -> None:
        """Prepare the router of pool `name` with the `options` of that pool."""
        self.routes: dict[int, Route] | None = {} if routing.records else None
        self._options = options
        self._sees_caches = name != "decode"
        self._lag_ns = clock_ns(options.kv_event_lag_ms)
        make = KvRouter if routing.policy is None else PolicyRouter
        self.router = make(
            options.seeded(named_seed(options.seed, "router", name)),
            rank.block_size,
            clock,
            rank.max_num_batched_tokens,
            lambda tokens, cached: timer.prefill_ns(1, tokens, cached),
            self.routes,
        )
        if isinstance(self.router, PolicyRouter) and routing.policy is not None:
            self.router.policy = routing.policy()

    @property
    def recorded(self) -> dict[int, Route]:
        """The decisions so far, where they are recorded."""
        return {} if self.routes is None else self.routes

    def adopt(self, index: int, worker: Worker, listener: PassListener) -> Worker:
        """Make the router know worker `index`, which is unused; return what takes its place."""
        ranks: list[Any] = worker.ranks  # type: ignore[attr-defined]
        if not self._sees_caches:
            self.router.add_worker(index, [None] * len(ranks), (), self._decoding(ranks, worker))
            return worker
        told: Any = telling(worker, listener)
        told.views = [outlook_of(rank, told, self._lag_ns) for rank in ranks]
        tiers = [rank if isinstance(rank, Offloading) else None for rank in ranks]
        self.router.add_worker(index, told.views, tiers, self._decoding(ranks, told))
        kind = type(told.views[0])
        if not self._lag_ns and kind in (PatientCacheView, RunCacheView):
            make = PatientLook if kind is PatientCacheView else PoolLook
            look = self.router.look_at_all = self.router.look_at_all or make()
            for view in told.views:
                look.add(view)
        return told  # type: ignore[no-any-return]

    def _decoding(self, ranks: list[Any], worker: Worker) -> list[DecodingView | UnevenDecodingView]:
        options = self._options
        if not options.track_output_blocks:
            return []
        return [decoding_view_of(rank, worker, options.output_block_decay) for rank in ranks]

    def adopt_all(self, workers: ListOf[Worker], listener: PassListener) -> list[Worker]:
        """Adopt the workers that the pool begins with, and let them take requests."""
        adopted = [self.adopt(index, worker, listener) for index, worker in enumerate(workers)]
        ready_workers(self.router, range(len(workers)))
        return adopted


def route_aggregated(
    routing: Routing, rank: RankConfig, timer: PassTimer, workers: list[Worker], driver: Driver
) -> tuple[RoutedPool, list[Worker], AggregatedTraffic]:
    """Put a router in front of an aggregated pool; return it, its workers and their traffic."""
    clock = RouterClock()
    pool = RoutedPool("agg", routing, routing.options, rank, timer, clock)
    traffic = AggregatedTraffic(driver, pool.router, clock)
    return pool, pool.adopt_all(workers, traffic), traffic


def route_pair(
    routing: Routing,
    ranks: tuple[RankConfig, RankConfig],
    timers: tuple[PassTimer, PassTimer],
    workers: tuple[list[Worker], list[Worker]],
    driver: Driver,
) -> tuple[tuple[RoutedPool, RoutedPool], tuple[list[Worker], list[Worker]], PairTraffic]:
    """Put routers in front of a prefill and a decode pool, each with its own rules (spec 03 section A7)."""
    clock, options = RouterClock(), routing.options
    prefill = RoutedPool("prefill", routing, options.for_prefill_pool(), ranks[0], timers[0], clock)
    decode = RoutedPool("decode", routing, options.for_decode_pool(), ranks[1], timers[1], clock)
    traffic = PairTraffic(driver, prefill.router, decode.router, clock)
    adopted = prefill.adopt_all(workers[0], traffic), decode.adopt_all(workers[1], traffic)
    return (prefill, decode), adopted, traffic
