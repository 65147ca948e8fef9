"""Hands what happens in a replay on to its observers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker
    from aisimulate.replay.outcome import ReplayOutcome
    from aisimulate.replay.report import Report


class Observer:
    """Is told what happens in a replay, in order; does nothing with it by itself.

    An observer only looks: what it is handed belongs to the replay.
    """

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Take note of the workers, before anything happens."""

    def before(self, now_ns: int) -> None:
        """Take note that everything before `now_ns` has happened, and something happens then."""

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Take note that a request was queued on a worker."""

    def started(self, worker: WatchedWorker) -> None:
        """Take note that passes began."""

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Take note that the passes in flight ended, and with them these requests."""

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note that another worker got ready, where pools scale."""

    def left(self, worker: WatchedWorker) -> None:
        """Take note that a worker was removed, where pools scale."""

    def finish(self, end_ns: int) -> None:
        """Take note that the replay ended; `end_ns` is the last pass boundary or arrival."""

    def reported(self, outcome: ReplayOutcome, report: Report) -> None:
        """Take note of the report."""


class Hub:
    """The watcher of all workers, which passes everything on. `has_begun`: there are workers to watch.

    A worker is also asked to finish when only a transfer of its tiers is due: no pass ends then, and
    observers are not told of one.
    """

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = list(observers)
        self._in_flight: set[int] = set()  # indices of workers
        self.has_begun = False

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Introduce the workers."""
        self.has_begun = True
        for observer in self._observers:
            observer.begin(workers)

    def before(self, now_ns: int) -> None:
        """Pass on that the clock moves."""
        for observer in self._observers:
            observer.before(now_ns)

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Pass on that a request was queued."""
        for observer in self._observers:
            observer.submitted(worker, sequence)

    def started(self, worker: WatchedWorker) -> None:
        """Pass on that passes began."""
        self._in_flight.add(worker.index)
        for observer in self._observers:
            observer.started(worker)

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Pass on that passes ended, if any were in flight."""
        if worker.index not in self._in_flight:
            return
        self._in_flight.remove(worker.index)
        for observer in self._observers:
            observer.ended(worker, terminal)

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Pass on that a worker got ready."""
        for observer in self._observers:
            observer.joined(worker, now_ns)

    def left(self, worker: WatchedWorker) -> None:
        """Pass on that a worker was removed."""
        for observer in self._observers:
            observer.left(worker)

    def finish(self, end_ns: int) -> None:
        """Pass on that the replay ended."""
        for observer in self._observers:
            observer.finish(end_ns)
