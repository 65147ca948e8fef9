"""The event loop of an observed replay: on the shared clock, so that observers see everything in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.watch import WatchedGroupWorker, WatchedRankWorker
from aisimulate.replay.fleet import Fleet

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams
    from aisimulate.replay.fleet import Worker
    from aisimulate.replay.observe.hub import Hub
    from aisimulate.router.round_robin import RoundRobin
    from aisimulate.workload.driver import SessionDriver

Watched = list[WatchedRankWorker] | list[WatchedGroupWorker]


class ObservedFleet(Fleet):
    """A `Fleet` that tells a hub when its clock moves. Same results, to the ns."""

    def __init__(
        self,
        workers: list[Worker],
        driver: SessionDriver,
        placement: RoundRobin,
        limit_ns: int | None,
        hub: Hub,
    ) -> None:
        super().__init__(workers, driver, placement, limit_ns)
        self._hub = hub

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


def watched_workers(
    params: RankParams, timer: PassTimer, dp_size: int, replicas: int, hub: Hub
) -> list[Worker]:
    """Make equal workers of `dp_size` ranks each, known to the hub."""
    workers: Watched
    if dp_size == 1:
        workers = [WatchedRankWorker(params, timer, index, hub) for index in range(replicas)]
    else:
        workers = [WatchedGroupWorker(params, timer, dp_size, index, hub) for index in range(replicas)]
    hub.begin([*workers])
    return [*workers]
