"""Ranks of prefill and decode workers with speculative decoding, of vLLM and TensorRT-LLM.

The drafts are verified where tokens are generated. But the prefill worker has a draft head as well: it
computes one cached block anew for it, and keeps a place for its hidden token (spec 01 sections 2.6, 6).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from aisimulate.engine.cadence_pair import PairCadenceGroup
from aisimulate.engine.destinations import ArrivalQueue
from aisimulate.engine.group import GroupWorker
from aisimulate.engine.sequence import COMPLETED, REJECTED
from aisimulate.engine.speculative import SpeculativeScheduler

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.handoff import Handoff
    from aisimulate.engine.params import RankParams
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.speculation import Acceptance


class SpeculativePrefillRank(SpeculativeScheduler):
    """Computes prompts. `commit()` returns those that are done with no status; they keep their blocks."""

    # No slots of its own: `eventful` is a matter of the pass here.

    def plan(self, now_ns: int) -> int:
        """Begin a pass; it has no effect if the head waits for blocks of prompts that are handed over."""
        super().plan(now_ns)
        self.eventful = bool(self.scheduled or self.rejected or self.preempted)
        return 1

    @property
    def _others_hold(self) -> bool:
        return self.held > 0 or bool(self.done)

    def _let_go(self, sequence: Sequence) -> None:
        """Keep the blocks: they are to be handed over."""

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the planned pass; return what was rejected, then the sequences whose prefill ended."""
        del first_end_ns, end_ns
        self.decoders.passes += passes
        terminal = self.rejected
        for sequence in terminal:
            sequence.status = REJECTED
        for sequence in self.ready:
            sequence.tokens += 1
            self._keep_burst(sequence)
            self.running.remove(sequence)
        self.pool.give_back(self._set_aside)
        self._set_aside = 0
        self._settled = False
        ended = [*self.done, *self.ready]
        self.held += len(ended)
        return terminal + ended

    def release(self, sequence: Sequence) -> None:
        """Give back the blocks of a sequence whose prefill ended."""
        self.held -= 1
        self._release(sequence)


