"""Ranks of prefill and decode workers of SGLang, where the destination of a prompt is reserved first.

Both follow the SGLang scheduler. A prefill rank keeps the pages of a computed prompt until it is handed over.
A decode rank reserves pages for prompts to come; those that have arrived decode from the next pass on, and
nothing else is computed while one of them, or a destination without pages, waits (spec 01 section 6).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from aisimulate.engine.destinations import Destinations
from aisimulate.engine.sequence import COMPLETED
from aisimulate.engine.sglang_scheduler import SglangScheduler, tokens_left
from aisimulate.engine.sglang_speculative import SpeculativeSglangScheduler

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.handoff import Handoff
    from aisimulate.engine.params import SglangParams
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.speculation import Acceptance


class SglangPrefillRank(SglangScheduler):
    """Computes prompts. `commit()` returns those that are done with no status; they keep their pages."""

    # No slots of its own: `eventful` is a matter of the pass here.

    def plan(self, now_ns: int) -> int:
        """Begin a pass; it has no effect if the head waits for pages of prompts that are handed over."""
        passes = super().plan(now_ns)
        self.eventful = bool(self.selected or self.rejected)
        return passes

    def end(self, ending: list[Sequence], end_ns: int) -> None:
        """End prefills, those without output first; their pages stay held."""
        del end_ns
        ending.sort(key=tokens_left)
        self.held += len(ending)

    def release(self, sequence: Sequence) -> None:
        """Give back the pages of a sequence whose prefill ended; its prompt stays cached."""
        self.held -= 1
        self.pool.complete(sequence, sequence.computed)


class SglangDecodeRank(Destinations, SglangScheduler):
    """Decodes sequences whose prompt was computed elsewhere.

    `pending`: destinations without pages; `held` counts those whose prompt is to come; `arrived`: sequences
    that have it and wait for a slot. In the queue are retracted sequences, which compute everything again.
    """

    def __init__(self, params: SglangParams, timer: PassTimer) -> None:
        super().__init__(params, timer)
        self._expect_nobody()

    def _expect_nobody(self) -> None:
        """Begin without destinations."""
        self.pending: deque[Handoff] = deque()
        self.coming: dict[Handoff, None] = {}
        self.arrived: deque[Sequence] = deque()
        self.unblocked = False
        self._done: list[Sequence] = []  # admitted without anything to generate
        self._releases = 0  # changes whenever pages become free

    # Destinations ---------------------------------------------------------------------------------------

    def accept(self, handoff: Handoff) -> bool:
        """Queue a destination for its pages; refuse one that can never have them (`reason` says why)."""
        sequence = handoff.request
        self.submit(sequence)
        self.waiting.pop()
        if sequence.reason is not None:
            self.doomed = False
            return False
        self.pending.append(handoff)
        return True

    @property
    def has_work(self) -> bool:
        """Whether a pass can start, or its end is waited for."""
        waits = self.arrived or self._done or self.waiting or self.decoders.count
        return bool(waits or (self.pending and self.is_due))

    @property
    def others_hold(self) -> bool:
        """Whether prompts to come, or sequences that end now, have pages that will become free."""
        return self.held > 0 or bool(self._done)

    @property
    def taken(self) -> int:
        """Slots of those who end with the pass in flight, where the next one is planned meanwhile."""
        return 0

    @property
    def finishes(self) -> bool:
        """Whether somebody has nothing to generate and ends with the next pass that does not prefill."""
        return bool(self._done)

    def reserve(self, handoff: Handoff) -> bool:
        """Lock the cached pages of a prompt and take the others, or do nothing."""
        pool, sequence = self.pool, handoff.request
        tokens, page_size = sequence.input_tokens, pool.page_size
        match = pool.match(sequence, tokens // page_size) if pool.caching else pool.miss
        pool.pin(sequence, match)
        pages = -(-tokens // page_size) - match[0]
        if pages > pool.free + pool.inactive:
            pool.unpin(sequence)
            return False
        pool.take(pages)
        sequence.inserted = match[0]
        handoff.missing_tokens = pages * page_size
        return True

    def activate(self, handoff: Handoff) -> None:
        """Cache a prompt that has arrived, and let its sequence wait for a slot."""
        sequence, pool = handoff.request, self.pool
        self.came(handoff)
        free = pool.free
        sequence.computed = sequence.input_tokens
        pool.cache(sequence, sequence.input_tokens // pool.page_size)
        if pool.free > free:
            self._releases += 1
        self.arrived.append(sequence)

    def cancel(self, handoff: Handoff) -> None:
        """Give up the pages of a destination whose prompt will not come."""
        self.came(handoff)
        self.pool.release(handoff.request, handoff.request.input_tokens)
        self._releases += 1

    def unblock(self) -> bool:
        """Let the queue go on although a destination waits for pages, if anybody is in it."""
        self.unblocked = bool(self.pending and self.waiting)
        return self.unblocked

    # Scheduling -----------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> int:
        """Begin a pass or a run; a run of one pass when a destination is to be tried at its end."""
        if self.arrived or self._done or self.slots != self.params.max_num_seqs:
            self.promote(now_ns)
        passes = super().plan(now_ns)
        self.unblocked = False
        if self.refusal is not None and not (self.selected or self.decoders.count):
            self.estimate_from_nobody()
        if not (self.rejected or self.retracted or self.selected or self._done):
            self.eventful = False
            return 1 if self.pending and self.is_due else passes
        if self.rejected or self.retracted:
            self._releases += 1
        ends = bool(self._done) and not self.selected
        self.eventful = bool(self.selected or self.rejected or self.retracted or ends)
        return 1 if ends or self.is_due else passes

    def promote(self, now_ns: int) -> None:
        """Let sequences that have their prompt decode, as far as there are slots."""
        arrived, most = self.arrived, self.params.max_num_seqs - self.taken
        while arrived and self.decoders.count + len(self._done) < most:
            sequence = arrived.popleft()
            sequence.admissions += ((now_ns, 0),)
            if sequence.end_tokens > sequence.tokens:
                self.lagging = self.late = True
                self.add_decoder(sequence)
            else:
                self._done.append(sequence)
        self.slots = most - len(self._done)

    def _select(self, now_ns: int) -> None:
        if not self.arrived and (self.unblocked or not self.pending):
            super()._select(now_ns)

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the planned pass, or the first `passes` of the planned run; return what became terminal."""
        done: list[Sequence] = []
        if self._done and not self.selected:
            done, self._done = self._done, []
            self._open_first(passes)
            for sequence in done:
                self._complete(sequence, sequence.tokens, end_ns)
        terminal = super().commit(passes, first_end_ns, end_ns)
        if not (done or terminal):
            return terminal
        ended = done + terminal
        self._releases += sum([sequence.status == COMPLETED for sequence in ended])
        return ended

    def _open_first(self, passes: int) -> None:
        """Take the pages that decoders open in this pass: those that end without output free theirs later."""
        if self.run_batch and (pages := self.decoders.demand(passes) - self._opening) > 0:
            self.pool.take(pages)
            self._opening += pages


class SpeculativeSglangDecodeRank(SglangDecodeRank, SpeculativeSglangScheduler):
    """Decodes sequences whose prompt was computed elsewhere, in bursts from their first token on."""

    def __init__(self, params: SglangParams, timer: PassTimer, acceptance: Acceptance) -> None:
        SpeculativeSglangScheduler.__init__(self, params, timer, acceptance)
        self._expect_nobody()

    def _open_first(self, passes: int) -> None:
        """Do nothing: the pages of the longest bursts were set aside when the pass began."""
