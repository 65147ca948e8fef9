"""What a worker has in flight, for those who watch it.

These views know the workers from the inside, so that the workers themselves hold nothing that only watching
needs.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Protocol

from aisimulate.engine.ahead_group import AheadGroup
from aisimulate.engine.ahead_view import AheadFlight
from aisimulate.engine.ahead_worker import AheadWorker
from aisimulate.engine.group import PassGroup
from aisimulate.engine.offload_scheduler import Offloading
from aisimulate.engine.offload_view import OffloadView
from aisimulate.engine.pair_view import hands_over, pair_view
from aisimulate.engine.run_worker import RunWorker
from aisimulate.engine.scheduler import RankScheduler
from aisimulate.engine.sglang_scheduler import SglangScheduler
from aisimulate.engine.sglang_view import SglangRankView
from aisimulate.engine.speculative import SpeculativeScheduler
from aisimulate.engine.speculative_view import SpeculativeRankView
from aisimulate.engine.state_scheduler import StateScheduler
from aisimulate.engine.state_view import StateRankView
from aisimulate.engine.vllm_view import VllmRankView
from aisimulate.engine.worker import RankWorker

if TYPE_CHECKING:
    from aisimulate.engine.rank_view import RankView
    from aisimulate.engine.run_worker import PlanningRank


class InFlight(Protocol):
    """The ranks of a worker and the passes it has in flight, or the last ones once they ended."""

    ranks: list[RankView]

    @property
    def start_ns(self) -> int:
        """When the passes began."""
        ...

    @property
    def passes(self) -> int:
        """How many passes there are; fewer once an arrival cut them short."""
        ...

    def passes_by(self, limit_ns: int) -> tuple[int, int]:
        """Count the passes that end by `limit_ns`, which is before all of them do; give the last end."""
        ...

    def pass_ns(self, number: int) -> int:
        """Duration of one of the passes, counted from 1; of a group only once it was priced."""
        ...


def in_flight_of(worker: object) -> InFlight | None:
    """Make the view of a worker; None for a kind that nobody knows."""
    if not isinstance(worker, RunWorker | PassGroup):
        return None
    for rank in worker.ranks:
        if isinstance(rank, RankScheduler):
            rank.runs_on = False  # a preemption is told when its pass begins, and counted at its end
    if isinstance(worker, AheadWorker | AheadGroup):
        return AheadFlight(worker, [_view(rank, index) for index, rank in enumerate(worker.ranks)])
    if isinstance(worker, RankWorker):
        worker.plans_chunks = False  # each with what is to be seen in it
    return _OneRank(worker) if isinstance(worker, RunWorker) else _ManyRanks(worker)


def _view(rank: object, index: int) -> RankView:
    if hands_over(rank):
        return pair_view(rank, index)
    if isinstance(rank, SglangScheduler):
        return SglangRankView(rank, index)
    assert isinstance(rank, RankScheduler)
    if isinstance(rank, StateScheduler):
        return StateRankView(rank, index)
    if isinstance(rank, SpeculativeScheduler):
        return SpeculativeRankView(rank, index)
    return OffloadView(rank, index) if isinstance(rank, Offloading) else VllmRankView(rank, index)


class _OneRank:
    def __init__(self, worker: RunWorker[Any]) -> None:
        self._worker = worker
        self.ranks = [_view(worker.ranks[0], 0)]

    @property
    def start_ns(self) -> int:
        return self._worker._start_ns

    @property
    def passes(self) -> int:
        return self._worker._passes

    def passes_by(self, limit_ns: int) -> tuple[int, int]:
        rank, timer, start_ns = self._worker._rank, self._worker._timer, self.start_ns
        if not rank.run_batch:
            return 0, start_ns
        run = rank.run_batch, rank.run_context
        passes, total = timer.passes_until(*run, self.passes, limit_ns - start_ns + 1)
        if start_ns + total > limit_ns:
            passes -= 1
            total = timer.run_ns(*run, passes) if passes else 0
        return passes, start_ns + total

    def pass_ns(self, number: int) -> int:
        rank: PlanningRank = self._worker._rank
        if batch := rank.run_batch:
            return self._worker._timer.decode_ns(batch, rank.run_context + (number - 1) * batch)
        return rank.pass_ns


class _ManyRanks:
    def __init__(self, worker: PassGroup[Any]) -> None:
        self._worker = worker
        self.ranks = [_view(rank, index) for index, rank in enumerate(worker.ranks)]

    @property
    def start_ns(self) -> int:
        return self._worker._start_ns

    @property
    def passes(self) -> int:
        return self._worker._passes

    def passes_by(self, limit_ns: int) -> tuple[int, int]:
        elapsed = limit_ns - self.start_ns
        worker = self._worker
        while len(worker._durations) < worker._passes and worker._totals[-1] <= elapsed:
            worker._price_more()
        totals = worker._totals
        passes = bisect_right(totals, elapsed, 0, min(worker._passes, len(totals)))
        return passes, self.start_ns + (totals[passes - 1] if passes else 0)

    def pass_ns(self, number: int) -> int:
        duration_ns: int = self._worker._durations[number - 1]
        return duration_ns
