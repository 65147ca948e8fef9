"""The scheduler of a vLLM rank of a hybrid model: every request has a recurrent state beside its blocks.

Passes are those of spec 01 section 3.1. The state takes blocks of the same pool. A prefix is reused up to
where a copy of the state was kept (`StateCopies`), and resuming copies it to blocks of the request's own; so
does writing a state that was published when a block was full. Passes in which everybody decodes are planned
together, as long as blocks are sure to suffice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.admission import SEQUENCE_OVER_CAPACITY
from aisimulate.engine.speculative import SpeculativeScheduler
from aisimulate.engine.state_copies import State, StateCopies

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams
    from aisimulate.engine.run_pool import Match
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.speculation import Acceptance
    from aisimulate.engine.state_copies import StateBlock


class StateScheduler(SpeculativeScheduler):
    """A rank whose requests have a state; each pass gives each of them one token.

    `copies` are those of states, `states` what running requests work on; `outgrown` are those of `rejected`
    that ran until this pass.
    """

    __slots__ = ("_chains", "_stays_out", "copies", "outgrown", "states")

    def __init__(self, params: RankParams, timer: PassTimer, acceptance: Acceptance) -> None:
        super().__init__(params, timer, acceptance)
        self.copies = StateCopies(self.pool, params.state_blocks)
        self.states: dict[Sequence, State] = {}
        self._chains: dict[Sequence, list[int]] = {}  # the prefixes of each request
        self.outgrown: list[Sequence] = []
        self._stays_out = False  # whether the head cannot get in before somebody ends

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence that arrived on this rank."""
        super().submit(sequence)
        if sequence.keys is not None:
            self._chains[sequence] = self.copies.prefixes(sequence.keys)

    # Plan -----------------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> int:
        """Begin a pass, or a run of decode passes, at `now_ns`; return the number of passes planned."""
        self.copies.begin_pass()
        return super().plan(now_ns)

    def _continue_running(self) -> None:
        running, index = self.running, 0
        self.outgrown = []
        while index < len(running) and self.budget > 0:
            sequence = running[index]
            if self.deferring and sequence.computed < sequence.input_tokens:
                index += 1
            elif self._outgrows_pool(sequence):
                self._give_up(sequence)
            else:
                end = min(sequence.tokens, sequence.computed + self.budget)
                # A victim in front shifts the list but not the index: the next one is passed over.
                if self._make_way(sequence, end):
                    self._schedule(sequence, sequence.computed, end)
                    index += 1

    def _outgrows_pool(self, sequence: Sequence) -> bool:
        """Whether what is known of a running sequence could not be computed if it were alone."""
        blocks = -(-sequence.tokens // self.block_size) + self.copies.blocks
        if self.states[sequence].is_published:
            blocks += self.copies.blocks
        return blocks > self.params.num_gpu_blocks

    def _give_up(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._release(sequence)
        sequence.reason = SEQUENCE_OVER_CAPACITY
        self.rejected.append(sequence)
        self.outgrown.append(sequence)
        if sequence.last_pass >= 0:
            self._end_span(sequence, sequence.last_pass)

    def _make_way(self, sequence: Sequence, end: int) -> bool:
        """Take the blocks to compute up to `end`, and copy the state first if others may resume from it."""
        state, copies = self.states[sequence], self.copies
        blocks = -(-end // self.block_size) - sequence.held_blocks
        if not state.is_published:
            return blocks <= 0 or self._make_room(sequence, blocks)
        if not self._make_room(sequence, blocks + copies.blocks):
            return False
        sequence.held_blocks -= copies.blocks
        copies.preserve(state, self.decoders.passes)
        return True

    def _schedule(self, sequence: Sequence, start: int, end: int) -> None:
        super()._schedule(sequence, start, end)
        self._write(sequence, end, self.decoders.passes)

    def _write(self, sequence: Sequence, end: int, number: int) -> None:
        """Let the state be that after `end` tokens, in pass `number`."""
        state = self.states[sequence]
        if end > state.computed:
            state.computed = end
            if sequence.keys is not None and end % self.block_size == 0:
                self.copies.publish(state, self._chains[sequence][end // self.block_size - 1], number)

    def _preempt(self) -> Sequence:
        victim = self.running[0 if self.fifo else -1]
        self.copies.retract(self.states.pop(victim), self.decoders.passes)
        return super()._preempt()

    def _release(self, sequence: Sequence) -> None:
        state = self.states.pop(sequence, None)
        if state is not None:  # it ends; a victim has none any more
            self.copies.leave(state)
            came_back = len(sequence.admissions) > 1
            self.copies.forget(self._chains.get(sequence, []) if came_back else [state.prefix])
        super()._release(sequence)

    def _set_burst_aside(self, most_tokens: int) -> None:
        """Do nothing: the token that is sampled gets its block in the pass that computes it."""

    # Admission ------------------------------------------------------------------------------------------

    def _admit(self, sequence: Sequence, now_ns: int) -> bool:
        """Admit the head if it fits and the budget gives it a token; else do nothing.

        `reason` is set if it can never be resumed: its blocks, its state and the copy are too many.
        """
        known, states = -(-sequence.tokens // self.block_size), self.copies.blocks
        may_resume = sequence.keys is None or known + 2 * states <= self.params.num_gpu_blocks
        self._stays_out = self.budget == 0 and may_resume
        match, source = self._resumable(sequence)
        blocks = match[0]
        if known + (2 * states if blocks else states) > self.params.num_gpu_blocks:
            sequence.reason = SEQUENCE_OVER_CAPACITY
            return False
        if known - blocks + states > self.pool.room - self.pool.unheld(match) - len(source):
            self._stays_out = may_resume and self._lacks_room(sequence)
            return False
        start = blocks * self.block_size
        end = min(sequence.tokens, start + self.budget)
        if self._is_put_off(sequence, start, end):
            return False
        self._enter(sequence, match, source, end, now_ns)
        return True

    def _resumable(self, sequence: Sequence) -> tuple[Match, list[StateBlock]]:
        """Find the longest cached prefix whose state is there, and what of that state nobody holds."""
        match = self._cached(sequence)
        blocks = self._most_resumed(sequence, match[0])
        if not blocks:
            return self.pool.miss, []
        chain, copies = self._chains[sequence], self.copies
        self.pool.settle()  # the match did not, if somebody holds all of it
        while blocks and not copies.has(chain[blocks - 1]):
            blocks -= 1
        if not blocks:
            return self.pool.miss, []
        return self.pool.shorten(match, blocks), copies.source(chain[blocks - 1])

    def _most_resumed(self, sequence: Sequence, cached: int) -> int:
        """Blocks of a cached prefix that may be used: to sample a token, one has to be computed."""
        if sequence.tokens == sequence.end_tokens:
            return cached
        return min(cached, (sequence.tokens - 1) // self.block_size)

    def _lacks_room(self, sequence: Sequence) -> bool:
        """Whether it does not even fit if all of its prompt that somebody holds can be resumed."""
        known = -(-sequence.tokens // self.block_size) + self.copies.blocks
        return known - self._cached(sequence)[1] > self.pool.room

    def _enter(
        self, sequence: Sequence, match: Match, source: list[StateBlock], end: int, now_ns: int
    ) -> None:
        """Let the head, which fits, compute up to `end`."""
        pool, copies, blocks = self.pool, self.copies, match[0]
        pool.pin(sequence, match)
        copies.pin(source)
        pool.take(-(-end // self.block_size) - blocks + copies.blocks)
        copies.unpin(source)
        self.states[sequence] = State(copies.blocks, blocks * self.block_size)
        self._seat(sequence, blocks, end, now_ns)

    def _admit_waiting(self, now_ns: int) -> None:
        self._stays_out = len(self.running) >= self.params.max_num_seqs
        super()._admit_waiting(now_ns)

    # Price ----------------------------------------------------------------------------------------------

    def _price(self) -> None:
        """Time the pass: a prefill samples the first token of a prompt, the others need the decode group."""
        timer, chunks, before = self.timer, self._chunk_count, self.decoders.passes - 1
        decoding = [sequence for sequence in self.ready if not self._is_sampled(sequence)]
        batch, context, pass_ns = len(decoding), sum(sequence.tokens for sequence in decoding), 0
        if self._spans:
            pass_ns = timer.fused_ns(self._spans, batch, context)
        elif chunks:
            pass_ns = timer.prefill_ns(chunks, self._chunk_ends // chunks, self._chunk_starts // chunks)
            if batch:
                pass_ns += timer.beside_ns(batch, context)
        elif batch:
            pass_ns = timer.decode_ns(batch, context)
        self._chunk_count = self._chunk_ends = self._chunk_starts = 0
        self.pass_ns = pass_ns
        self.gap_weight = sum(s.last_pass == before for s in self.ready) if before >= 0 else 0

    def _is_sampled(self, sequence: Sequence) -> bool:
        """Whether the token that a sequence emits comes from its prefill."""
        start = self.scheduled[sequence]
        if self._spans:
            return not sequence.decodes and start < sequence.computed
        return sequence.last_pass < 0 and start < sequence.input_tokens

    # Runs of decode passes ------------------------------------------------------------------------------

    def _plan_decoding(self) -> int:
        if self.waiting and not self._stays_out:
            return 0  # what it can resume from may change
        return super()._plan_decoding()

    def _blocks_in_run(self, passes: int) -> int:
        """Blocks that a run opens, and those of a state that is copied before it is written."""
        size = self.block_size
        opened = sum(-(-(s.tokens + passes - 1) // size) - s.held_blocks for s in self.running)
        return opened + self.copies.blocks

    def _open_run(self, passes: int) -> None:
        """Open and complete the blocks of `passes` passes, pass by pass in the running order."""
        size, first, steps = self.block_size, self.decoders.passes - passes, []
        for index, sequence in enumerate(self.running):
            before = sequence.computed
            for block in range(before // size, (before + passes) // size + 1):
                steps += [(block * size + edge - before, index, block * size + edge) for edge in (0, 1)]
        for number, index, end in sorted(steps):
            if 0 < number <= passes:
                self._compute(self.running[index], end, first + number - 1)
        for sequence in self.running:
            sequence.computed = self.states[sequence].computed = sequence.computed + passes

    def _compute(self, sequence: Sequence, end: int, number: int) -> None:
        """Compute one token of a sequence that opens or completes a block with it."""
        state, pool, copies = self.states[sequence], self.pool, self.copies
        if blocks := -(-end // self.block_size) - sequence.held_blocks:
            pool.take(blocks)
            sequence.held_blocks += blocks
        if state.is_published:
            pool.take(copies.blocks)
            copies.preserve(state, number)
        if sequence.keys is not None and end % self.block_size == 0:
            sequence.computed, before = end, sequence.computed
            self.cache_computed(sequence)
            sequence.computed = before
        self._write(sequence, end, number)

    # Commit ---------------------------------------------------------------------------------------------

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the pass, or the first `passes` of the planned run; return what became terminal."""
        terminal = super().commit(passes, first_end_ns, end_ns)
        for sequence in terminal:
            self._chains.pop(sequence, None)
        return terminal

    def _keep_burst(self, sequence: Sequence) -> None:
        """Do nothing: the token that was sampled is computed in the next pass."""
