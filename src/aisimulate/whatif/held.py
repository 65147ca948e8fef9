"""How full the KV cache of each pool gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.replay.observe.hub import Observer

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker

NEAR_FULL = 0.9
"""From this share on a result sits near saturation: with less capacity, requests would wait or give way."""


class PeakHeld(Observer):
    """Keeps, by pool, the greatest share of a rank's KV blocks that running requests held at a time.

    Blocks that are merely cached do not count. `peaks` has `agg`, or `prefill` and `decode`.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self._is_pair = False

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Take note of whether there are two pools."""
        self._is_pair = len({worker.prefills for worker in workers}) > 1

    def started(self, worker: WatchedWorker) -> None:
        """Look at what was admitted."""
        self._look(worker)

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Look at what the passes took."""
        del terminal
        self._look(worker)

    def _look(self, worker: WatchedWorker) -> None:
        pool = ("prefill" if worker.prefills else "decode") if self._is_pair else "agg"
        for rank in worker.ranks:
            gauges = rank.gauges()
            share = gauges.active_blocks / gauges.total_blocks if gauges.total_blocks else 0.0
            if share > self.peaks.get(pool, 0.0):
                self.peaks[pool] = share
