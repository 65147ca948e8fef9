"""SGLang with speculative decoding, one pass ahead (docs/look-ahead.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.sglang_ahead import AheadSglangScheduler
from aisimulate.engine.sglang_speculative import SpeculativeSglangScheduler
from aisimulate.engine.speculation import Acceptance

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import SglangParams
    from aisimulate.engine.sequence import Sequence


class AheadSglangDrafts(AheadSglangScheduler, SpeculativeSglangScheduler):
    """A rank with drafts; how many the pass in flight accepts is known to the plan."""

    def __init__(self, params: SglangParams, timer: PassTimer, acceptance: Acceptance) -> None:
        SpeculativeSglangScheduler.__init__(self, params, timer, acceptance)
        self.leaving: list[tuple[Sequence, int, int]] = []
        self.turned_away: list[Sequence] = []
        self.before: dict[Sequence, int] = {}  # tokens of the decoders before the last decode pass

    def decode(self, passes: int, opened: int, end_ns: int) -> list[Sequence]:
        """Let all decoders get a burst at `end_ns`; `opened` pages were set aside."""
        self.before = {sequence: sequence.tokens for sequence in self.decoders.members}
        return super().decode(passes, opened, end_ns)

    def _finish(self, sequence: Sequence, end_ns: int) -> None:
        """Let a decoder that gets its last token wait for the end of the pass in flight."""
        self.decoders.remove(sequence)
        self.planned -= sequence.planned
        self.recent.pop(sequence, None)
        sequence.last_token_ns = end_ns
        self.leaving.append((sequence, *self.pool.settle(sequence, sequence.tokens)))

    def depart(self, end_ns: int) -> list[Sequence]:
        """End, at the end of the pass in flight, those who end with it; return them in order."""
        for sequence, _, _ in self.leaving:
            self._streams.pop(sequence, None)
            self.zero_gaps += sequence.emitted_tokens - sequence.forwards
        return super().depart(end_ns)


def make_ahead_sglang_rank(params: SglangParams, timer: PassTimer, number: int) -> AheadSglangScheduler:
    """Make the scheduler of a rank that plans one pass ahead; `number` counts the ranks of all workers."""
    if not params.nextn:
        return AheadSglangScheduler(params, timer)
    seed = params.acceptance_seed + number
    return AheadSglangDrafts(params, timer, Acceptance(params.nextn, params.accept_rates, seed))
