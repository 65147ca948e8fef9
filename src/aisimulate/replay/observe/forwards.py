"""Counts decode forwards, and the tokens that came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.replay.observe.hub import Observer

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker


class ForwardCount(Observer):
    """Counts decode forwards of single requests in passes that ended, and the tokens that drafts added.

    Forwards that give a prompt its first tokens are none of them: nothing was decoded before.
    """

    def __init__(self) -> None:
        self._workers: dict[int, WatchedWorker] = {}
        self._ended = self._extra = 0
        self._in_flight: dict[int, int] = {}  # forwards of one pass, by worker
        self._collected = (0, 0)

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Take note of the workers."""
        self._workers = {worker.index: worker for worker in workers}

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note of another worker."""
        del now_ns
        self._workers[worker.index] = worker

    def left(self, worker: WatchedWorker) -> None:
        """Forget a worker."""
        del self._workers[worker.index]

    def started(self, worker: WatchedWorker) -> None:
        """Count the forwards of the pass that began."""
        self._in_flight[worker.index] = sum(work.forwards - work.verified for work in worker.doing)

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Count the passes that ended."""
        del terminal
        self._ended += worker.planned_passes * self._in_flight.pop(worker.index)
        self._extra += sum(worker.ranks[work.rank].burst_tokens for work in worker.doing)

    def collect(self, now_ns: int) -> tuple[int, int]:
        """Count the forwards that ended by now and after the last call, and their tokens."""
        forwards = self._ended
        for worker in self._workers.values():
            if worker.busy:
                forwards += worker.passes_by(now_ns)[0] * self._in_flight[worker.index]
        before, self._collected = self._collected, (forwards, forwards + self._extra)
        return forwards - before[0], forwards + self._extra - before[1]
