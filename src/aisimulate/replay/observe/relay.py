"""Passes on what happens to the workers of one pool to those who watch the whole replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.replay.observe.hub import Observer

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker
    from aisimulate.replay.observe.hub import Hub


class Relay(Observer):
    """Hands on what is about a worker; the event loop tells the rest: beginning, clock and end."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Pass on that a request was queued."""
        self._hub.submitted(worker, sequence)

    def started(self, worker: WatchedWorker) -> None:
        """Pass on that passes began."""
        self._hub.started(worker)

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Pass on that passes ended."""
        self._hub.ended(worker, terminal)

    def starting(self, worker: WatchedWorker, now_ns: int) -> None:
        """Pass on that a worker was asked for."""
        self._hub.starting(worker, now_ns)

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Pass on that a worker got ready."""
        self._hub.joined(worker, now_ns)

    def draining(self, worker: WatchedWorker, now_ns: int) -> None:
        """Pass on that a worker takes no more requests."""
        self._hub.draining(worker, now_ns)

    def left(self, worker: WatchedWorker, now_ns: int) -> None:
        """Pass on that a worker was removed."""
        self._hub.left(worker, now_ns)
