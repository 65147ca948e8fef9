"""Ranks of prefill and decode workers for those who watch them.

While prompts are handed over, blocks are held for requests that do not run, and only the event loop knows for
which. Then what is held is taken from the counters; what is cached is counted as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.engine.destinations import Destinations
from aisimulate.engine.offload_scheduler import Offloading
from aisimulate.engine.offload_view import OffloadView
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
    if isinstance(rank, Offloading):
        return _OffloadPairView(rank, index)
    return _DraftPairView(rank, index) if isinstance(rank, SpeculativeScheduler) else _PairView(rank, index)


def hands_over(rank: Any) -> bool:  # noqa: ANN401
    """Whether a rank belongs to a pool of a pair."""
    return isinstance(rank, Destinations) or hasattr(rank, "release")


class _Handing:
    """What differs between a rank of a pool and one that serves whole requests."""

    __slots__ = ()

    _rank: Any

    @property
    def _is_handing(self) -> bool:
        rank = self._rank
        if rank.held or not isinstance(rank, Destinations):
            return bool(rank.held)
        return bool(rank.arrived) or any(sequence.computed for sequence in self._rank.waiting)

    @property
    def waiting_lengths(self) -> list[int]:
        """Tokens of the sequences in the queue, and of the prompts that are expected here.

        In a pool of vLLM, who was preempted counts with the prompt alone.
        """
        rank = self._rank
        lengths: list[int] = super().waiting_lengths  # type: ignore[misc]
        if isinstance(rank, Destinations):
            if not isinstance(rank, SglangScheduler):
                lengths = [sequence.input_tokens for sequence in self._rank.waiting]
            lengths += [sequence.tokens for sequence in rank.arrived]
            lengths += [handoff.request.tokens for handoff in (*rank.pending, *rank.coming)]
        return lengths

    @property
    def kept_blocks(self) -> int:
        """Most blocks that are held for requests that do not run yet."""
        rank = self._rank
        return int(rank.params.num_gpu_blocks) if self._is_handing else int(super().kept_blocks)  # type: ignore[misc]

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank; prompts that wait for blocks or a slot here are waiting requests."""
        gauges: Gauges = super().gauges(run_passes)  # type: ignore[misc]
        if not isinstance(rank := self._rank, Destinations):
            return gauges
        others = len(rank.pending) + len(rank.arrived)
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
        if isinstance(rank, Destinations):
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


class _OffloadPairView(_PairView, OffloadView):
    __slots__ = ()


class _DraftPairView(_Handing, SpeculativeRankView):
    __slots__ = ()

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`; a prefill worker verifies nothing."""
        work = super().read(now_ns)
        if not isinstance(self._rank, Destinations):
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
