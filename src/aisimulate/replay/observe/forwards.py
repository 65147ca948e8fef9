"""Counts decode forwards, and the tokens that came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.replay.observe.hub import Observer

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker


class ForwardCount(Observer):
    """Counts decode forwards of single requests in passes that ended."""

    def __init__(self) -> None:
        self._workers: dict[int, WatchedWorker] = {}
        self._ended = 0
        self._extra = 0  # tokens of accepted drafts
        self._in_flight: dict[int, int] = {}  # forwards of one pass, by worker
        self._collected = 0

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Take note of the workers."""
        self._workers = {worker.index: worker for worker in workers}

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note of another worker."""
        del now_ns
        self._workers[worker.index] = worker

    def left(self, worker: WatchedWorker, now_ns: int) -> None:
        """Forget a worker."""
        del now_ns
        del self._workers[worker.index]

    def started(self, worker: WatchedWorker) -> None:
        """Count the forwards of the pass that began."""
        self._in_flight[worker.index] = sum(work.forwards for work in worker.doing)

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Count the passes that ended."""
        del terminal
        self._ended += worker.planned_passes * self._in_flight.pop(worker.index)
        self._extra += sum(worker.ranks[work.rank].extra_tokens for work in worker.doing)

    def collect_extra(self) -> int:
        """Count the tokens of accepted drafts in passes that ended after the last call."""
        extra, self._extra = self._extra, 0
        return extra

    def collect(self, now_ns: int) -> int:
        """Count the forwards that ended by now and after the last call."""
        total = self._ended
        for worker in self._workers.values():
            if worker.busy:
                total += worker.passes_by(now_ns)[0] * self._in_flight[worker.index]
        count, self._collected = total - self._collected, total
        return count
