"""When workers started, served and drained, as slices; nothing of it is drawn where nobody came or went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.units import NS_PER_MS
from aisimulate.replay.observe.roster import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.engine.watch import WatchedWorker

Event = dict[str, Any]

# The track behind those of the ranks: no worker has so many.
STATE_TID = 1_000_000

_NS_PER_US = NS_PER_MS // 1000


class WorkerStays:
    """The states of workers over time. `have_changed`: somebody came, got ready, drained or left."""

    def __init__(self) -> None:
        self.have_changed = False
        self._open: dict[WatchedWorker, tuple[str, int]] = {}  # state, and since when
        self._slices: list[tuple[WatchedWorker, int, Event]] = []

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Let the first workers serve."""
        self._open = dict.fromkeys(workers, (ACTIVE, 0))

    def enter(self, worker: WatchedWorker, state: str, now_ns: int) -> None:
        """Let a worker begin another state."""
        self._close(worker, now_ns)
        self.have_changed = True
        self._open[worker] = (state, now_ns)

    def leave(self, worker: WatchedWorker, now_ns: int) -> None:
        """End the stay of a worker."""
        self._close(worker, now_ns)
        self.have_changed = True

    def end(self, end_ns: int) -> None:
        """End all stays, with the replay."""
        for worker in [*self._open]:
            self._close(worker, end_ns)

    def events(self) -> Iterator[tuple[WatchedWorker, int, Event]]:
        """Give (worker, instant in ns, event without process and instant) of all stays that ended."""
        if self.have_changed:
            yield from self._slices

    def _close(self, worker: WatchedWorker, now_ns: int) -> None:
        if worker not in self._open:
            return
        state, since_ns = self._open.pop(worker)
        length_us = (now_ns - since_ns) / _NS_PER_US
        event = {"name": state, "cat": "state", "ph": "X", "dur": length_us, "tid": STATE_TID, "args": {}}
        self._slices.append((worker, since_ns, event))
