"""One serving worker with attention data parallelism: ranks that start every pass together.

Each rank has its own queue and pool; a pass of the group lasts as long as its slowest rank, and idle ranks
wait for it (spec 01 section 2.5). A run of the group lasts while every busy rank would only decode.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Generic

from aisimulate.engine.gap_log import Absences, GapLog
from aisimulate.engine.run_worker import Rank
from aisimulate.engine.scheduler import RankScheduler

if TYPE_CHECKING:
    from collections.abc import Collection

    from aisimulate.engine.sequence import Sequence

_CHUNK_PASSES = 64


class PassGroup(ABC, Generic[Rank]):
    """What workers of several ranks have in common; the same surface as `RunWorker`.

    `plans` counts group passes or runs, `passes` the passes of the group.
    """

    __slots__ = (
        "_active",
        "_durations",
        "_passes",
        "_start_ns",
        "_totals",
        "busy",
        "end_ns",
        "exact",
        "gap_log",
        "plans",
        "ranks",
    )

    def __init__(self, ranks: list[Rank]) -> None:
        self.ranks = ranks
        self.gap_log = GapLog(ranks[0].timer)
        self.busy = False
        self.exact = True
        self.end_ns = 0
        self.plans = 0
        self._start_ns = 0
        self._passes = 0
        self._active: list[Rank] = []
        self._durations: list[int] = []  # of the passes in flight that were priced so far
        self._totals: list[int] = []  # running sums of the same

    @property
    def has_work(self) -> bool:
        """Whether a pass can start."""
        return any(rank.has_work for rank in self.ranks)

    @property
    def passes(self) -> int:
        """Passes simulated so far."""
        return self.ranks[0].decoders.passes

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence placed on one rank of this worker."""
        self.ranks[sequence.rank].submit(sequence)

    def advance(self, now_ns: int, until_ns: int) -> int:
        """Run all passes that start before `until_ns`, the first at `now_ns`; return when the last ends."""
        while now_ns < until_ns and self.start(now_ns):
            self.cut(until_ns)
            self.finish()
            now_ns = self.end_ns
        return now_ns

    def start(self, now_ns: int) -> bool:
        """Begin a group pass, or a run of them, at `now_ns`; return whether there was work for one."""
        active = self._active = [rank for rank in self.ranks if rank.has_work]
        if not active:
            return False
        self.plans += 1
        self.busy = True
        self._start_ns = now_ns
        self._passes = self._limit(min([rank.plan(now_ns) for rank in active]))
        slowest_ns, decodes = 0, True
        for rank in active:
            if rank.run_batch:
                duration_ns = rank.first_run_ns()
            else:
                decodes, duration_ns = False, rank.pass_ns
            if duration_ns > slowest_ns:
                slowest_ns = duration_ns
        if not decodes:
            self._passes = 1
            self.busy = any(rank.run_batch or rank.eventful for rank in active)
        self._durations, self._totals = [slowest_ns], [slowest_ns]
        self.exact = self._passes == 1
        self.end_ns = now_ns + (slowest_ns if self.exact else self._floor_ns())
        return self.busy

    def _limit(self, passes: int) -> int:
        """Cut a run where something else than its own members ends it."""
        return passes

    def _floor_ns(self) -> int:
        """Give a cheap lower bound of the run in flight."""
        return max(rank.run_floor_ns(self._passes) for rank in self._active)

    def _price_more(self) -> None:
        """Price the next chunk of the run in flight."""
        done = len(self._durations)
        count = min(_CHUNK_PASSES, self._passes - done)
        columns = [rank.run_durations_ns(done, count) for rank in self._active]
        slowest = columns[0] if len(columns) == 1 else list(map(max, *columns))
        self._durations += slowest
        totals = accumulate(slowest, initial=self._totals[-1])
        next(totals)
        self._totals += totals

    def settle(self) -> None:
        """Price the passes in flight exactly."""
        while len(self._durations) < self._passes:
            self._price_more()
        self.end_ns = self._start_ns + self._totals[self._passes - 1]
        self.exact = True

    def cut(self, at_ns: int) -> None:
        """End the run in flight at its first pass boundary at or after `at_ns`; a pass is never shortened."""
        if self._passes == 1:
            return
        elapsed = at_ns - self._start_ns
        while len(self._durations) < self._passes and self._totals[-1] < elapsed:
            self._price_more()
        self._passes = min(self._passes, bisect_left(self._totals, elapsed) + 1)
        self.end_ns = self._start_ns + self._totals[self._passes - 1]
        self.exact = True

    @abstractmethod
    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""

    def pack_log(self) -> None:
        """Let what was logged so far take less memory."""
        self.gap_log.pack()

    def last_boundary_ns(self, limit_ns: int) -> int:
        """Return the last pass boundary at or before `limit_ns` of the passes in flight."""
        elapsed = limit_ns - self._start_ns
        while len(self._durations) < self._passes and self._totals[-1] <= elapsed:
            self._price_more()
        done = [total for total in self._totals[: self._passes] if total <= elapsed]
        return self._start_ns + (done[-1] if done else 0)


class GroupWorker(PassGroup[RankScheduler]):
    """A worker of several ranks that schedule like vLLM."""

    __slots__ = ()

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        self._log_gaps()
        first_end_ns = self._start_ns + self._durations[0]
        terminal: list[Sequence] = []
        active = set(map(id, self._active))
        for rank in self.ranks:
            if id(rank) in active:
                terminal += rank.commit(self._passes, first_end_ns, self.end_ns)
            else:
                rank.decoders.advance(self._passes)
        self.busy = False
        return terminal

    def _log_gaps(self) -> None:
        weight = sum(rank.gap_weight for rank in self._active)
        if weight:
            durations_ns = array("q", self._durations[: self._passes])
            self.gap_log.series.append((durations_ns, weight, self.passes))

    def close(self) -> GapLog:
        """Return the finished gap log, without the gaps of sequences that did not complete."""
        close_group_log(self.gap_log, self.ranks)
        return self.gap_log


def close_group_log(log: GapLog, ranks: Collection[RankScheduler]) -> None:
    """Complete the gap log of ranks, and leave out what belongs to sequences that did not complete."""
    if zeros := sum(rank.zero_gaps for rank in ranks):
        log.passes += (0, zeros, 0)  # in pass 0 nobody can be absent
    log.pack()
    spans = [span for rank in ranks for span in rank.lost_spans()]
    if spans:
        log.leave_out(Absences(spans))
    log.singles = [gap for rank in ranks for gap in rank.singles]
