"""The vLLM scheduler of one rank: plans one pass, or a whole run of identical decode passes.

`plan()` fixes what happens at a pass start (blocks taken, chunks, admissions, preemptions); `commit()`
applies what becomes visible at its end (tokens, completions, releases). There are no prefill and decode
phases: in each pass every sequence lets its computed length catch up with its known length. A pass in which
nothing but decoding happens repeats until a member finishes or the blocks run out: it is planned as one run.
Rules: spec 01 sections 2.2, 2.3, 3.1 and (b).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from aisimulate.engine import preemption, stepwise
from aisimulate.engine.admission import (
    PROMPT_OVER_CAPACITY,
    PROMPT_OVER_MODEL_LEN,
    admit_waiting,
    try_admit,
)
from aisimulate.engine.decode_set import DecodeSet
from aisimulate.engine.run_pool import RunPool
from aisimulate.engine.run_worker import PricedRun
from aisimulate.engine.sequence import COMPLETED, REJECTED, Sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams


class RankScheduler(PricedRun):
    """Waiting queue, decoding set, KV pool and the pass in flight of one rank.

    At most one sequence has an unfinished prefill (`partial`), and it is the last in the running order:
    admission stops when the token budget is gone.
    After `plan()`: `run_batch > 0` means a run of pure decode passes with that batch, starting at
    `run_context` tokens; otherwise one pass of `pass_ns`. `gap_weight` sequences get a token in this pass and
    got one in the pass before.
    """

    __slots__ = (
        "_chunk_count",
        "_chunk_ends",
        "_chunk_starts",
        "_chunks",
        "_joining_batch",
        "_joining_context",
        "_longest_prompt",
        "_opening",
        "_start_ns",
        "admit",
        "all_wait",
        "block_size",
        "budget",
        "capacity_bound",
        "decoders",
        "deferring",
        "done",
        "ends_alone",
        "entered",
        "eventful",
        "fifo",
        "fresh",
        "gap_weight",
        "held",
        "held_back",
        "joining",
        "overtaken",
        "params",
        "partial",
        "pass_ns",
        "pass_tokens",
        "planned",
        "pool",
        "preempted",
        "rejected",
        "run_batch",
        "run_context",
        "runs_on",
        "singles",
        "spans",
        "stalled",
        "tells",
        "timer",
        "try_admit",
        "unusual",
        "waiting",
        "watchful",
        "zero_gaps",
    )

    fused = False  # whether a pass that prefills is priced as one forward
    claim: Callable[[Sequence, int], bool] | None = None  # promises the head, which fits, what it will need

    def __init__(self, params: RankParams, timer: PassTimer) -> None:
        self.params = params
        self.timer = timer
        self.pool = RunPool(params.num_gpu_blocks, params.block_size)
        self.decoders = DecodeSet(params.block_size)
        self.block_size = params.block_size
        self.waiting: deque[Sequence] = deque()
        self.partial: Sequence | None = None
        self.stalled: dict[Sequence, None] = {}  # decoders that missed the last pass
        self.planned: dict[Sequence, None] = {}  # decoders whose output others may ask for
        self.entered = 0  # admissions so far: the running order
        self.tells = False  # whether somebody outside follows what is cached, chunk by chunk
        # Gaps only one sequence saw, and (sequence, from, to) pass intervals of preempted decoders.
        self.singles: list[tuple[int, Sequence]] = []
        self.spans: list[tuple[Sequence, int, int]] = []
        self.zero_gaps = 0  # between tokens of one forward
        self.fresh: list[Sequence] = []  # emitted their first token in the last pass
        # The pass in flight: decoders that do not take part, sequences that emit their first token since
        # admission, zero-output requests that end, rejected ones.
        self.held_back: list[Sequence] = []
        self.joining: list[Sequence] = []
        self.done: list[Sequence] = []
        self.rejected: list[Sequence] = []
        self.eventful = self.unusual = self.preempted = False
        self._chunk_count = self._chunk_ends = self._chunk_starts = 0  # of chunks with prompt tokens
        self._joining_batch = self._joining_context = 0  # of joining sequences in the decode forward
        self.run_batch = self.run_context = self.pass_ns = self.gap_weight = 0
        self._start_ns = self._opening = self.budget = 0
        self.pass_tokens = params.max_num_batched_tokens
        self.fifo = self.watchful = params.preemption_mode == "fifo"
        # Prefill cadence of a group: whether this pass defers prefills, and whether the last one that did not
        # left someone waiting.
        self.deferring = self.capacity_bound = False
        # Whether the end of a request is nothing but that.
        self.ends_alone = params.enable_prefix_caching and type(self).complete is RankScheduler.complete
        self.runs_on = True  # whether a pass that begins with a preemption may be the first of a run
        self.overtaken = False  # whether a decoder was admitted after the unfinished prefill
        self.try_admit: Callable[[Any, Sequence, int], bool] = try_admit  # the rule for the head of the queue
        self.admit = admit_waiting
        self.all_wait = False  # whether all that may still arrive waits once the token budget is gone
        self.held = 0  # prompts that have blocks but do not run: handed over, or to come
        self._longest_prompt = params.total_kv_tokens
        if params.max_model_len is not None:
            self._longest_prompt = min(params.total_kv_tokens, params.max_model_len - 1)

    def _clear_unusual(self) -> None:
        """Forget what few passes do and the last one did."""
        self.preempted = False
        self.held_back, self.done, self.rejected = [], [], []
        self.unusual = bool(self.stalled or self.planned)
        self.eventful = bool(self.stalled)  # they join in again, so this pass is unlike the next

    # Queue --------------------------------------------------------------------------------------------

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence that arrived on this rank."""
        params, tokens = self.params, sequence.input_tokens
        if not params.enable_prefix_caching:
            sequence.keys = None
            sequence.planned = False
        if sequence.keys is None:
            sequence.tail_start = 0
        else:
            self.pool.stride = sequence.stride
            full = tokens // self.block_size
            if sequence.tail_start > full:
                sequence.tail_start = full
        limit = params.max_model_len
        if limit is not None and sequence.end_tokens > limit:
            sequence.end_tokens = max(tokens, limit)
        if tokens > self._longest_prompt:
            sequence.reason = self._impossible(sequence)
        self.waiting.append(sequence)

    def shared_blocks(self, sequence: Sequence) -> int:
        """Count the prompt's full blocks that other requests may hit."""
        if sequence.keys is None:
            return 0
        return sequence.input_tokens // self.block_size if sequence.planned else sequence.tail_start

    def _impossible(self, sequence: Sequence) -> str:
        """Name why a request cannot be served at all; it is rejected at the head of the queue."""
        limit = self.params.max_model_len
        if limit is not None and sequence.input_tokens >= limit:
            return PROMPT_OVER_MODEL_LEN
        return PROMPT_OVER_CAPACITY

    def needs_budget(self, sequence: Sequence) -> bool:
        """Whether a waiting sequence cannot be admitted once the token budget is gone.

        One that has a token to sample has one to compute: not even a full hit lets it in.
        """
        return sequence.end_tokens > sequence.tokens

    def expect(self, longest_prompt: int, least_output: int) -> None:
        """Be told what the requests to come are like at most, and at least."""
        is_plain = type(self).needs_budget is RankScheduler.needs_budget
        self.all_wait = is_plain and longest_prompt <= self._longest_prompt and least_output > 0

    @property
    def has_work(self) -> bool:
        """Whether a pass can start."""
        return bool(self.waiting or self.decoders.count or self.partial)

    @property
    def has_runner(self) -> bool:
        """Whether a sequence was admitted and has not ended."""
        return bool(self.decoders.count or self.partial)

    @property
    def has_decoder(self) -> bool:
        """Whether a running sequence has its prompt computed."""
        partial = self.partial
        return self.decoders.count > 0 or (partial is not None and partial.computed >= partial.input_tokens)

    def lost_spans(self) -> list[tuple[int, int]]:
        """List the pass intervals of decoders that did not complete, at the end of a replay."""
        running = [
            (sequence, sequence.joined, self.decoders.passes)
            for sequence in self.decoders.members
            if sequence not in self.stalled
        ]
        return [
            (first, last)
            for sequence, first, last in (*self.spans, *running)
            if sequence.status != COMPLETED and first < last
        ]

    # Plan -----------------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> int:
        """Begin a pass at `now_ns`; return the number of identical passes planned (1 unless a run)."""
        if self.eventful:
            self.eventful = False
            if self.unusual:
                self._clear_unusual()
        if not (self.waiting or self.partial or self.unusual) and (passes := self._plain_run()):
            return passes
        self.run_batch = 0
        decoders = self.decoders
        self.budget = self.pass_tokens - decoders.count
        self._opening = opening = decoders.opening()
        if self.budget < 0 or (self.watchful and self._needs_steps(opening)):
            self.eventful = self.unusual = True
            self._start_ns = now_ns
            stepwise.schedule_running(self, now_ns)
        elif opening or self.partial or self.unusual:
            self._schedule_running(opening, now_ns)
            if self.preempted and self.runs_on and preemption.head_waits(self):
                self._opening = opening = decoders.opening()
                return self._plan_run(opening)
        if self.waiting and not self.preempted:
            self.admit(self, now_ns)
        if self.eventful or not decoders.count:
            self._price()
            return 1
        return self._plan_run(opening)

    def _schedule_running(self, opening: int, now_ns: int) -> None:
        """Give every decoder its token, in `opening` new blocks, and the unfinished prefill its chunk."""
        if opening > self.pool.room:
            preemption.open_blocks(self, now_ns)
        elif opening:
            self.pool.take(opening)
        if self.unusual and self.planned:
            self.publish(self.planned, 1)
        if self.partial is not None:
            self._continue_partial(self.partial)

    def _needs_steps(self, opening: int) -> bool:
        """Whether a pass has to be scheduled request by request: victims come off the head of the order."""
        if (sequence := self.partial) is not None and self.budget > 0:
            start = sequence.computed
            opening += self.chunk_blocks(start, start + min(sequence.tokens - start, self.budget))
        return opening > self.pool.room

    def _continue_partial(self, sequence: Sequence) -> None:
        """Compute the next chunk of the unfinished prefill; without blocks it preempts itself."""
        if self.budget <= 0 or (self.deferring and sequence.computed < sequence.input_tokens):
            return
        start = sequence.computed
        end = sequence.tokens
        if end - start > self.budget:
            end = start + self.budget
        blocks = self.chunk_blocks(start, end)
        if blocks > self.pool.room:
            preemption.preempt_partial(self)
        else:
            self.pool.take(blocks)
            self.schedule_chunk(sequence, start, end)

    def chunk_blocks(self, start: int, end: int) -> int:
        """Blocks a sequence opens when its computed length goes from `start` to `end`."""
        size = self.block_size
        return -(-end // size) - -(-start // size)

    def schedule_chunk(self, sequence: Sequence, start: int, end: int) -> None:
        """Book a chunk whose blocks are taken: cache full prompt blocks, budget, prefill group, outcome."""
        self.eventful = True
        self.budget -= end - start
        sequence.computed = end
        sequence.chunk_start = start
        prompt, tokens = sequence.input_tokens, sequence.tokens
        if start < prompt:
            self._chunk_count += 1
            self._chunk_starts += start
            self._chunk_ends += end if end < prompt else prompt
        if sequence.keys is not None and (end == tokens or self.planned or sequence.planned or self.tells):
            self.cache_computed(sequence)
        if end < tokens:
            self.partial = sequence
            return
        if sequence is self.partial:
            self.partial = None
        if sequence.end_tokens == tokens:
            self.done.append(sequence)
            self.unusual = True
            return
        self.joining.append(sequence)
        if tokens > prompt or start >= prompt:
            # A first token is sampled by the prefill itself; this one needs the decode forward.
            self._joining_context += tokens
            self._joining_batch += 1

    def note_blank(self, admitted: int, tokens: int) -> None:
        """Book the whole prompts, `tokens` in all, of new sequences that were let in and join."""
        self.eventful = True
        self.entered += admitted
        self.budget -= tokens
        self._chunk_count += admitted
        self._chunk_ends += tokens

    def note_chunks(self, chunks: int, starts: int, ends: int, budget: int) -> None:
        """Book chunks of prompts of new sequences that were let in; `budget` is what they left of it."""
        self.eventful = True
        self.budget = budget
        self._chunk_count += chunks
        self._chunk_starts += starts
        self._chunk_ends += ends

    def note_again(self, admitted: int, context_tokens: int) -> None:
        """Book sequences that were let in again and join: they get their next token in the decode forward."""
        self.entered += admitted
        self._joining_batch += admitted
        self._joining_context += context_tokens

    def cache_computed(self, sequence: Sequence) -> None:
        """Let lookups see the full blocks that a sequence has computed.

        Between the chunks of a prompt nobody looks (unless the rank `tells`), so only its last chunk, a
        preemption or the rare admission beside an unfinished prefill has to ask for it.
        """
        node = sequence.node
        first = 0 if node is None else node.start + node.len
        last = sequence.computed // self.block_size
        if sequence.planned:
            sequence.tail_start = last
        elif last > sequence.tail_start:
            last = sequence.tail_start
        if last > first:
            self.pool.extend(sequence, first, last)

    def unschedule(self, sequence: Sequence) -> None:
        """Take back the chunk of a sequence from the pass being planned."""
        start, end, prompt = sequence.chunk_start, sequence.computed, sequence.input_tokens
        self.budget += end - start
        if start < prompt:
            self._chunk_count -= 1
            self._chunk_starts -= start
            self._chunk_ends -= min(end, prompt)
        if sequence is self.partial:
            self.partial = None
        elif sequence in self.done:
            self.done.remove(sequence)
        else:
            self.joining.remove(sequence)
            if sequence.tokens > prompt or start >= prompt:
                self._joining_context -= sequence.tokens
                self._joining_batch -= 1

    def publish(self, sequences: Iterable[Sequence], ahead: int) -> None:
        """Cache the planned blocks that decoders completed, in the order of passes and of the running order.

        `ahead` is 1 when the pass being planned computes one more token of each sequence.
        """
        size, passes = self.block_size, self.decoders.passes
        completed = [
            ((block + 1) * size - sequence.base, sequence.order, block, sequence)
            for sequence in sequences
            for block in range(sequence.tail_start, (passes + sequence.base - 1 + ahead) // size)
        ]
        completed.sort(key=_completion_order)
        for _, _, block, sequence in completed:
            self.pool.extend(sequence, block, block + 1)
            sequence.tail_start = block + 1

    # Price ----------------------------------------------------------------------------------------------

    def _plain_run(self) -> int:
        """Plan a run in which nothing but decoding can happen; 0 if blocks or the budget may run out."""
        decoders, pool = self.decoders, self.pool
        count = decoders.count
        passes = decoders.next_due - decoders.passes
        if count * (passes // self.block_size + 1) > pool.room or count > self.pass_tokens:
            return 0
        self.run_batch = self.gap_weight = count
        self.run_context = decoders.context_tokens
        self._opening = 0
        return passes

    def _plan_run(self, opening: int) -> int:
        """Extend the pass just begun to the longest run of identical passes.

        The head of the queue stays blocked meanwhile: during pure decode held blocks only grow.
        """
        decoders, pool = self.decoders, self.pool
        self.run_batch = self.gap_weight = decoders.count
        self.run_context = decoders.context_tokens
        if self.planned and self.waiting:
            return 1  # what they generate may be in the prompt of the head, which then needs fewer blocks
        passes = decoders.next_due - decoders.passes
        blocks = pool.room + opening
        if decoders.count * (passes // self.block_size + 1) <= blocks:
            return passes
        return decoders.longest_within(passes, blocks)

    def _price(self) -> None:
        """Time a single pass: prefill group plus decode group, two separate forwards. Empties the groups."""
        decoders = self.decoders
        batch = self.gap_weight = decoders.count
        context, pass_ns = decoders.context_tokens, 0
        if self._joining_batch:
            batch += self._joining_batch
            context += self._joining_context
            self._joining_batch = self._joining_context = 0
        if self.unusual and (self.stalled or self.held_back):
            batch, context = self._without_held_back(batch, context)
        if count := self._chunk_count:
            pass_ns = self.timer.prefill_ns(count, self._chunk_ends // count, self._chunk_starts // count)
            self._chunk_count = self._chunk_ends = self._chunk_starts = 0
            if batch:
                pass_ns += self.timer.beside_ns(batch, context)
        elif batch:
            pass_ns = self.timer.decode_ns(batch, context)
        self.pass_ns = pass_ns

    def _without_held_back(self, batch: int, context: int) -> tuple[int, int]:
        """Take the decoders that miss the pass, or missed the last one, out of its groups."""
        self.gap_weight -= len(self.stalled | dict.fromkeys(self.held_back))
        passes = self.decoders.passes
        return (
            batch - len(self.held_back),
            context - sum(passes + sequence.base for sequence in self.held_back),
        )

    # Commit ---------------------------------------------------------------------------------------------

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the planned pass, or the first `passes` of the planned run; return what became terminal.

        `first_end_ns` is the end of the first of these passes (it settles second tokens).
        """
        decoders = self.decoders
        if self.run_batch:
            # What was taken when the pass began is the growth of the first one.
            self.pool.take(decoders.demand(passes) - self._opening)
        # `DecodeSet.advance`, without the call: every pass ends here.
        done = decoders.passes = decoders.passes + passes
        decoders.context_tokens += passes * decoders.count
        terminal = self._commit_unusual(end_ns) if self.unusual else []
        if self.fresh:
            self.settle_second_tokens(first_end_ns)
        finished = decoders.pop_finished() if done >= decoders.next_due else []
        if self.joining:
            self._emit_joining(end_ns, finished)
        if finished:
            self.complete(finished, 1, end_ns, terminal)
        return terminal

    def _commit_unusual(self, end_ns: int) -> list[Sequence]:
        """Settle what few passes have: decoders that missed it, planned output, rejections, no output."""
        if self.held_back or self.stalled:
            self._settle_stalled(end_ns)
        if self.planned:
            self.publish(self.planned, 0)
        terminal = self.rejected[:]
        for sequence in terminal:
            sequence.status = REJECTED
            sequence.terminal_ns = end_ns
        if self.done:
            self.complete(self.done, 0, end_ns, terminal)
        return terminal

    def _settle_stalled(self, end_ns: int) -> None:
        """Keep the lengths of decoders that missed the pass; close the gaps of those that are back."""
        held_back = dict.fromkeys(self.held_back)
        for sequence in self.stalled:
            if sequence not in held_back:
                self.singles.append((end_ns - _last_token(sequence), sequence))
        for sequence in held_back:
            self.decoders.hold_back(sequence)
            if sequence not in self.stalled:
                self.spans.append((sequence, sequence.joined, self.decoders.passes - 1))
                sequence.last_token_ns = self._start_ns
        for sequence in self.stalled:
            if sequence not in held_back:
                sequence.joined = self.decoders.passes
        self.stalled = held_back

    def settle_second_tokens(self, end_ns: int) -> None:
        """Note the end of the pass after the one in which sequences emitted their first token."""
        fresh, self.fresh = self.fresh, []
        if not self.unusual:
            for sequence in fresh:
                sequence.second_token_ns = end_ns
            return
        for sequence in fresh:
            if sequence in self.stalled:
                self.fresh.append(sequence)
            elif sequence in self.decoders.members:
                sequence.second_token_ns = end_ns

    def _emit_joining(self, end_ns: int, finished: list[Sequence]) -> None:
        """Let the sequences whose prefill ended emit a token, then decode on or be `finished`."""
        joining, self.joining = self.joining, []
        fresh, is_plain = self.fresh, True
        for sequence in joining:
            if sequence.first_token_ns is None:
                sequence.first_token_ns = end_ns
                fresh.append(sequence)
            else:
                last_ns = sequence.last_token_ns
                assert last_ns is not None
                self.singles.append((end_ns - last_ns, sequence))
                if sequence.second_token_ns is None:
                    sequence.second_token_ns = end_ns
            tokens = sequence.tokens = sequence.tokens + 1
            if tokens == sequence.end_tokens or sequence.planned:
                is_plain = False
        self.decoders.add_all(joining if is_plain else self._decode_on(joining, finished))

    def _decode_on(self, joining: list[Sequence], finished: list[Sequence]) -> list[Sequence]:
        """Tell apart which of those that emitted a token are `finished`; return the others."""
        ended = [sequence for sequence in joining if sequence.tokens == sequence.end_tokens]
        finished += ended
        self.fresh = [sequence for sequence in self.fresh if sequence not in ended]
        staying = [sequence for sequence in joining if sequence.tokens < sequence.end_tokens]
        for sequence in staying:
            if sequence.planned:
                self.planned[sequence] = None
                self.unusual = True
        return staying

    def complete(
        self, sequences: list[Sequence], uncomputed: int, end_ns: int, terminal: list[Sequence]
    ) -> None:
        """End sequences that got all their tokens; the last token of each (`uncomputed` 1) has no KV."""
        if self.planned:
            for sequence in sequences:
                self.planned.pop(sequence, None)
        self.pool.release_all(sequences, uncomputed, self.params.enable_prefix_caching)
        for sequence in sequences:
            sequence.status = COMPLETED
            sequence.terminal_ns = end_ns
            if uncomputed:
                sequence.last_token_ns = end_ns
        terminal += sequences


def _last_token(sequence: Sequence) -> int:
    assert sequence.last_token_ns is not None
    return sequence.last_token_ns


def _completion_order(completed: tuple[int, int, int, Sequence]) -> tuple[int, int]:
    return completed[:2]
