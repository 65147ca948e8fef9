"""What observers learn of requests before any worker does: who arrives, and who waits at a router."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from aisimulate.workload.drivers import PassedOn

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.replay.observe.hub import Hub
    from aisimulate.router.kv_router import KvRouter
    from aisimulate.router.route import Route
    from aisimulate.workload.drivers import Driver


class AnnouncedTraffic(PassedOn):
    """A driver that tells a hub who arrives."""

    def __init__(self, driver: Driver, hub: Hub) -> None:
        super().__init__(driver)
        self._hub = hub
        self.on_terminal = driver.on_terminal

    def pop_ready(self, now_ns: int) -> list[Sequence]:
        """Dispatch every request that is ready."""
        ready = self._driver.pop_ready(now_ns)
        if ready:
            self._hub.arrived(ready)
        return ready


class HitRates:
    """Shares of prompts that the router expected to find in the cache where it sent them."""

    def __init__(self, routes: dict[int, Route], traffic: Driver) -> None:
        self._routes = routes
        self._traffic = traffic
        self._seen = 0

    def drain(self) -> tuple[float, int]:
        """Give the mean over the requests that were placed since the last call, and how many those are."""
        fresh = list(islice(self._routes.items(), self._seen, None))
        self._seen += len(fresh)
        sequences, rates = self._traffic.sequences, []
        for ordinal, route in fresh:
            blocks = sequences[ordinal].input_tokens // route.block_size
            if blocks:
                rates.append(route.selected_blocks / blocks)
        return (sum(rates) / len(rates) if rates else 0.0), len(rates)


@dataclass(frozen=True, slots=True)
class Routers:
    """The routers of a replay: of its only pool, or (`prefill` given) one in front of each of two.

    `routes` are the placements of the one that arrivals meet.
    """

    decode: KvRouter
    prefill: KvRouter | None
    routes: dict[int, Route]
    traffic: Driver

    def hit_rates(self) -> HitRates:
        """Begin to count what was expected to be found in caches."""
        return HitRates(self.routes, self.traffic)

    def pending(self) -> tuple[int, int]:
        """Count who waits at the router of the prefill pool, and of the decode pool, or the only one."""
        return 0 if self.prefill is None else self.prefill.pending, self.decode.pending
