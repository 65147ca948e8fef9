"""What serving workers of a single rank have in common: passes in flight, which an arrival can cut short.

A planned run has a cheap lower bound of its end until someone needs the exact one: in closed loop half of the
runs are cut by an arrival and need never be priced to their end (spec 09 section 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from aisimulate.engine.gap_log import Absences, GapLog

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.decode_set import DecodeSet
    from aisimulate.engine.sequence import Sequence

FEW_PASSES = 16
"""Runs up to this long are priced at once: that costs hardly more than a lower bound."""


class PlanningRank(Protocol):
    """What a worker needs of the scheduler of a rank; `scheduler.RankScheduler` tells the meaning."""

    run_batch: int
    run_context: int
    pass_ns: int
    eventful: bool
    singles: list[tuple[int, Sequence]]

    @property
    def timer(self) -> PassTimer: ...  # noqa: D102
    @property
    def decoders(self) -> DecodeSet: ...  # noqa: D102
    @property
    def has_work(self) -> bool: ...  # noqa: D102
    def submit(self, sequence: Sequence) -> None: ...  # noqa: D102
    def plan(self, now_ns: int) -> int: ...  # noqa: D102
    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]: ...  # noqa: D102
    def first_run_ns(self) -> int: ...  # noqa: D102
    def run_durations_ns(self, first: int, passes: int) -> list[int]: ...  # noqa: D102
    def run_floor_ns(self, passes: int) -> int: ...  # noqa: D102
    def lost_spans(self) -> list[tuple[int, int]]: ...  # noqa: D102


class PricedRun:
    """The part of a rank that prices the planned run."""

    __slots__ = ()

    timer: PassTimer
    run_batch: int
    run_context: int

    def first_run_ns(self) -> int:
        """Duration of the first pass of the planned run."""
        return self.timer.decode_ns(self.run_batch, self.run_context)

    def run_durations_ns(self, first: int, passes: int) -> list[int]:
        """List the durations of `passes` passes of the planned run, from number `first` on."""
        batch = self.run_batch
        return self.timer.durations_ns(batch, self.run_context + first * batch, passes)

    def run_floor_ns(self, passes: int) -> int:
        """Give a cheap lower bound of the duration of the first passes of the planned run."""
        return self.timer.run_floor_ns(self.run_batch, self.run_context, passes)


Rank = TypeVar("Rank", bound=PlanningRank)


class RunWorker(Generic[Rank]):
    """A worker of one rank.

    While `busy`, `end_ns` is the end of the passes in flight if `exact`, else a lower bound of it.
    """

    __slots__ = (
        "_passes",
        "_rank",
        "_start_ns",
        "_timer",
        "busy",
        "end_ns",
        "exact",
        "gap_log",
        "plans",
        "submit",
    )

    def __init__(self, rank: Rank) -> None:
        timer = rank.timer
        self._rank = rank
        self.submit = rank.submit  # queue a sequence placed on this worker
        self._timer = timer
        self.gap_log = GapLog(timer)
        self.busy = False
        self.exact = True
        self.end_ns = 0
        self.plans = 0  # passes or runs planned so far
        self._start_ns = 0
        self._passes = 0

    @property
    def ranks(self) -> list[Rank]:
        """The schedulers of this worker, by rank."""
        return [self._rank]

    @property
    def has_work(self) -> bool:
        """Whether a pass can start."""
        return self._rank.has_work

    @property
    def passes(self) -> int:
        """Passes simulated so far."""
        return self._rank.decoders.passes

    def settle(self) -> None:
        """Price the passes in flight exactly."""
        rank = self._rank
        self.end_ns = self._start_ns + self._timer.run_ns(rank.run_batch, rank.run_context, self._passes)
        self.exact = True

    def cut(self, at_ns: int) -> None:
        """End the run in flight at its first pass boundary at or after `at_ns`; a pass is never shortened."""
        rank = self._rank
        if not rank.run_batch:
            return
        elapsed = at_ns - self._start_ns
        self._passes, total = self._timer.passes_until(
            rank.run_batch, rank.run_context, self._passes, elapsed
        )
        self.end_ns = self._start_ns + total
        self.exact = True

    def pack_log(self) -> None:
        """Let what was logged so far take less memory."""
        self.gap_log.pack()

    def close(self) -> GapLog:
        """Return the finished gap log, without the gaps of sequences that did not complete."""
        rank = self._rank
        self.gap_log.pack()
        if spans := rank.lost_spans():
            self.gap_log.leave_out(Absences(spans))
        self.gap_log.singles = rank.singles
        return self.gap_log

    def last_boundary_ns(self, limit_ns: int) -> int:
        """Return the last pass boundary at or before `limit_ns` of the passes in flight."""
        rank = self._rank
        if not rank.run_batch:
            return self._start_ns
        args = (rank.run_batch, rank.run_context)
        passes, total = self._timer.passes_until(*args, self._passes, limit_ns - self._start_ns + 1)
        if self._start_ns + total > limit_ns:
            total = self._timer.run_ns(*args, passes - 1) if passes > 1 else 0
        return self._start_ns + total
