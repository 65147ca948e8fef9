"""What the views of all schedulers have in common: the rank with its queue, and its run in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aisimulate.engine.pass_view import Gauges
    from aisimulate.engine.sequence import Sequence


class SchedulerView:
    """Part of `RankView`."""

    __slots__ = ("_index", "_preempted", "_rank")

    _rank: Any

    def __init__(self, rank: object, index: int) -> None:
        self._rank = rank
        self._index = index
        self._preempted: dict[Sequence, int] = {}  # admissions of a sequence when it was preempted last

    @property
    def has_work(self) -> bool:
        """Whether it takes part in the next pass."""
        return bool(self._rank.has_work)

    @property
    def run_batch(self) -> int:
        """Decoders of the run in flight; 0 when a single pass is in flight."""
        return int(self._rank.run_batch)

    @property
    def waiting_lengths(self) -> list[int]:
        """Tokens of the sequences in the queue."""
        return [sequence.tokens for sequence in self._rank.waiting]

    @property
    def free_blocks(self) -> int:
        """Blocks that hold nothing, by the rank's own counter."""
        return int(self._rank.pool.free)

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank as it is; in a run, as it will be when its first passes took their blocks."""
        raise NotImplementedError

    def gauges_in_pass(self, passes: int) -> Gauges:
        """Read the rank inside of a pass in flight, as if nobody ended with it."""
        return self.gauges(passes if self.run_batch else 0)

    def tier_problem(self) -> str | None:
        """Tell what does not add up in the memory behind the GPU: there is none."""
        return None
