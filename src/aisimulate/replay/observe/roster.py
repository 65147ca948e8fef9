"""Who is there: the workers of the pools by their state, as those who watch come to know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.watch import WatchedWorker

ACTIVE, STARTING, DRAINING = "active", "starting", "draining"
_SIDES = (("prefill", True), ("decode", False))


class Roster:
    """The state of every worker; those of an aggregated pool count as decode workers.

    `has_prefill_pool`: the replay has a pair of pools.
    """

    def __init__(self) -> None:
        self.has_prefill_pool = False
        self._states: dict[WatchedWorker, str] = {}

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Take note of the workers that are there from the start."""
        self._states = dict.fromkeys(workers, ACTIVE)
        self.has_prefill_pool = any(worker.prefills for worker in workers)

    def starting(self, worker: WatchedWorker) -> None:
        """A worker was asked for."""
        self._states[worker] = STARTING

    def joined(self, worker: WatchedWorker) -> None:
        """It is ready."""
        self._states[worker] = ACTIVE

    def draining(self, worker: WatchedWorker) -> None:
        """It gets no more requests."""
        self._states[worker] = DRAINING

    def left(self, worker: WatchedWorker) -> None:
        """It is gone."""
        del self._states[worker]

    def state(self, worker: WatchedWorker) -> str:
        """Give the state of a worker that is there."""
        return self._states[worker]

    def workers(self) -> list[WatchedWorker]:
        """List all workers, those of a prefill pool first, by their number."""
        return sorted(self._states, key=lambda worker: (not worker.prefills, worker.number))

    def pools(self) -> tuple[list[WatchedWorker], list[WatchedWorker]]:
        """List the workers of the prefill and of the decode pool."""
        workers = self.workers()
        prefill = [worker for worker in workers if worker.prefills]
        return prefill, workers[len(prefill) :]

    def ids(self) -> dict[str, list[int]]:
        """List the numbers of the workers in each state and pool, by the names that samples have for them."""
        workers, states = self.workers(), self._states
        return {
            f"{state}_{side}_ids": [
                worker.number for worker in workers if worker.prefills == prefills and states[worker] == state
            ]
            for state in (ACTIVE, STARTING, DRAINING)
            for side, prefills in _SIDES
        }
