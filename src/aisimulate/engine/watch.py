"""A worker under observation: tells a watcher when requests are queued and when passes begin and end.

It wraps any worker and changes nothing about it; a replay without a watcher has none of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aisimulate.engine.ahead_view import AheadFlight

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.in_flight import InFlight
    from aisimulate.engine.pass_view import RankPass
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.rank_view import RankView
    from aisimulate.engine.sequence import Sequence


_NEVER_NS = 1 << 62


class Watcher(Protocol):
    """Is told what happens, after it happened."""

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Take note that a request was queued."""

    def started(self, worker: WatchedWorker) -> None:
        """Take note that passes began."""

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Take note that the passes in flight ended, and with them these requests."""


class WatchedWorker:
    """Worker number `index` of the fleet (`number` of its pool) and its watcher.

    `doing` is what the ranks with work do in the passes in flight. These began at `start_ns`, are
    `planned_passes` many (fewer once an arrival cut them short) and, when `exact`, end at `end_ns`.
    """

    __slots__ = (
        "_flight",
        "_inner",
        "_is_lost",
        "_watcher",
        "busy",
        "doing",
        "end_ns",
        "exact",
        "index",
        "number",
        "prefills",
    )

    def __init__(
        self,
        worker: Worker,
        flight: InFlight,
        index: int,
        watcher: Watcher,
        *,
        number: int | None = None,
        prefills: bool = False,
    ) -> None:
        self.index = index
        self.prefills = prefills  # only: it hands its prompts over
        self.number = index if number is None else number  # in its pool
        self.doing: list[RankPass] = []
        self._inner = worker
        self._is_lost = False
        self._flight = flight
        self._watcher = watcher
        self.busy, self.exact, self.end_ns = worker.busy, worker.exact, worker.end_ns

    def _look(self) -> None:
        worker = self._inner
        self.busy, self.exact, self.end_ns = worker.busy, worker.exact, worker.end_ns

    # What is watched ----------------------------------------------------------------------------------

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence and tell the watcher."""
        self._inner.submit(sequence)
        self._watcher.submitted(self, sequence)

    def start(self, now_ns: int) -> bool:
        """Begin passes and tell the watcher; return whether there was work."""
        if isinstance(self._flight, AheadFlight):
            return self._start_ahead(now_ns, self._flight)
        ranks = [rank for rank in self.ranks if rank.has_work]
        for rank in ranks:
            rank.mark()
        started = self._inner.start(now_ns)
        if started and not all(rank.is_steady for rank in ranks):
            self._inner.cut(now_ns + 1)  # a run may be cut anywhere
        self._look()
        if started:
            self.doing = [rank.read(now_ns) for rank in ranks]
            self._watcher.started(self)
        return started

    def _start_ahead(self, now_ns: int, flight: AheadFlight) -> bool:
        """Do the same where the next pass is planned already."""
        started = self._inner.start(now_ns)
        if started:
            self.doing = flight.begin(now_ns)
        self._look()
        if started:
            self._watcher.started(self)
        return started

    def settle(self) -> None:
        """Price the passes in flight exactly."""
        self._inner.settle()
        self._look()

    def cut(self, at_ns: int) -> None:
        """End the run in flight at its first pass boundary at or after `at_ns`."""
        self._inner.cut(at_ns)
        self._look()

    def finish(self) -> list[Sequence]:
        """End passes and tell the watcher; return the sequences that became terminal, in order."""
        was_busy = self._inner.busy  # one that only slept until a copy ended has no passes to tell of
        terminal = self._inner.finish()
        self._look()
        if was_busy:
            self._watcher.ended(self, terminal)
        return terminal

    def lose(self) -> None:
        """Never answer again: the passes in flight do not end, and what is queued stays."""
        self._is_lost = True
        self.busy, self.end_ns = False, _NEVER_NS

    # What is not ----------------------------------------------------------------------------------------

    @property
    def ranks(self) -> list[RankView]:
        """All ranks, by index."""
        return self._flight.ranks

    @property
    def start_ns(self) -> int:
        """When the passes in flight, or the last ones, began."""
        return self._flight.start_ns

    @property
    def planned_passes(self) -> int:
        """How many passes are in flight, or just ended."""
        return self._flight.passes

    @property
    def has_work(self) -> bool:
        """Whether a pass can start."""
        return self._inner.has_work and not self._is_lost

    @property
    def passes(self) -> int:
        """Passes simulated so far."""
        return self._inner.passes

    @property
    def plans(self) -> int:
        """Passes or runs planned so far."""
        return self._inner.plans

    @property
    def wake_ns(self) -> int:
        """When a worker that is neither busy nor done has to be started again."""
        return getattr(self._inner, "wake_ns", _NEVER_NS)

    @property
    def background_ns(self) -> int:
        """The same while more may happen in the fleet."""
        return getattr(self._inner, "background_ns", _NEVER_NS)

    @property
    def is_linked(self) -> bool:
        """Whether other workers may change what is found here."""
        return getattr(self._inner, "is_linked", False)

    def give_up(self) -> bool:
        """Wait no longer for what others do; return whether anybody here did."""
        give_up = getattr(self._inner, "give_up", None)
        return give_up is not None and give_up()

    @property
    def interrupts(self) -> bool:
        """Whether passes in flight elsewhere must not go on as runs."""
        return getattr(self._inner, "interrupts", False)

    def advance(self, now_ns: int, until_ns: int) -> int:
        """Run ahead, unwatched. Nobody who watches does that."""
        raise NotImplementedError("a watched worker keeps to the clock")

    def passes_by(self, limit_ns: int) -> tuple[int, int]:
        """Count the passes in flight that end by `limit_ns`; give the end of the last of them."""
        return self._flight.passes_by(limit_ns)

    def pass_ns(self, number: int) -> int:
        """Duration of one of the passes in flight or just ended, counted from 1."""
        return self._flight.pass_ns(number)

    def last_boundary_ns(self, limit_ns: int) -> int:
        """Return the last pass boundary at or before `limit_ns` of the passes in flight."""
        return self._inner.last_boundary_ns(limit_ns)

    def pack_log(self) -> None:
        """Let what was logged so far take less memory."""
        self._inner.pack_log()

    def close(self) -> GapLog:
        """Return the finished gap log."""
        return self._inner.close()
