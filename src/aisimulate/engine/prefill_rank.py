"""A rank of a prefill worker: it keeps the blocks of a computed prompt until they were handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.scheduler import RankScheduler
from aisimulate.engine.sequence import REJECTED

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence


class PrefillRank(RankScheduler):
    """Computes prompts. A sequence that got its hidden token leaves its slot, but not its blocks.

    `commit()` returns such sequences with no status; `release()` gives the blocks back (spec 01 section 6).
    """

    # No slots of its own, so that it can be combined with another scheduler.

    def plan(self, now_ns: int) -> int:
        """Begin a pass: what `RankScheduler.plan` comes to where nothing ever decodes."""
        if self.eventful:
            self.eventful = False
            if self.unusual:
                self._clear_unusual()
        self.budget = self.pass_tokens
        if self.partial is not None:
            self._continue_partial(self.partial)
        if self.waiting and not self.preempted:
            self.admit(self, now_ns)
        self.pass_ns = 0
        if count := self._chunk_count:
            self.pass_ns = self.timer.prefill_ns(
                count, self._chunk_ends // count, self._chunk_starts // count
            )
            self._chunk_count = self._chunk_ends = self._chunk_starts = 0
        self._joining_batch = self._joining_context = 0
        return 1

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the planned pass; return what was rejected, then the sequences whose prefill ended."""
        del first_end_ns
        self.decoders.passes += passes
        terminal: list[Sequence] = []
        if self.unusual:
            terminal = self.rejected
            for sequence in terminal:
                sequence.status = REJECTED
            if self.done:
                self.complete(self.done, 0, end_ns, terminal)
        if finished := self.joining:
            self.joining = []
            self.complete(finished, 1, end_ns, terminal)
        return terminal

    def complete(
        self, sequences: list[Sequence], uncomputed: int, end_ns: int, terminal: list[Sequence]
    ) -> None:
        """End the prefill of sequences; their blocks stay held."""
        del uncomputed, end_ns
        self.held += len(sequences)
        terminal += sequences

    def release(self, sequence: Sequence) -> None:
        """Give back the blocks of a sequence whose prefill ended."""
        self.held -= 1
        self.pool.release(sequence, sequence.input_tokens, self.params.enable_prefix_caching)
