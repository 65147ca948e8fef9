"""Hands what happens in a replay on to its observers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker
    from aisimulate.replay.observe.arrivals import Routers
    from aisimulate.replay.outcome import ReplayOutcome
    from aisimulate.replay.report import Report


class Observer:
    """Is told what happens in a replay, in order; does nothing with it by itself.

    An observer only looks: what it is handed belongs to the replay.
    """

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Take note of the workers, before anything happens."""

    def meet_routers(self, routers: Routers) -> None:
        """Take note of the routers, where requests are placed by some; before anything happens."""

    def before(self, now_ns: int) -> None:
        """Take note that everything before `now_ns` has happened, and something happens then."""

    def settled(self, now_ns: int) -> None:
        """Take note that all of `now_ns` has happened, but for a decision to scale the pools."""

    def arrived(self, sequences: list[Sequence]) -> None:
        """Take note of requests that arrived, wherever they may have to wait."""

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Take note that a request was queued on a worker."""

    def waits(self, worker: WatchedWorker) -> None:
        """Take note that a worker of a pair is between passes: prompts may have come and gone there."""

    def started(self, worker: WatchedWorker) -> None:
        """Take note that passes began."""

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Take note that the passes in flight ended, and with them these requests."""

    def starting(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note that another worker was asked for, where pools scale."""

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note that another worker got ready, where pools scale."""

    def draining(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note that a worker takes no more requests, where pools scale."""

    def left(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note that a worker was removed, or not waited for any more, where pools scale."""

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
        self._in_flight: set[WatchedWorker] = set()
        self.has_begun = False

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Introduce the workers."""
        self.has_begun = True
        for observer in self._observers:
            observer.begin(workers)

    def meet_routers(self, routers: Routers) -> None:
        """Introduce the routers."""
        for observer in self._observers:
            observer.meet_routers(routers)

    def before(self, now_ns: int) -> None:
        """Pass on that the clock moves."""
        for observer in self._observers:
            observer.before(now_ns)

    def settled(self, now_ns: int) -> None:
        """Pass on that nothing but a decision is left to happen now."""
        for observer in self._observers:
            observer.settled(now_ns)

    def arrived(self, sequences: list[Sequence]) -> None:
        """Pass on that requests arrived."""
        for observer in self._observers:
            observer.arrived(sequences)

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Pass on that a request was queued."""
        for observer in self._observers:
            observer.submitted(worker, sequence)

    def waits(self, worker: WatchedWorker) -> None:
        """Pass on that a worker is between passes."""
        for observer in self._observers:
            observer.waits(worker)

    def started(self, worker: WatchedWorker) -> None:
        """Pass on that passes began."""
        self._in_flight.add(worker)
        for observer in self._observers:
            observer.started(worker)

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Pass on that passes ended, if any were in flight."""
        if worker not in self._in_flight:
            return
        self._in_flight.remove(worker)
        for observer in self._observers:
            observer.ended(worker, terminal)

    def starting(self, worker: WatchedWorker, now_ns: int) -> None:
        """Pass on that a worker was asked for."""
        for observer in self._observers:
            observer.starting(worker, now_ns)

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Pass on that a worker got ready."""
        for observer in self._observers:
            observer.joined(worker, now_ns)

    def draining(self, worker: WatchedWorker, now_ns: int) -> None:
        """Pass on that a worker takes no more requests."""
        for observer in self._observers:
            observer.draining(worker, now_ns)

    def left(self, worker: WatchedWorker, now_ns: int) -> None:
        """Pass on that a worker was removed."""
        for observer in self._observers:
            observer.left(worker, now_ns)

    def finish(self, end_ns: int) -> None:
        """Pass on that the replay ended."""
        for observer in self._observers:
            observer.finish(end_ns)
