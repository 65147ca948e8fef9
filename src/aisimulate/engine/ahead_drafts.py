"""Speculative decoding one pass ahead (docs/look-ahead.md).

How many drafts the pass in flight accepts is known to the plan made while it runs, as are all lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.look_ahead import seats_without
from aisimulate.engine.sequence import COMPLETED, REJECTED
from aisimulate.engine.speculation import Acceptance
from aisimulate.engine.speculative import SpeculativeScheduler

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams
    from aisimulate.engine.sequence import Sequence


class AheadDrafts(SpeculativeScheduler):
    """A rank with drafts that plans one pass ahead; `look_ahead.LookAhead` tells the meaning.

    Those without anything to generate let go of their blocks when they are planned, as without look-ahead.
    """

    def __init__(self, params: RankParams, timer: PassTimer, acceptance: Acceptance) -> None:
        super().__init__(params, timer, acceptance)
        self.leaving: list[Sequence] = []
        self.turned_away: list[Sequence] = []  # and those without anything to generate
        self._seats = {0: params}

    @property
    def is_left(self) -> bool:
        """Whether somebody ends with the pass in flight."""
        return bool(self.leaving or self.turned_away)

    @property
    def departing(self) -> list[Sequence]:
        """Those who get all they want in the pass in flight, in order."""
        return self.leaving

    def plan_ahead(self, now_ns: int, start_ns: int) -> int:
        """Plan, at `now_ns`, the pass that begins at `start_ns`; return how many passes are planned, or 0."""
        del start_ns
        if not self.has_work:
            self.run_batch = 0
            return 0
        leaving = len(self.leaving)
        self.held += leaving
        self.params = seats_without(self._seats, leaving)
        passes = self.plan(now_ns)
        self.params = self._seats[0]
        self.held -= leaving
        does_something = self.scheduled or self.rejected or self.done or self.preempted or self.ready
        return passes if self.run_batch or does_something else 0

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """Book the planned pass, or the first `passes` of the planned run, which end at `end_ns`."""
        ended = super().commit(passes, first_end_ns, end_ns)
        self.turned_away = [sequence for sequence in ended if sequence.status is not None]
        for sequence in self.turned_away:
            sequence.status = sequence.terminal_ns = None
        if self.leaving:
            leaving = dict.fromkeys(self.leaving)
            self.running = [sequence for sequence in self.running if sequence not in leaving]
        return []

    def _finish(self, sequence: Sequence, end_ns: int) -> None:
        """Let a sequence that gets its last token wait for the end of the pass in flight."""
        del end_ns
        self.leaving.append(sequence)

    def depart(self, end_ns: int) -> list[Sequence]:
        """End, at the end of the pass in flight, those who end with it; return them in order."""
        terminal, self.turned_away = self.turned_away, []
        for sequence in terminal:
            sequence.status = COMPLETED if sequence.reason is None else REJECTED
            sequence.terminal_ns = end_ns
        leaving, self.leaving = self.leaving, []
        if leaving:
            self._head_waits = False  # not any more: there is room
        for sequence in leaving:
            super()._finish(sequence, end_ns)
        return terminal + leaving

    def lost_spans(self) -> list[tuple[int, int]]:
        """List the pass intervals of decoders that did not complete, at the end of a replay."""
        left = [(sequence.joined, sequence.last_pass + 1) for sequence in self.leaving]
        return super().lost_spans() + [(first, last) for first, last in left if first < last]


def make_ahead_drafts(params: RankParams, timer: PassTimer, number: int) -> AheadDrafts:
    """Make a rank with drafts that plans one pass ahead; `number` counts the ranks of all workers."""
    seed = params.acceptance_seed + number
    return AheadDrafts(params, timer, Acceptance(params.nextn, params.accept_rates, seed))
