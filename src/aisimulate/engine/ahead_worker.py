"""A serving worker that plans each pass while the one before it runs (docs/look-ahead.md)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol, TypeVar

from aisimulate.engine.look_ahead import LookAhead
from aisimulate.engine.run_worker import FEW_PASSES, PlanningRank, RunWorker

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence


class AheadRank(PlanningRank, Protocol):
    """What an `AheadWorker` needs of the scheduler of a rank; `look_ahead.LookAhead` tells the meaning."""

    @property
    def is_left(self) -> bool: ...  # noqa: D102
    @property
    def departing(self) -> list[Sequence]: ...  # noqa: D102
    def plan_ahead(self, now_ns: int, start_ns: int) -> int: ...  # noqa: D102
    def depart(self, end_ns: int) -> list[Sequence]: ...  # noqa: D102


class Watcher(Protocol):
    """Is told of plans and of passes that are booked, before and after that is done."""

    def mark(self) -> None: ...  # noqa: D102
    def planned(self, now_ns: int) -> None: ...  # noqa: D102
    def booked(self) -> None: ...  # noqa: D102
    def has_booked(self) -> None: ...  # noqa: D102


Ahead = TypeVar("Ahead", bound=AheadRank)


class Booking(ABC):
    """What workers of one rank and of several that look one pass ahead have in common."""

    __slots__ = ()

    watcher: Watcher | None

    @abstractmethod
    def _begin(self) -> int:
        """Book the planned passes up to the one that begins now; return its end."""

    def _book_next(self) -> int:
        """Book what begins now, and tell who watches; return its end."""
        watcher = self.watcher
        if watcher is None:
            return self._begin()
        watcher.booked()
        end_ns = self._begin()
        watcher.has_booked()
        return end_ns


class AheadWorker(Booking, RunWorker[Ahead]):
    """A worker of one rank that looks one pass ahead.

    A pass is in flight, booked, until `_start_ns`; the `_passes` planned after it begin there. While `busy`,
    the worker has nothing to decide before `end_ns`: `_ended` of the planned passes end by then, and the next
    of them begins. `finish()` books those, so that what happens in between finds their blocks taken, and
    `start()` plans again.
    """

    __slots__ = ("_ended", "_planned_ns", "flight_ns", "watcher")

    def __init__(self, rank: Ahead) -> None:
        super().__init__(rank)
        self._ended = 0
        self.flight_ns: int | None = None  # between two decisions: the end of the pass that begins
        self._planned_ns = 0  # when the last plan was made
        self.watcher: Watcher | None = None

    @property
    def has_work(self) -> bool:
        """Whether a pass can start, or is yet to end."""
        return self.flight_ns is not None or self._rank.is_left or self._rank.has_work

    def advance(self, now_ns: int, until_ns: int) -> int:
        """Decide, from `now_ns` on, all that is to be decided before `until_ns`; return the next instant."""
        while now_ns < until_ns and self.start(now_ns):
            self.cut(until_ns)
            self.finish()
            now_ns = self.end_ns
        return now_ns

    def start(self, now_ns: int) -> bool:
        """Begin what was planned and plan what follows; an idle worker plans first.

        Return whether there was work.
        """
        end_ns, self.flight_ns = self.flight_ns, None
        if end_ns is None:
            self._ended = 0
            if not self._plan(now_ns, now_ns):
                return False
            end_ns = self._book_next()
        self._plan(now_ns, end_ns)
        self.busy = True
        self._ended = 0 if self._rank.is_left or not self._passes else self._passes - 1
        self.end_ns = self._start_ns
        self.exact = True
        if ended := self._ended:
            rank = self._rank
            self.exact = ended <= FEW_PASSES
            price = self._timer.run_ns if self.exact else self._timer.run_floor_ns
            self.end_ns += price(rank.run_batch, rank.run_context, ended)
        return True

    def _plan(self, now_ns: int, start_ns: int) -> int:
        """Plan, at `now_ns`, what begins at `start_ns`; return how many passes that is."""
        self.plans += 1
        self._planned_ns, self._start_ns = now_ns, start_ns
        watcher = self.watcher
        if watcher is not None:
            watcher.mark()
        self._passes = self._rank.plan_ahead(now_ns, start_ns)
        if watcher is not None:
            watcher.planned(now_ns)
        return self._passes

    def settle(self) -> None:
        """Price exactly how long there is nothing to decide."""
        rank = self._rank
        run_ns = self._timer.run_ns(rank.run_batch, rank.run_context, self._ended)
        self.end_ns = self._start_ns + run_ns
        self.exact = True

    def cut(self, at_ns: int) -> None:
        """Decide again at the first end of a pass at or after `at_ns`; what has begun by then goes on."""
        if not self._ended:
            return
        self.exact = True
        elapsed_ns = at_ns - self._start_ns
        if elapsed_ns <= 0:
            self._ended, self.end_ns = 0, self._start_ns
            return
        rank = self._rank
        self._ended, total_ns = self._timer.passes_until(
            rank.run_batch, rank.run_context, self._ended, elapsed_ns
        )
        self.end_ns = self._start_ns + total_ns

    def finish(self) -> list[Sequence]:
        """End what ends at `end_ns`; return the sequences that became terminal, in order."""
        self.busy = False
        terminal = self._depart()
        if self._passes:
            self.flight_ns = self._book_next()
        return terminal

    def _depart(self) -> list[Sequence]:
        """Let those go who end with the pass in flight; return them in order."""
        return self._rank.depart(self.end_ns) if self._rank.is_left else []

    def last_boundary_ns(self, limit_ns: int) -> int:
        """Return the last end of a pass at or before `limit_ns`."""
        rank, start_ns = self._rank, self._start_ns
        if limit_ns < start_ns:
            return self._planned_ns
        if not self._ended:
            return start_ns
        run = rank.run_batch, rank.run_context
        passes, total_ns = self._timer.passes_until(*run, self._ended, limit_ns - start_ns + 1)
        if start_ns + total_ns > limit_ns:
            total_ns = self._timer.run_ns(*run, passes - 1) if passes > 1 else 0
        return start_ns + total_ns


class AheadRankWorker(AheadWorker[LookAhead]):
    """A worker of one rank that schedules like vLLM."""

    __slots__ = ()

    def _begin(self) -> int:
        """Book the planned passes up to the one that begins now; return its end."""
        rank, timer, log = self._rank, self._timer, self.gap_log
        passes, done = self._ended + 1, rank.decoders.passes
        if batch := rank.run_batch:
            context = rank.run_context
            log.runs += (batch, context, passes, batch, done)
            begin_ns = self.end_ns if self._ended else self._start_ns
            end_ns = begin_ns + timer.decode_ns(batch, context + self._ended * batch)
            first_end_ns = end_ns
            if self._ended and rank.fresh:
                first_end_ns = self._start_ns + timer.decode_ns(batch, context)
        else:
            if weight := rank.gap_weight:
                log.passes += (rank.pass_ns, weight, done)
            first_end_ns = end_ns = self._start_ns + rank.pass_ns
        rank.commit(passes, first_end_ns, end_ns)
        return end_ns
