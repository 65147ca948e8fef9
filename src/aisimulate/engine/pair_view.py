"""Ranks of prefill and decode workers for those who watch them.

While prompts are handed over, blocks are held for requests that do not run, and only the event loop knows for
which. Then what is held is taken from the counters; what is cached is counted as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.engine.sglang_scheduler import SglangScheduler
from aisimulate.engine.sglang_view import SglangRankView
from aisimulate.engine.speculative import SpeculativeScheduler
from aisimulate.engine.speculative_view import SpeculativeRankView
from aisimulate.engine.vllm_view import Admissions, VllmRankView

if TYPE_CHECKING:
    from aisimulate.engine.pass_view import BlockAudit, Gauges, RankPass
    from aisimulate.engine.rank_view import RankView


def pair_view(rank: Any, index: int) -> RankView:  # noqa: ANN401 - of three kinds of schedulers
    """Make the view of a rank of a pool."""
    if isinstance(rank, SglangScheduler):
        return _SglangPairView(rank, index)
    return _DraftPairView(rank, index) if isinstance(rank, SpeculativeScheduler) else _PairView(rank, index)


def hands_over(rank: Any) -> bool:  # noqa: ANN401
    """Whether a rank belongs to a pool of a pair."""
    return hasattr(rank, "pending") or hasattr(rank, "release")


class _Handing:
    """What differs between a rank of a pool and one that serves whole requests."""

    __slots__ = ()

    _rank: Any

    @property
    def _is_handing(self) -> bool:
        rank = self._rank
        arrived = getattr(rank, "arrived", ()) or (
            hasattr(rank, "pending") and any(sequence.computed for sequence in rank.waiting)
        )
        return bool(rank.held or arrived)

    @property
    def kept_blocks(self) -> int:
        """Most blocks that are held for requests that do not run yet."""
        rank = self._rank
        return int(rank.params.num_gpu_blocks) if self._is_handing else int(super().kept_blocks)  # type: ignore[misc]

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank; prompts that wait for blocks or a slot here are waiting requests."""
        gauges: Gauges = super().gauges(run_passes)  # type: ignore[misc]
        rank = self._rank
        others = len(getattr(rank, "pending", ())) + len(getattr(rank, "arrived", ()))
        return gauges._replace(waiting_requests=gauges.waiting_requests + others)

    def audit(self) -> BlockAudit:
        """Count the blocks; those of prompts that are handed over by the counters."""
        audit: BlockAudit = super().audit()  # type: ignore[misc]
        if not self._is_handing:
            return audit
        pool, total = self._rank.pool, self._rank.params.num_gpu_blocks
        return audit._replace(held=total - pool.free - pool.inactive)


class _PairView(_Handing, VllmRankView):
    __slots__ = ("_admitted",)

    def __init__(self, rank: Any, index: int) -> None:  # noqa: ANN401
        super().__init__(rank, index)
        self._admitted = Admissions()

    def gauges_in_pass(self, passes: int) -> Gauges:
        """Read the rank inside of a pass in flight; a prompt that it completes keeps its blocks."""
        rank = self._rank
        if hasattr(rank, "pending"):
            return super().gauges_in_pass(passes)
        gauges = self.gauges()
        return gauges._replace(running_requests=int(rank.partial is not None))

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`; who came with its prompt was admitted too."""
        work = super().read(now_ns)
        rank = self._rank
        if not rank.run_batch:
            entered = [*self._computing(), *rank.waiting]
            work.admitted = work.dequeued = [s for s in entered if self._admitted.is_new(s, now_ns)]
            work.cached = [s for s in work.cached if s not in rank.done]  # they end without a forward
        return work


class _DraftPairView(_Handing, SpeculativeRankView):
    __slots__ = ()

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`; a prefill worker verifies nothing."""
        work = super().read(now_ns)
        if not hasattr(self._rank, "pending"):
            work.verified, self._counted = 0, []
        return work


class _SglangPairView(_Handing, SglangRankView):
    __slots__ = ("_admitted",)

    def __init__(self, rank: Any, index: int) -> None:  # noqa: ANN401
        super().__init__(rank, index)
        self._admitted = Admissions()

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`; who has its prompt decodes at once."""
        work = super().read(now_ns)
        rank = self._rank
        entered = [*rank.selected, *rank.recent, *getattr(rank, "_done", ()), *rank.waiting, *rank.rejected]
        work.admitted = [s for s in entered if self._admitted.is_new(s, now_ns)]
        return work
