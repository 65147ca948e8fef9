"""A rank of a decode worker: it reserves blocks for prompts that other workers computed, then decodes.

A destination waits in `pending` until its prompt has blocks (`held` counts those that do), and in the queue
of the scheduler from its activation on. Rules: spec 01 section 6.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from aisimulate.engine.admission import stuck_reason
from aisimulate.engine.decode_set import running_order
from aisimulate.engine.destinations import ArrivalQueue
from aisimulate.engine.scheduler import RankScheduler

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.handoff import Handoff
    from aisimulate.engine.params import RankParams
    from aisimulate.engine.run_pool import Match
    from aisimulate.engine.sequence import Sequence


class DecodeRank(ArrivalQueue, RankScheduler):
    """Decodes sequences whose prompt was computed elsewhere."""

    # No slots of its own, so that it can be combined with another scheduler.

    def __init__(self, params: RankParams, timer: PassTimer) -> None:
        super().__init__(params, timer)
        self.pending: deque[Handoff] = deque()
        self.coming: dict[Handoff, None] = {}
        self.admit = admit_arrived
        self.watchful = True
        self.runs_on = False  # the head of its queue may hold its blocks already
        self.ends_alone = params.enable_prefix_caching and type(self) is DecodeRank
        self.accepted = 0
        self._releases = 0  # changes whenever blocks or a slot become free
        self.unblocked = False

    # Destinations ---------------------------------------------------------------------------------------

    def accept(self, handoff: Handoff) -> bool:
        """Queue a destination for its blocks; refuse one that can never have them (`reason` says why)."""
        self.submit(handoff.request)
        return self.take_on(handoff)

    @property
    def has_work(self) -> bool:
        """Whether a pass can start, or its end is waited for."""
        return super().has_work or self.is_due

    @property
    def has_seat(self) -> bool:
        """Whether another sequence may run here."""
        return self.decoders.count + (self.partial is not None) < self.params.max_num_seqs

    def reserve(self, handoff: Handoff) -> bool:
        """Hold the cached blocks of a prompt and take fresh ones for the rest, or do nothing."""
        pool, size, sequence = self.pool, self.block_size, handoff.request
        keys, blocks = sequence.keys, -(-sequence.input_tokens // size)
        match = pool.miss if keys is None else pool.match(keys, sequence.tail_start)
        if not self._has_room(match, blocks):
            return False
        if match[0]:
            pool.pin(sequence, match)
        fresh = blocks - match[0]
        pool.take(fresh)
        handoff.missing_tokens = fresh * size
        return True

    def _has_room(self, match: Match, blocks: int) -> bool:
        """Whether a prompt of so many blocks fits: it holds its cached ones, which then cannot be evicted."""
        pool = self.pool
        return blocks - match[0] <= pool.room - pool.unheld(match)

    def activate(self, handoff: Handoff) -> None:
        """Cache a prompt that has arrived, and queue its sequence."""
        sequence = handoff.request
        sequence.computed = sequence.input_tokens
        if sequence.keys is not None:
            self.cache_computed(sequence)
        self.queue_arrived(handoff)

    def receive(self) -> Handoff | None:
        """`attempt` and `activate` in one go: nearly all handoffs of a replay pass through here."""
        pending = self.pending
        if not pending or (handoff := pending[0]).attempted == self._releases:
            return None
        pool, waiting, sequence = self.pool, self.waiting, handoff.request
        keys, tokens, size = sequence.keys, sequence.input_tokens, self.block_size
        match = pool.miss if keys is None else pool.match(keys, sequence.tail_start)
        hit, blocks = match[0], -(-tokens // size)
        if self.decoders.count + (self.partial is not None) >= self.params.max_num_seqs or (
            blocks > pool.room and not self._has_room(match, blocks)
        ):
            handoff.attempted = self._releases
            return None
        pending.popleft()
        if hit:
            pool.pin(sequence, match)
        pool.take(blocks - hit)
        handoff.missing_tokens = (blocks - hit) * size
        sequence.computed = tokens
        if sequence.planned:
            self.cache_computed(sequence)
        elif sequence.tail_start > hit:
            pool.extend(sequence, hit, sequence.tail_start)
        if waiting:
            self.queue(handoff)
        else:
            waiting.append(sequence)
        return handoff

    # Scheduling -----------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> int:
        """Begin a pass or a run; a run of one pass when a destination is to be tried at its end."""
        if not (self.decoders.count or self.waiting or self.partial):
            self.run_batch = self.pass_ns = self.gap_weight = 0
            self._clear_unusual()
            return 1
        passes = super().plan(now_ns)
        self.unblocked = False
        if self.preempted:
            self._releases += 1
        return 1 if self.is_due else passes

    def note_release(self) -> None:
        """Take note that blocks and a slot have become free, for whoever may be waiting for them."""
        self._releases += 1

    def complete(
        self, sequences: list[Sequence], uncomputed: int, end_ns: int, terminal: list[Sequence]
    ) -> None:
        """End sequences in running order."""
        if self.decoders.reordered:
            sequences.sort(key=running_order)
        super().complete(sequences, uncomputed, end_ns, terminal)
        self._releases += len(sequences)

    def needs_budget(self, sequence: Sequence) -> bool:
        """Whether a waiting sequence cannot be admitted once the token budget is gone."""
        return not sequence.computed and super().needs_budget(sequence)

    def _needs_steps(self, opening: int) -> bool:
        """Whether a pass has to be scheduled request by request."""
        self.overtaken = self.overtaken and self.partial is not None
        return self.overtaken or (self.fifo and super()._needs_steps(opening))

    def enter_arrived(self, sequence: Sequence, now_ns: int) -> None:
        """Admit a sequence that has its prompt: it computes nothing and takes no blocks."""
        self.waiting.remove(sequence)
        sequence.admissions += ((now_ns, 0),)
        self.entered = sequence.order = self.entered + 1
        overtakes = self.partial is not None
        self.schedule_chunk(sequence, sequence.computed, sequence.tokens)
        if overtakes and self.joining and self.joining[-1] is sequence:
            self.overtaken = self.decoders.reordered = self.unusual = True


def admit_arrived(rank: RankScheduler, now_ns: int) -> None:
    """Admit from the queue of a decode rank; reject what can never run.

    While a destination waits for blocks, only sequences that have their prompt are admitted.
    """
    assert isinstance(rank, DecodeRank)
    waiting = rank.waiting
    running = rank.decoders.count + len(rank.joining) + len(rank.done) + (rank.partial is not None)
    while waiting and running < rank.params.max_num_seqs and not rank.preempted:
        sequence = rank.first_arrived() if rank.pending else waiting[0]
        if sequence is None or (rank.budget == 0 and rank.needs_budget(sequence)):
            return
        had_budget = rank.budget > 0
        if sequence.computed:
            rank.enter_arrived(sequence, now_ns)
        elif not rank.try_admit(rank, sequence, now_ns) and (
            running or not _resolve_head(rank, sequence, now_ns)
        ):
            return
        running = rank.decoders.count + len(rank.joining) + len(rank.done) + (rank.partial is not None)
        if not had_budget:
            return


def _resolve_head(rank: DecodeRank, head: Sequence, now_ns: int) -> bool:
    """Do something about a head that cannot be admitted although nothing runs; False if it has to wait.

    It waits while destinations hold blocks, even those behind it that are ready to run: like the reference,
    which goes on when something else happens on this rank. When nothing would, `unblock()` was called.
    """
    arrived = rank.first_arrived()
    if arrived is not None and rank.unblocked:
        rank.unblocked = False
        rank.enter_arrived(arrived, now_ns)
        return True
    if rank.held or arrived is not None:
        return False
    head.reason = stuck_reason(rank, head)
    rank.waiting.remove(head)
    rank.rejected.append(head)
    rank.eventful = rank.unusual = True
    return True
