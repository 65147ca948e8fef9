"""What the views of all schedulers have in common: the rank with its queue, and its run in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    def extra_tokens(self) -> int:
        """Tokens of accepted drafts in the last pass: there are none."""
        return 0

    @property
    def burst_tokens(self) -> int:
        """The same of those that decoded before, whether they had room or not."""
        return self.extra_tokens

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

    def tier_problem(self) -> str | None:
        """Tell what does not add up in the memory behind the GPU: there is none."""
        return None
