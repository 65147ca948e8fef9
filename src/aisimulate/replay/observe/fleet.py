"""The event loop of an observed replay: on the shared clock, so that observers see everything in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import UnsupportedError
from aisimulate.engine.in_flight import in_flight_of
from aisimulate.engine.watch import WatchedWorker
from aisimulate.replay.destination_first import DestinationFirstFleet
from aisimulate.replay.disagg_fleet import DisaggFleet
from aisimulate.replay.fleet import Fleet

if TYPE_CHECKING:
    from aisimulate.engine.decode_worker import DecodeWorker
    from aisimulate.engine.protocols import Worker
    from aisimulate.replay.fleet import Placement
    from aisimulate.replay.observe.hub import Hub
    from aisimulate.workload.drivers import Driver


class ObservedFleet(Fleet):
    """A `Fleet` that tells a hub when its clock moves. Same results, to the ns."""

    def __init__(
        self,
        workers: list[Worker],
        driver: Driver,
        placement: Placement,
        limit_ns: int | None,
        hub: Hub,
    ) -> None:
        super().__init__(workers, driver, placement, limit_ns)
        self._hub = hub
        self._is_plain = False

    def run(self) -> None:
        """Run to the end, and tell the hub."""
        super().run()
        self._hub.finish(self.end_ns)

    def _run_lanes(self) -> None:
        """Keep to the clock: lanes would run one worker after the other."""
        self._run_clock()

    def _settle_instant(self, now_ns: int) -> None:
        self._hub.before(now_ns)
        super()._settle_instant(now_ns)


class ObservedPairFleet(DisaggFleet):
    """A `DisaggFleet` that tells a hub when its clock moves."""

    hub: Hub

    def run(self) -> None:
        """Run to the end, and tell the hub."""
        super().run()
        self.hub.finish(self.end_ns)

    def _settle_instant(self, now_ns: int) -> None:
        self.hub.before(now_ns)
        super()._settle_instant(now_ns)

    def _start_passes(self, candidates: list[int], now_ns: int) -> None:
        tell_who_waits(self.hub, self._workers, candidates)
        super()._start_passes(candidates, now_ns)

    def _go_between(self, index: int, laggard: DecodeWorker | None) -> None:
        self.hub.before(self._now_ns)
        super()._go_between(index, laggard)


class ObservedDestinationFirstFleet(ObservedPairFleet, DestinationFirstFleet):
    """The same for a `DestinationFirstFleet`."""


def tell_who_waits(hub: Hub, workers: list[Worker], candidates: list[int]) -> None:
    """Let a hub know which of the workers that may start a pass are between passes."""
    for index in sorted(set(candidates)):
        worker = workers[index]
        if isinstance(worker, WatchedWorker) and not worker.busy:
            hub.waits(worker)


def watch_workers(workers: list[Worker], hub: Hub, prefill_workers: int = 0) -> list[Worker]:
    """Put the workers of a fleet under the eyes of a hub; the first `prefill_workers` only prefill.

    Raises UnsupportedError for workers that nobody knows how to look into.
    """
    watched = []
    for index, worker in enumerate(workers):
        flight = in_flight_of(worker)
        if flight is None:
            raise UnsupportedError("workers of this kind cannot be watched yet")
        prefills = index < prefill_workers
        number = index if prefills else index - prefill_workers
        watched.append(WatchedWorker(worker, flight, index, hub, number=number, prefills=prefills))
    hub.begin(watched)
    return [*watched]