class SpeculativeDecodeRank(ArrivalQueue, SpeculativeScheduler):
    """Decodes sequences whose prompt was computed elsewhere, in bursts from their first token on."""

    # No slots of its own.

    def __init__(self, params: RankParams, timer: PassTimer, acceptance: Acceptance) -> None:
        super().__init__(params, timer, acceptance)
        self.pending: deque[Handoff] = deque()
        self.coming: dict[Handoff, None] = {}
        self.unblocked = False
        self.accepted = 0
        self._releases = 0  # changes whenever blocks or a slot become free
        self._owners: dict[Sequence, None] = {}  # have blocks for their prompt, and do not run yet

    # Destinations ---------------------------------------------------------------------------------------

    def accept(self, handoff: Handoff) -> bool:
        """Queue a destination for its blocks; refuse one that can never have them (`reason` says why)."""
        self.submit(handoff.request)
        self._head_waits = False  # a destination that waits changes who may enter
        return self.take_on(handoff)

    @property
    def has_work(self) -> bool:
        """Whether a pass can start, or its end is waited for."""
        return super().has_work or self.is_due

    @property
    def has_seat(self) -> bool:
        """Whether another sequence may run here."""
        return len(self.running) < self.params.max_num_seqs

    @property
    def _others_hold(self) -> bool:
        return bool(self._owners)

    def reserve(self, handoff: Handoff) -> bool:
        """Hold the cached blocks of a prompt and take fresh ones for the rest, or do nothing.

        TensorRT-LLM shares none, and promises the blocks of the output too.
        """
        pool, size, sequence = self.pool, self.block_size, handoff.request
        keys, tokens = sequence.keys, sequence.input_tokens
        match = pool.miss if keys is None or self._no_evict else pool.match(keys, tokens // size)
        fresh = -(-tokens // size) - match[0]
        room = pool.room - pool.unheld(match)
        needed = fresh
        if self._no_evict:
            needed = -(-sequence.end_tokens // size) + self._promised()
        if needed > room:
            return False
        if match[0]:
            pool.pin(sequence, match)
        pool.take(fresh)
        sequence.held_blocks = match[0] + fresh
        sequence.tail_start = match[0]
        handoff.missing_tokens = fresh * size
        self._owners[sequence] = None
        self._head_waits = False
        return True

    def _promised(self) -> int:
        """Blocks that those with a prompt here will still open."""
        owners = (*self.running, *self._owners)
        return sum(-(-other.end_tokens // self.block_size) - other.held_blocks for other in owners)

    def activate(self, handoff: Handoff) -> None:
        """Cache a prompt that has arrived, and queue its sequence."""
        sequence = handoff.request
        sequence.computed = sequence.most_computed = sequence.input_tokens
        if sequence.keys is not None:
            self.cache_computed(sequence)
        self.queue_arrived(handoff)
        self._head_waits = False

    # Scheduling -----------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> int:
        """Begin a pass or a run; a run of one pass when a destination is to be tried at its end."""
        self.scheduled, self.rejected, self.preempted = {}, [], False
        if not (self.running or self.waiting):
            self.run_batch = self.pass_ns = self.gap_weight = 0
            self.ready, self.done = [], []
            self.eventful = False
            return 1
        passes = super().plan(now_ns)
        self.unblocked = False
        if self.preempted:
            self._releases += 1
        self.eventful = bool(self.run_batch or self.scheduled or self.rejected or self.preempted)
        if self._others_hold and not (self.run_batch or self.ready or self.done or self.rejected):
            # What was computed takes no time, and may be lost again; where it always is, it has to wait.
            self.eventful = self.pass_ns > 0 or (self.eventful and not self.goes_in_circles)
        return 1 if self.is_due else passes

    def _admit_waiting(self, now_ns: int) -> None:
        """Admit from the queue; while a destination waits for blocks, only who has its prompt."""
        waiting = self.waiting
        while waiting and not self.preempted and len(self.running) < self.params.max_num_seqs:
            sequence = self.first_arrived() if self.pending or self.unblocked else waiting[0]
            self.unblocked = False
            if sequence is None:
                return
            if sequence.reason is not None:
                waiting.remove(sequence)
                self.rejected.append(sequence)
                continue
            had_budget = self.budget > 0
            if sequence.computed:
                self._enter_arrived(sequence, now_ns)
            elif not self._admit(sequence, now_ns) and (self.running or not self._resolve_head(sequence)):
                return
            if not had_budget:
                return

    def _resolve_head(self, head: Sequence) -> bool:
        """Reject a head that cannot be admitted although nothing runs, unless it has to wait for others."""
        if self._others_hold:
            return False
        head.reason = self._stuck_reason(head)
        self.waiting.remove(head)
        self.rejected.append(head)
        return True

    def _enter_arrived(self, sequence: Sequence, now_ns: int) -> None:
        """Admit a sequence that has its prompt: it computes nothing and takes no blocks."""
        self.waiting.remove(sequence)
        del self._owners[sequence]
        self.running.append(sequence)
        sequence.decodes = False
        sequence.admissions += ((now_ns, 0),)
        self.entered = sequence.order = self.entered + 1
        self._schedule(sequence, sequence.computed, sequence.computed)

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the pass, or the first `passes` of the planned run; return what became terminal."""
        terminal = super().commit(passes, first_end_ns, end_ns)
        self._releases += sum(sequence.status == COMPLETED for sequence in terminal)
        return terminal


class SpeculativePairGroup(GroupWorker):
    """A worker of decode ranks with drafts.

    A pass without effect ends nothing, but it separates the passes before and after: whoever was preempted in
    it did not emit in consecutive passes.
    """

    __slots__ = ()

    def start(self, now_ns: int) -> bool:
        """Begin a group pass, or a run of them, at `now_ns`; return whether there was work for one."""
        if super().start(now_ns):
            return True
        if self._active:
            for rank in self.ranks:
                rank.decoders.advance(1)
        return False


class SpeculativeCadenceGroup(SpeculativePairGroup, PairCadenceGroup):
    """The same with a prefill cadence."""

    __slots__ = ()
