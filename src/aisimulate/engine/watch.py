"""Workers that tell a watcher when passes begin and end: what observed replays are made of.

They plan and time exactly as the workers they descend from; without a watcher nothing of this exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aisimulate.engine.group import GroupWorker
from aisimulate.engine.pass_view import PassReader, RankPass
from aisimulate.engine.worker import RankWorker

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


class WatchedWorker(Protocol):
    """A worker as a watcher sees it: `index` in the fleet, its ranks, and the passes in flight.

    `doing` is what the ranks with work do in them; they began at `start_ns`, are `planned_passes` many
    (fewer once an arrival cut them short) and, when `exact`, end at `end_ns`.
    """

    index: int
    busy: bool
    exact: bool
    end_ns: int
    doing: list[RankPass]

    @property
    def ranks(self) -> list[RankScheduler]: ...  # noqa: D102
    @property
    def start_ns(self) -> int: ...  # noqa: D102
    @property
    def planned_passes(self) -> int: ...  # noqa: D102
    def passes_by(self, limit_ns: int) -> tuple[int, int]: ...  # noqa: D102
    def pass_ns(self, number: int) -> int: ...  # noqa: D102


class Watcher(Protocol):
    """Is told what happens, after it happened."""

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Take note that a request was queued."""

    def started(self, worker: WatchedWorker) -> None:
        """Take note that passes began."""

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Take note that the passes in flight ended, and with them these requests."""


class WatchedRankWorker(RankWorker):
    """A `RankWorker` with a watcher."""

    __slots__ = ("_queue", "_readers", "_watcher", "doing", "index")

    def __init__(self, params: RankParams, timer: PassTimer, index: int, watcher: Watcher) -> None:
        super().__init__(params, timer)
        self.index = index
        self.doing: list[RankPass] = []
        self._watcher = watcher
        self._readers = [PassReader(self._rank, 0)]
        self._queue = self.submit
        self.submit = self._submit_watched

    def _submit_watched(self, sequence: Sequence) -> None:
        self._queue(sequence)
        self._watcher.submitted(self, sequence)

    @property
    def ranks(self) -> list[RankScheduler]:
        """Its only rank."""
        return [self._rank]

    @property
    def start_ns(self) -> int:
        """When the passes in flight began."""
        return self._start_ns

    @property
    def planned_passes(self) -> int:
        """How many passes are in flight."""
        return self._passes

    def pass_ns(self, number: int) -> int:
        """Duration of one of the passes in flight or just ended, counted from 1."""
        rank = self._rank
        if rank.run_batch:
            return self._timer.decode_ns(rank.run_batch, rank.run_context + (number - 1) * rank.run_batch)
        return rank.pass_ns

    def start(self, now_ns: int) -> bool:
        """Begin passes and tell the watcher."""
        self._readers[0].mark()
        if not super().start(now_ns):
            return False
        self.doing = [self._readers[0].read(now_ns)]
        self._watcher.started(self)
        return True

    def finish(self) -> list[Sequence]:
        """End passes and tell the watcher."""
        terminal = super().finish()
        self._watcher.ended(self, terminal)
        return terminal


class WatchedGroupWorker(GroupWorker):
    """A `GroupWorker` with a watcher."""

    __slots__ = ("_readers", "_watcher", "doing", "index")

    def __init__(
        self, params: RankParams, timer: PassTimer, dp_size: int, index: int, watcher: Watcher
    ) -> None:
        super().__init__(params, timer, dp_size)
        self.index = index
        self.doing: list[RankPass] = []
        self._watcher = watcher
        self._readers = [PassReader(rank, number) for number, rank in enumerate(self._ranks)]

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence and tell the watcher."""
        super().submit(sequence)
        self._watcher.submitted(self, sequence)

    @property
    def ranks(self) -> list[RankScheduler]:
        """All ranks, by index."""
        return self._ranks

    @property
    def start_ns(self) -> int:
        """When the passes in flight began."""
        return self._start_ns

    @property
    def planned_passes(self) -> int:
        """How many passes are in flight."""
        return self._passes

    def pass_ns(self, number: int) -> int:
        """Duration of one of the passes in flight or just ended, counted from 1; it has been priced."""
        return self._durations[number - 1]

    def start(self, now_ns: int) -> bool:
        """Begin passes and tell the watcher."""
        readers = [reader for reader in self._readers if reader.rank.has_work]
        for reader in readers:
            reader.mark()
        if not super().start(now_ns):
            return False
        self.doing = [reader.read(now_ns) for reader in readers]
        self._watcher.started(self)
        return True

    def finish(self) -> list[Sequence]:
        """End passes and tell the watcher."""
        terminal = super().finish()
        self._watcher.ended(self, terminal)
        return terminal
