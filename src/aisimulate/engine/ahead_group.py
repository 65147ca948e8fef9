"""Workers of several ranks that plan each pass while the one before it runs (docs/look-ahead.md).

Ranks are in lock step: the pass in flight ends for all of them when its slowest rank is done, and then they
all plan. A rank that finds nothing to do waits for the others.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, TypeAlias

from aisimulate.engine.ahead_drafts import AheadDrafts
from aisimulate.engine.ahead_worker import Ahead, Booking, Watcher
from aisimulate.engine.gap_log import GapLog
from aisimulate.engine.group import PassGroup, close_group_log
from aisimulate.engine.look_ahead import LookAhead
from aisimulate.engine.sglang_ahead import AheadSglangScheduler
from aisimulate.engine.sglang_worker import close_logs

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence


VllmAhead: TypeAlias = LookAhead | AheadDrafts


class AheadGroup(Booking, PassGroup[Ahead]):
    """A `PassGroup` that looks one pass ahead; `AheadWorker` tells the meaning of what it keeps."""

    __slots__ = ("_ended", "_planned_ns", "flight_ns", "watcher")

    def __init__(self, ranks: list[Ahead]) -> None:
        super().__init__(ranks)
        self._ended = 0
        self.flight_ns: int | None = None
        self._planned_ns = 0
        self.watcher: Watcher | None = None

    @property
    def has_work(self) -> bool:
        """Whether a pass can start, or is yet to end."""
        return self.flight_ns is not None or any(rank.is_left or rank.has_work for rank in self.ranks)

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
        is_left = any(rank.is_left for rank in self.ranks)
        self._ended = 0 if is_left or not self._passes else self._passes - 1
        self.exact = self._ended <= 1
        if self.exact:
            self.settle()
        else:
            floors_ns = [rank.run_floor_ns(self._ended) for rank in self._active]
            self.end_ns = self._start_ns + max(floors_ns)
        return True

    def _plan(self, now_ns: int, start_ns: int) -> int:
        """Plan, at `now_ns`, what begins at `start_ns`; return how many passes that is."""
        watcher = self.watcher
        if watcher is None:
            return self._plan_ranks(now_ns, start_ns)
        watcher.mark()
        passes = self._plan_ranks(now_ns, start_ns)
        watcher.planned(now_ns)
        return passes

    def _plan_ranks(self, now_ns: int, start_ns: int) -> int:
        self.plans += 1
        self._planned_ns, self._start_ns = now_ns, start_ns
        planned = [(rank, rank.plan_ahead(now_ns, start_ns)) for rank in self.ranks]
        self._active = [rank for rank, passes in planned if passes]
        if not self._active:
            self._passes = 0
            return 0
        is_run = all(rank.run_batch for rank in self._active)
        self._passes = min(passes for _, passes in planned if passes) if is_run else 1
        first_ns = [rank.first_run_ns() if rank.run_batch else rank.pass_ns for rank in self._active]
        self._durations = [max(first_ns)]
        self._totals = self._durations[:]
        return self._passes

    def _begin(self) -> int:
        """Book the planned passes up to the one that begins now; return its end."""
        passes = self._ended + 1
        while len(self._durations) < passes:
            self._price_more()
        end_ns = self._start_ns + self._totals[passes - 1]
        self._log(passes)
        self._book(passes, self._start_ns + self._durations[0], end_ns)
        return end_ns

    @abstractmethod
    def _log(self, passes: int) -> None:
        """Log the gaps of the planned passes, or the first so many of them."""

    def _book(self, passes: int, first_end_ns: int, end_ns: int) -> None:
        """Book them: the first ends at `first_end_ns`, the last at `end_ns`."""
        for rank in self._active:
            rank.commit(passes, first_end_ns, end_ns)

    def settle(self) -> None:
        """Price exactly how long there is nothing to decide."""
        ended = self._ended
        while len(self._durations) < ended:
            self._price_more()
        self.end_ns = self._start_ns + (self._totals[ended - 1] if ended else 0)
        self.exact = True

    def cut(self, at_ns: int) -> None:
        """Decide again at the first end of a pass at or after `at_ns`; what has begun by then goes on."""
        elapsed_ns = at_ns - self._start_ns
        if elapsed_ns <= 0:
            self._ended = 0
        elif self._ended:
            while len(self._durations) < self._ended and self._totals[-1] < elapsed_ns:
                self._price_more()
            self._ended = min(self._ended, bisect_left(self._totals, elapsed_ns) + 1)
        self.settle()

    def finish(self) -> list[Sequence]:
        """End what ends at `end_ns`; return the sequences that became terminal, in order."""
        self.busy = False
        terminal = self._depart()
        if self._passes:
            self.flight_ns = self._book_next()
        return terminal

    def _depart(self) -> list[Sequence]:
        """Let those go who end with the pass in flight; return them in order."""
        terminal: list[Sequence] = []
        for rank in self.ranks:
            if rank.is_left:
                terminal += rank.depart(self.end_ns)
        return terminal

    def last_boundary_ns(self, limit_ns: int) -> int:
        """Return the last end of a pass at or before `limit_ns`."""
        elapsed_ns = limit_ns - self._start_ns
        if elapsed_ns < 0:
            return self._planned_ns
        while len(self._durations) < self._ended and self._totals[-1] <= elapsed_ns:
            self._price_more()
        ends_ns = self._totals[: self._ended]
        return self._start_ns + max((end_ns for end_ns in ends_ns if end_ns <= elapsed_ns), default=0)


class AheadRankGroup(AheadGroup[VllmAhead]):
    """A worker of several ranks that schedule like vLLM; all of them count all passes."""

    __slots__ = ()

    def _log(self, passes: int) -> None:
        if weight := sum(rank.gap_weight for rank in self._active):
            self.gap_log.series.append((array("q", self._durations[:passes]), weight, self.passes))

    def _book(self, passes: int, first_end_ns: int, end_ns: int) -> None:
        active = set(map(id, self._active))
        for rank in self.ranks:
            if id(rank) not in active:
                rank.decoders.advance(passes)
        super()._book(passes, first_end_ns, end_ns)

    def close(self) -> GapLog:
        """Return the finished gap log, without the gaps of sequences that did not complete."""
        close_group_log(self.gap_log, self.ranks)
        return self.gap_log


class AheadSglangGroup(AheadGroup[AheadSglangScheduler]):
    """A worker of several SGLang ranks, each of which counts the passes in which it decodes."""

    __slots__ = ("_logs", "_pass_count")

    def __init__(self, ranks: list[AheadSglangScheduler]) -> None:
        super().__init__(ranks)
        self._logs = [GapLog(rank.timer) for rank in ranks]
        self._pass_count = 0

    @property
    def passes(self) -> int:
        """Passes simulated so far."""
        return self._pass_count

    def _log(self, passes: int) -> None:
        self._pass_count += passes
        for rank, log in zip(self.ranks, self._logs, strict=True):
            if rank.run_batch and rank in self._active:
                first = int(rank.lagging)
                durations_ns = array("q", self._durations[first:passes])
                if durations_ns:
                    log.series.append((durations_ns, rank.run_batch, rank.decoders.passes + first))

    def close(self) -> GapLog:
        """Return the finished gap log, without the gaps of sequences that did not complete."""
        close_logs(self.gap_log, self.ranks, self._logs)
        return self.gap_log
