"""Scheduling look-ahead: what becomes of a pass is booked when it begins, and the next one is planned then.

vLLM's asynchronous scheduling and TensorRT-LLM's overlap scheduler decide about pass k + 2 when pass k ends,
while pass k + 1 runs (spec 07 section 2). How long a pass lasts and what it brings is known when it begins,
so a rank books its outcome, with the instant at which that becomes visible, before it plans the pass after
it. Only who ends with the pass in flight stays until it did: with its seat and with its blocks.
docs/look-ahead.md has the rules.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aisimulate.engine.fused import FusedScheduler
from aisimulate.engine.no_evict import NoEvictScheduler
from aisimulate.engine.scheduler import RankScheduler
from aisimulate.engine.sequence import REJECTED

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams
    from aisimulate.engine.sequence import Sequence


class LookAhead(RankScheduler):
    """A rank whose passes are planned one pass before they begin.

    `commit()` books the outcome of the pass that begins, `plan_ahead()` plans the one after it, and
    `depart()` lets those go who end with the pass in flight. It has no slots, so that it can be put before
    any kind of rank.
    """

    def __init__(self, params: RankParams, timer: PassTimer) -> None:
        super().__init__(params, timer)
        # Who ends with the pass in flight, with the number of their tokens that have no KV; who is rejected.
        self.leaving: list[tuple[list[Sequence], int]] = []
        self.turned_away: list[Sequence] = []
        self._seats = {0: params}  # the settings, with so many seats less

    @property
    def is_left(self) -> bool:
        """Whether somebody ends with the pass in flight."""
        return bool(self.leaving or self.turned_away)

    @property
    def departing(self) -> list[Sequence]:
        """Those who get all they want in the pass in flight, in order."""
        return [sequence for sequences, _ in self.leaving for sequence in sequences]

    def plan_ahead(self, now_ns: int, start_ns: int) -> int:
        """Plan, at `now_ns`, the pass that begins at `start_ns`; return how many identical ones follow it.

        0 if there is nothing to do, or if all who could do something wait for those who leave.
        """
        if not self.has_work:
            self.run_batch = 0
            return 0
        entered = self.entered
        leaving = len(self.departing)
        self.held += leaving
        self.params = seats_without(self._seats, leaving)
        passes = self.plan(start_ns)
        self.params = self._seats[0]
        self.held -= leaving
        if self.entered > entered and now_ns < start_ns:
            self._stamp(entered, now_ns)
        if leaving and self.run_batch and not self._opening:
            # A plain run takes its blocks when it is booked, but those of its first pass are taken now: not
            # those that come free when somebody leaves before it begins.
            self._opening = self.decoders.opening()
            self.pool.take(self._opening)
        return passes if self.run_batch or self.eventful else 0

    def _stamp(self, entered: int, now_ns: int) -> None:
        """Note that those who were let in after the first `entered` were scheduled at `now_ns`."""
        admitted = [*self.joining, *self.done]
        if self.partial is not None:
            admitted.append(self.partial)
        if self.preempted:  # those let in may have given way again
            admitted += [sequence for sequence in self.waiting if sequence.admissions]
        for sequence in admitted:
            if sequence.order > entered:
                _, reused = sequence.admissions[-1]
                sequence.admissions = (*sequence.admissions[:-1], (now_ns, reused))

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """Book the planned pass, or the first `passes` of the planned run, which end at `end_ns`.

        Nobody is terminal before it has ended.
        """
        self.turned_away = super().commit(passes, first_end_ns, end_ns)[:]
        self.done = []
        for sequence in self.turned_away:
            sequence.status = sequence.terminal_ns = None
        return []

    def _decode_on(self, joining: list[Sequence], finished: list[Sequence]) -> list[Sequence]:
        """Tell apart which of those that emitted a token are `finished`; return the others."""
        staying = super()._decode_on(joining, finished)
        for sequence in joining:
            if sequence.tokens == sequence.end_tokens:
                sequence.joined = self.decoders.passes  # no gap of theirs is that of a pass
        return staying

    def complete(
        self, sequences: list[Sequence], uncomputed: int, end_ns: int, terminal: list[Sequence]
    ) -> None:
        """Let sequences that get their last token wait for the end of the pass in flight."""
        del end_ns, terminal
        for sequence in sequences:
            self.planned.pop(sequence, None)
        self.leaving.append((sequences, uncomputed))

    def depart(self, end_ns: int) -> list[Sequence]:
        """End, at the end of the pass in flight, those who end with it; return them in order."""
        terminal, self.turned_away = self.turned_away, []
        for sequence in terminal:
            sequence.status = REJECTED
            sequence.terminal_ns = end_ns
        leaving, self.leaving = self.leaving, []
        for sequences, uncomputed in leaving:
            super().complete(sequences, uncomputed, end_ns, terminal)
        return terminal

    def lost_spans(self) -> list[tuple[int, int]]:
        """List the pass intervals of decoders that did not complete, at the end of a replay."""
        passes = self.decoders.passes
        left = [
            (sequence.joined, passes)
            for sequences, uncomputed in self.leaving
            for sequence in sequences
            if uncomputed and sequence.joined < passes
        ]
        return super().lost_spans() + left


class AheadScheduler(LookAhead):
    """vLLM, one pass ahead."""


class FusedAheadScheduler(FusedScheduler, AheadScheduler):
    """vLLM, one pass ahead, whose mixed passes are one forward."""


class AheadNoEvictScheduler(LookAhead, NoEvictScheduler):
    """TensorRT-LLM, one pass ahead."""


class FusedAheadNoEvictScheduler(FusedScheduler, AheadNoEvictScheduler):
    """TensorRT-LLM, one pass ahead, whose mixed passes are one forward."""


def seats_without(seats: dict[int, RankParams], taken: int) -> RankParams:
    """Give the settings with the seats that those who leave do not have, of those known by how many leave."""
    if (found := seats.get(taken)) is None:
        params = seats[0]
        found = seats[taken] = replace(params, max_num_seqs=max(0, params.max_num_seqs - taken))
    return found


def make_ahead_rank(params: RankParams, timer: PassTimer) -> LookAhead:
    """Make the scheduler of a rank that plans one pass ahead."""
    if params.backend == "trtllm":
        return (FusedAheadNoEvictScheduler if params.fused else AheadNoEvictScheduler)(params, timer)
    return (FusedAheadScheduler if params.fused else AheadScheduler)(params, timer)
