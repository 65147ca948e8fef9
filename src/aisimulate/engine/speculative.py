"""The scheduler of a rank that decodes speculatively.

Passes are those of spec 01 sections 3.1 (vLLM) and 3.2 (TensorRT-LLM). With speculation (section 2.6)
requests grow by different numbers of tokens, so no two passes are alike; but all are known ahead, and those
in which everybody decodes are planned together. A forward that verifies drafts may need the blocks of the
longest burst of every request: they are set aside first, what is left over returns.
All blocks are in the tree of the pool: a request that comes back recomputes blocks it has in the cache.
"""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING

from aisimulate.engine.admission import PROMPT_OVER_BUDGET, SEQUENCE_OVER_CAPACITY
from aisimulate.engine.scheduler import RankScheduler
from aisimulate.engine.sequence import COMPLETED, REJECTED

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams
    from aisimulate.engine.run_pool import Match
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.speculation import Acceptance

_LONGEST_RUN = 256  # passes: an arrival that cuts a run wastes what was prepared


class SpeculativeScheduler(RankScheduler):
    """A rank whose requests get a varying number of tokens from each pass.

    `running` in running order; `scheduled` maps what this pass computes to the length before it; `ready` emit
    tokens at its end; `zero_gaps` counts the gaps of 0 ns inside the bursts of completed requests.
    `deferring` and `capacity_bound` belong to the prefill cadence of a group.
    """

    __slots__ = (
        "_acceptance",
        "_column",
        "_fresh_key",
        "_fruitless",
        "_head_waits",
        "_no_evict",
        "_others_look",
        "_set_aside",
        "_settled",
        "_spans",
        "dropped",
        "ready",
        "running",
        "scheduled",
        "steps",
    )

    def __init__(self, params: RankParams, timer: PassTimer, acceptance: Acceptance) -> None:
        super().__init__(params, timer)
        self._acceptance = acceptance
        self._no_evict = params.backend == "trtllm"
        self._column: list[int] = []  # durations of the passes of the planned run
        self._others_look = False  # whether outputs may be in the prompts of others
        self._spans: list[tuple[int, int]] = []  # of the chunks of the pass, where it is one forward
        self._settled = False  # whether all running requests decoded in the last pass
        self._head_waits = (
            False  # whether the head of the queue was looked at while nothing but decoding happened
        )
        self._fresh_key = count(-1, -1)  # names of blocks that nobody else can have
        self._fruitless = 0  # passes with preemptions since anything came of one
        self._set_aside = 0  # blocks of the longest bursts of the pass in flight
        self.dropped: list[tuple[Sequence, int, int, bool]] = []
        self.steps = False  # whether every pass is planned by itself
        self.eventful = True  # there is no pass in which nothing happens
        self.running: list[Sequence] = []
        self.scheduled: dict[Sequence, int] = {}
        self.ready: list[Sequence] = []

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence that arrived on this rank."""
        room, stride = self.params.total_kv_tokens, sequence.stride
        self._others_look = self._others_look or sequence.planned
        if not self.waiting:
            self._head_waits = False
        if self._no_evict and sequence.input_tokens < room < sequence.end_tokens:
            sequence.end_tokens = room
        super().submit(sequence)
        if self._no_evict and sequence.reason is None and sequence.end_tokens > room:
            sequence.reason = SEQUENCE_OVER_CAPACITY
        self.pool.stride = sequence.stride = 1
        if self.params.enable_prefix_caching:
            sequence.keys = self._block_keys(sequence, stride)
            sequence.planned = True
        sequence.held_blocks = sequence.forwards = sequence.computed = 0
        sequence.last_pass = -1
        sequence.lengths = []

    def _block_keys(self, sequence: Sequence, stride: int) -> list[int]:
        """Name every full block the sequence will have, also those that nobody shares."""
        keys: list[int] = []
        if sequence.keys is not None:
            known = self.shared_blocks(sequence)
            if sequence.planned:
                known = len(sequence.keys)
            keys = [sequence.keys[block // stride] for block in range(known)]
        fresh = self._fresh_key
        keys += [next(fresh) for _ in range(len(keys), sequence.end_tokens // self.block_size)]
        return keys

    @property
    def has_work(self) -> bool:
        """Whether a pass can start."""
        return bool(self.waiting or self.running)

    @property
    def has_runner(self) -> bool:
        """Whether a sequence was admitted and has not ended."""
        return bool(self.running)

    @property
    def _others_hold(self) -> bool:
        """Whether sequences that do not run hold blocks, which they will give back."""
        return self.held > 0

    @property
    def has_decoder(self) -> bool:
        """Whether a running sequence has its prompt computed."""
        return any(sequence.computed >= sequence.input_tokens for sequence in self.running)

    def preempt_for_head(self, now_ns: int) -> None:
        """Preempt a running request, although the head of the queue was promised to fit."""
        self._preempt()

    # Plan -----------------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> int:
        """Begin a pass, or a run of decode passes, at `now_ns`; return the number of passes planned."""
        if self._settled and (not self.waiting or self._head_waits) and (passes := self._plan_decoding()):
            return passes
        self.run_batch = 0
        self.budget = self.pass_tokens
        self.preempted = False
        self.scheduled = {}
        self.rejected, self.done = [], []
        if self.dropped:
            self.dropped = []
        self._continue_running()
        entered = self.entered
        self._admit_waiting(now_ns)
        if not self.deferring and not self.preempted:
            self.capacity_bound = bool(self.waiting)
        if self.params.fused:
            self._spans = self._chunk_spans()
        self._settle_ready()
        if self.ready:
            self._set_burst_aside(self._acceptance.most_tokens)
        self._break_up()
        self._settled = len(self.ready) == len(self.running) > 0
        each_got_one = self.budget == self.pass_tokens - len(self.running)
        only_decoding = each_got_one and not (self.done or self.rejected or self.preempted)
        only_decoding = only_decoding and entered == self.entered and not self.deferring
        self._head_waits = only_decoding and not self._head_may_gain
        self._price()
        return 1

    @property
    def _head_may_gain(self) -> bool:
        """Whether the head fits better once a cached block of it is evicted: somebody holds a copy.

        What a burst takes and does not need returns, but such a block is held from then on.
        """
        return bool(self.waiting) and self.pool.has_heir(self._cached(self.waiting[0]))

    def _break_up(self) -> None:
        """Reject a victim when requests only take each other's blocks: it would go on for ever.

        Two that both lack room for a burst can do that, each preempting the other.
        """
        if self.ready or self.done or self.rejected:
            self._fruitless = 0
        elif self.preempted:
            self._fruitless += 1
            if self.goes_in_circles and not self._others_hold:
                self.waiting[0].reason = SEQUENCE_OVER_CAPACITY

    @property
    def goes_in_circles(self) -> bool:
        """Whether so many passes came to nothing that none ever will, as things are."""
        return self._fruitless > 64 + 4 * (len(self.running) + len(self.waiting))

    def _continue_running(self) -> None:
        running, index = self.running, 0
        while index < len(running) and self.budget > 0:
            sequence = running[index]
            if self.deferring and sequence.computed < sequence.input_tokens:
                index += 1
                continue
            end = min(sequence.tokens, sequence.computed + self.budget)
            blocks = -(-end // self.block_size) - sequence.held_blocks
            # A victim in front shifts the list but not the index: the next one is passed over.
            if blocks <= 0 or self._make_room(sequence, blocks):
                self._schedule(sequence, sequence.computed, end)
                index += 1

    def _make_room(self, sequence: Sequence, blocks: int) -> bool:
        """Preempt until `blocks` can be allocated, and take them; False when `sequence` itself had to go."""
        pool = self.pool
        while blocks > pool.room:
            if self._preempt() is sequence:
                return False
        pool.take(blocks)
        sequence.held_blocks += blocks
        return True

    def _preempt(self) -> Sequence:
        """Take the last of the running order (fifo: the first) back to the head of the queue."""
        victim = self.running.pop(0 if self.fifo else -1)
        start, end, prompt = self.scheduled.pop(victim, None), victim.computed, victim.input_tokens
        if start is not None:
            self.budget += end - start
            if start < prompt:
                self._chunk_count -= 1
                self._chunk_starts -= start
                self._chunk_ends -= min(end, prompt)
        self._release(victim)
        if victim.last_pass >= 0:
            self._end_span(victim, victim.last_pass)
        victim.most_computed = max(victim.most_computed, end)
        victim.computed = 0
        self.waiting.appendleft(victim)
        self.preempted = True
        return victim

    def _release(self, sequence: Sequence) -> None:
        """Give back all blocks of a sequence; one for a token not computed yet holds nothing."""
        pool, size = self.pool, self.block_size
        pool.give_back(sequence.held_blocks - -(-sequence.computed // size))
        pool.release(sequence, sequence.computed, self.params.enable_prefix_caching)
        sequence.held_blocks = 0

    def _schedule(self, sequence: Sequence, start: int, end: int) -> None:
        """Book a chunk, or one token, whose blocks are taken."""
        prompt = sequence.input_tokens
        self.budget -= end - start
        self.scheduled[sequence] = start
        sequence.computed = end
        if start < prompt:
            self._chunk_count += 1
            self._chunk_starts += start
            self._chunk_ends += end if end < prompt else prompt
        if sequence.keys is not None:
            self.cache_computed(sequence)

    # Admission ------------------------------------------------------------------------------------------

    def _admit_waiting(self, now_ns: int) -> None:
        waiting, running = self.waiting, self.running
        while waiting and not self.preempted and len(running) < self.params.max_num_seqs:
            sequence = waiting[0]
            if sequence.reason is None:
                if self._admit(sequence, now_ns):
                    if self.scheduled[sequence] == sequence.computed and self.budget == 0:
                        return
                    continue
                if sequence.reason is None:
                    if running or self._others_hold or self.deferring:
                        return
                    sequence.reason = self._stuck_reason(sequence)
            self.rejected.append(waiting.popleft())

    def _stuck_reason(self, sequence: Sequence) -> str:
        if -(-sequence.tokens // self.block_size) > self.params.num_gpu_blocks:
            return SEQUENCE_OVER_CAPACITY
        return PROMPT_OVER_BUDGET

    def _admit(self, sequence: Sequence, now_ns: int) -> bool:
        """Admit the head if it fits and the budget gives it a token; else do nothing."""
        size, pool = self.block_size, self.pool
        match = self._lookup(sequence)
        if not self._fits(sequence, match[1]):
            return False
        start = match[0] * size
        end = min(sequence.tokens, start + self.budget)
        if self._is_put_off(sequence, start, end):
            return False
        fresh = -(-end // size) - match[0]
        while fresh > pool.room - pool.unheld(match):
            if not self.running:
                return False  # the others were handed over, and will give their blocks back
            self._preempt()
        pool.pin(sequence, match)
        pool.take(fresh)
        self._seat(sequence, match[0], end, now_ns)
        return True

    def _is_put_off(self, sequence: Sequence, start: int, end: int) -> bool:
        """Whether the head, which would compute from `start` to `end`, is not to begin in this pass."""
        if self.deferring and sequence.tokens - start > 1:
            return True
        if end == start < sequence.tokens:
            return True
        return self.budget < sequence.input_tokens - start and not self.params.enable_chunked_prefill

    def _seat(self, sequence: Sequence, found: int, end: int, now_ns: int) -> None:
        """Let a request run that holds the blocks up to `end`, `found` of which were cached."""
        start = found * self.block_size
        sequence.held_blocks = -(-end // self.block_size)
        sequence.tail_start = found
        self.waiting.remove(sequence)
        self.running.append(sequence)
        sequence.decodes = False
        sequence.admissions += ((now_ns, start),)
        self.entered = sequence.order = self.entered + 1
        self._schedule(sequence, start, end)

    def _cached(self, sequence: Sequence) -> Match:
        """Find what of the head is cached."""
        keys = sequence.keys
        if keys is None:
            return self.pool.miss
        # A generated block has an identity once it was computed.
        return self.pool.match(keys, max(sequence.input_tokens, sequence.most_computed) // self.block_size)

    def _lookup(self, sequence: Sequence) -> Match:
        """Find what of the head may be taken from the cache."""
        match, tokens = self._cached(sequence), sequence.tokens
        if self._no_evict or tokens == sequence.end_tokens:
            return match
        blocks = min(match[0], (tokens - 1) // self.block_size)
        if blocks:
            blocks -= 1  # the draft head needs the hidden states of the last cached block
        return self.pool.shorten(match, blocks) if blocks < match[0] else match

    def _fits(self, sequence: Sequence, held: int) -> bool:
        size, pool = self.block_size, self.pool
        room = pool.room
        if not self._no_evict:
            return -(-sequence.tokens // size) - held <= room
        promised = sum(-(-other.end_tokens // size) - other.held_blocks for other in self.running)
        return -(-sequence.end_tokens // size) - held <= room - promised

    # Price ----------------------------------------------------------------------------------------------

    def _settle_ready(self) -> None:
        """Tell who emits at the end of the pass; those that have nothing to generate leave now."""
        self.ready = []
        for sequence in self.running:
            if sequence.computed < sequence.tokens:
                continue
            (self.ready if sequence.tokens < sequence.end_tokens else self.done).append(sequence)
        for sequence in self.done:
            self.running.remove(sequence)
            self._let_go(sequence)

    def _let_go(self, sequence: Sequence) -> None:
        """Give back the blocks of a sequence that has nothing to generate."""
        self._release(sequence)

    def _set_burst_aside(self, most_tokens: int) -> None:
        """Take the blocks of the longest bursts; preempt while they cannot be had."""
        pool = self.pool
        while self.ready:
            blocks = self._longest_bursts(most_tokens)
            if blocks <= pool.room:
                pool.take(blocks)
                self._set_aside = blocks
                return
            victim = self._preempt_ready()
            if not self.running and not self._others_hold:
                victim.reason = SEQUENCE_OVER_CAPACITY  # alone in the pool: it would wait for ever

    def _longest_bursts(self, most_tokens: int) -> int:
        """Count the blocks that the longest bursts would open."""
        size = self.block_size
        return sum(
            -(-min(sequence.tokens + most_tokens, sequence.end_tokens) // size) - sequence.held_blocks
            for sequence in self.ready
        )

    def _preempt_ready(self) -> Sequence:
        """Preempt when the pass is priced already: its prefill is paid for.

        `dropped` keeps what was scheduled for it: tokens from and to, and whether it decoded.
        """
        last = self.running[0 if self.fifo else -1]
        if (start := self.scheduled.get(last)) is not None:
            self.dropped.append((last, start, last.computed, last.decodes))
        sums = self._chunk_count, self._chunk_starts, self._chunk_ends
        victim = self._preempt()
        self._chunk_count, self._chunk_starts, self._chunk_ends = sums
        if victim in self.ready:
            self.ready.remove(victim)
        return victim

    def _price(self) -> None:
        """Time the pass: prefill group plus decode group."""
        timer, ready = self.timer, self.ready
        pass_ns, before = 0, self.decoders.passes - 1
        if chunks := self._chunk_count:
            pass_ns = timer.prefill_ns(chunks, self._chunk_ends // chunks, self._chunk_starts // chunks)
            self._chunk_count = self._chunk_ends = self._chunk_starts = 0
        context = sum(sequence.tokens for sequence in ready)
        if self._spans:
            pass_ns = timer.fused_ns(self._spans, len(ready), context)
        elif ready and chunks:
            pass_ns += timer.beside_ns(len(ready), context)
        elif ready:
            pass_ns = timer.decode_ns(len(ready), context)
        self.pass_ns = pass_ns
        self.gap_weight = sum(sequence.last_pass == before for sequence in ready) if before >= 0 else 0

    def _chunk_spans(self) -> list[tuple[int, int]]:
        return [
            (start, sequence.computed)
            for sequence, start in self.scheduled.items()
            if not sequence.decodes and start < sequence.computed
        ]

    # Runs of decode passes ------------------------------------------------------------------------------

    def _plan_decoding(self) -> int:
        """Plan passes in which all running requests decode and nothing else happens; 0 if blocks may run out.

        The head of the queue stays blocked meanwhile: during pure decode held blocks only grow.
        """
        if self.steps:
            return 0
        running, pool = self.running, self.pool
        batch = len(running)
        if batch > self.pass_tokens or self._others_look:
            return 0
        passes = min(len(sequence.lengths) - sequence.forwards for sequence in running) - 1
        passes = min(passes, _LONGEST_RUN)
        room = pool.room
        while passes and self._blocks_in_run(passes) > room:
            passes //= 2
        if not passes:
            return 0
        columns = [sequence.lengths[sequence.forwards : sequence.forwards + passes] for sequence in running]
        contexts = columns[0] if batch == 1 else list(map(sum, zip(*columns, strict=True)))
        self._column = self.timer.forwards_ns(batch, contexts)
        self.run_batch = self.gap_weight = batch
        if not self.deferring:
            self.capacity_bound = bool(self.waiting)
        return passes

    def _blocks_in_run(self, passes: int) -> int:
        """Blocks that a run needs: those opened before its last pass, and the longest bursts of that one.

        What is set aside in a pass lies within what is set aside in the next one.
        """
        size, most = self.block_size, self._acceptance.most_tokens
        blocks = 0
        for sequence in self.running:
            reach = sequence.lengths[sequence.forwards + passes - 1] + most
            end = sequence.end_tokens
            blocks += -(-(reach if reach < end else end) // size) - sequence.held_blocks
        return blocks

    def first_run_ns(self) -> int:
        """Duration of the first pass of the planned run."""
        return self._column[0]

    def run_durations_ns(self, first: int, passes: int) -> list[int]:
        """List the durations of `passes` passes of the planned run, from number `first` on."""
        return self._column[first : first + passes]

    def run_floor_ns(self, passes: int) -> int:
        """Give the duration of the first passes of the planned run."""
        return sum(self._column[:passes])

    def _open_run(self, passes: int) -> None:
        """Take the blocks of the first `passes` of the planned run."""
        blocks = self._set_aside = self._blocks_in_run(passes)
        self.pool.take(blocks)

    def _commit_run(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the first `passes` of the planned run; return what became terminal."""
        last = self.decoders.passes + passes - 1
        self.decoders.passes = last + 1
        self._open_run(passes)
        finished = []
        for sequence in self.running:
            forwards = sequence.forwards = sequence.forwards + passes
            sequence.tokens = sequence.lengths[forwards]
            sequence.last_pass = last
            sequence.last_token_ns = end_ns
            if sequence.second_token_ns is None:
                sequence.second_token_ns = first_end_ns
            self._keep_burst(sequence)
            if sequence.tokens == sequence.end_tokens:
                finished.append(sequence)
        for sequence in finished:
            self._finish(sequence, end_ns)
        self.pool.give_back(self._set_aside)
        self._set_aside = 0
        if finished:
            self._head_waits = False
            self.running = [sequence for sequence in self.running if sequence.status is None]
        return finished

    # Commit ---------------------------------------------------------------------------------------------

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the pass, or the first `passes` of the planned run; return what became terminal."""
        if self.run_batch:
            return self._commit_run(passes, first_end_ns, end_ns)
        number = self.decoders.passes
        self.decoders.passes = number + 1
        terminal = self.rejected
        for sequence in terminal:
            sequence.status, sequence.terminal_ns = REJECTED, end_ns
        for sequence in self.done:
            sequence.status, sequence.terminal_ns = COMPLETED, end_ns
        terminal += self.done
        finished = [sequence for sequence in self.ready if self._emit(sequence, number, end_ns)]
        self.pool.give_back(self._set_aside)
        self._set_aside = 0
        if finished:
            self._head_waits = False
            self.running = [sequence for sequence in self.running if sequence.status is None]
        return terminal + finished

    def _emit(self, sequence: Sequence, number: int, end_ns: int) -> bool:
        """Let a sequence emit the tokens of its forward in pass `number`; return whether it completes."""
        self._note_gap(sequence, number, end_ns)
        if not sequence.lengths:
            sequence.lengths = self._acceptance.lengths(
                sequence.ordinal, sequence.tokens, sequence.end_tokens
            )
        tokens = sequence.lengths[sequence.forwards + 1]
        if sequence.second_token_ns is None and (sequence.forwards or tokens > sequence.tokens + 1):
            sequence.second_token_ns = end_ns
        sequence.forwards += 1
        sequence.decodes = True
        sequence.tokens = tokens
        sequence.last_token_ns = end_ns
        self._keep_burst(sequence)
        if tokens < sequence.end_tokens:
            return False
        self._finish(sequence, end_ns)
        return True

    def _finish(self, sequence: Sequence, end_ns: int) -> None:
        self.zero_gaps += sequence.emitted_tokens - sequence.forwards
        self._release(sequence)
        sequence.lengths = []
        sequence.status, sequence.terminal_ns = COMPLETED, end_ns

    def accepted_in(self, sequence: Sequence, before: int) -> int:
        """Count the drafts accepted in the last forward of a sequence, which had `before` tokens then."""
        if sequence.tokens < sequence.end_tokens:
            return sequence.tokens - before - 1
        # What is not needed any more is not kept.
        bursts = self._acceptance.stream(sequence.ordinal)
        return next(islice(bursts, sequence.forwards - 1, None)) - 1

    def _note_gap(self, sequence: Sequence, number: int, end_ns: int) -> None:
        last = sequence.last_pass
        sequence.last_pass = number
        if last < 0:
            sequence.first_token_ns = end_ns
        elif last < number - 1:
            self.singles.append((end_ns - (sequence.last_token_ns or 0), sequence))
            self._end_span(sequence, last)
        else:
            return
        sequence.joined = number + 1

    def _end_span(self, sequence: Sequence, last: int) -> None:
        """Note that a sequence took part in every pass from the one it joined in to the pass `last`."""
        self.spans.append((sequence, sequence.joined, last + 1))
        sequence.joined = last + 1

    def _keep_burst(self, sequence: Sequence) -> None:
        """Compute all but the last token of a burst, in the blocks that were set aside for it."""
        blocks = -(-sequence.tokens // self.block_size)
        self._set_aside -= blocks - sequence.held_blocks
        sequence.held_blocks = blocks
        sequence.computed = sequence.tokens - 1
        if sequence.keys is not None and sequence.computed // self.block_size > sequence.tail_start:
            self.cache_computed(sequence)

    def lost_spans(self) -> list[tuple[int, int]]:
        """List the pass intervals of decoders that did not complete, at the end of a replay."""
        open_spans = [
            (sequence, sequence.joined, sequence.last_pass + 1)
            for sequence in self.running
            if sequence.last_pass >= 0
        ]
        return [
            (first, last)
            for sequence, first, last in (*self.spans, *open_spans)
            if sequence.status != COMPLETED and first < last
        ]
