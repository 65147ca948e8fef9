"""One pool of a replay that scales: its workers, who places requests on them, who watches their passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import UnsupportedError
from aisimulate.engine.in_flight import in_flight_of
from aisimulate.engine.watch import WatchedWorker
from aisimulate.replay.observe.forward_passes import DecodePassLog, ForwardPassLog
from aisimulate.replay.observe.forwards import ForwardCount
from aisimulate.replay.observe.hub import Hub
from aisimulate.replay.observe.relay import Relay
from aisimulate.replay.tiers import Tiers

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.engine.protocols import Worker
    from aisimulate.replay.worker_pool import WorkerPool


class ScaledPool:
    """A pool named `side` (prefill or decode) in snapshots.

    `make` builds the worker of a number, `serve` what the event loop of a pair knows of its ranks. A
    `listener` that cares is told `worker_ready`, `worker_draining`,
    `worker_removed` (worker id, now in ns) and, once a change is complete, `topology_settled` (now in ns).
    """

    def __init__(
        self,
        side: str,
        pool: WorkerPool,
        listener: object,
        make: Callable[[int], Worker],
        serve: Callable[[Any], list[Any]] | None = None,
        hub: Hub | None = None,
    ) -> None:
        self.side = side
        self.pool = pool
        self.passes = DecodePassLog() if pool.name == "decode" else ForwardPassLog()
        self.forwards = ForwardCount()
        self.hub = Hub([self.passes, self.forwards, *([] if hub is None else [Relay(hub)])])
        self._outer = hub
        self.tiers = Tiers()
        self._listener = listener
        self._serve = serve
        self._make = make
        self._watched: dict[int, WatchedWorker] = {}
        self._bare: dict[int, Any] = {}  # the same workers, unwatched

    def watch(self, worker: Worker, index: int) -> WatchedWorker:
        """Put worker number `index` under observation.

        Raises UnsupportedError for a kind that nobody knows how to look into.
        """
        flight = in_flight_of(worker)
        if flight is None:
            raise UnsupportedError("workers of this kind cannot be scaled yet")
        self._bare[index] = worker
        watched = self._watched[index] = WatchedWorker(
            worker, flight, index, self.hub, prefills=self.pool.name == "prefill"
        )
        return watched

    @property
    def watched(self) -> list[WatchedWorker]:
        """The workers under observation, by number."""
        return [self._watched[index] for index in sorted(self._watched)]

    def begin(self) -> None:
        """Introduce the first workers to those who watch."""
        self.hub.begin(self.watched)

    def new_worker(self, index: int) -> WatchedWorker:
        """Build and watch another worker; it does nothing before it is `ready`."""
        worker = self._make(index)
        self.tiers.add(worker)
        return self.watch(worker, index)

    def ranks_of(self, index: int) -> list[Any]:
        """List the schedulers of a worker of a pair of pools."""
        ranks: list[Any] = self._bare[index].ranks
        return ranks

    def serving_ranks(self, index: int) -> list[Any]:
        """List what the event loop of a pair needs of those ranks."""
        if self._serve is None:
            return self.ranks_of(index)
        return self._serve(self._bare[index])

    # Changes ------------------------------------------------------------------------------------------

    def starting(self, index: int, now_ns: int) -> None:
        """Tell those who watch of a worker that was asked for."""
        self.hub.starting(self._watched[index], now_ns)

    def ready(self, index: int, now_ns: int) -> None:
        """Let a worker take requests."""
        self.hub.joined(self._watched[index], now_ns)
        self._tell("worker_ready", index, now_ns)

    def draining(self, index: int, now_ns: int) -> None:
        """Let a worker take no more requests."""
        self.hub.draining(self._watched[index], now_ns)
        self._tell("worker_draining", index, now_ns)

    def removed(self, index: int, now_ns: int) -> None:
        """Forget a worker."""
        self.hub.left(self._watched.pop(index), now_ns)
        del self._bare[index]
        self._tell("worker_removed", index, now_ns)

    def cancelled(self, index: int, now_ns: int) -> None:
        """Forget a worker that was not ready yet."""
        worker = self._watched.pop(index)
        if self._outer is not None:
            self._outer.left(worker, now_ns)  # the logs of the pool never heard of it
        del self._bare[index]

    def settled(self, now_ns: int) -> None:
        """End a batch of changes."""
        self._tell("topology_settled", now_ns)

    def _tell(self, event: str, *args: int) -> None:
        method = getattr(self._listener, event, None)
        if method is not None:
            method(*args)

    # What a policy sees ---------------------------------------------------------------------------------

    def forward_passes(self, now_ns: int) -> list[dict[str, Any]]:
        """List the latest forward pass of each rank of active workers since the last call."""
        passes = self.passes.collect(now_ns)
        return [item.named() for item in passes if item.worker_id in self.pool.active]

    def states(self) -> dict[str, list[int]]:
        """List the ids of the workers in each state."""
        pool = self.pool
        return {
            "active": sorted(pool.active),
            "starting": sorted(pool.starting),
            "draining": sorted(pool.draining),
        }
