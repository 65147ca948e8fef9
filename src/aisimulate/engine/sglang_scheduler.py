"""The SGLang scheduler of one rank: plans one pass, or a whole run of identical decode passes.

A pass either prefills or decodes; while prompts are selected, the decoders wait. `plan()` fixes what happens
at a pass start, `commit()` applies what becomes visible at its end, both with the meaning they have in
`scheduler.RankScheduler`. A decode pass repeats until a member finishes, pages run out, or the head of the
queue may get in: what is reserved for outputs shrinks with every pass. Rules: spec 01 sections 2.5, 3.3, (b).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from aisimulate.engine.admission import PROMPT_OVER_CAPACITY, PROMPT_OVER_MODEL_LEN, SEQUENCE_OVER_CAPACITY
from aisimulate.engine.page_decoders import PageDecoders
from aisimulate.engine.radix_pool import RadixPool
from aisimulate.engine.reservation import ReservationRatio, Reservations
from aisimulate.engine.run_worker import PricedRun
from aisimulate.engine.sequence import COMPLETED, REJECTED
from aisimulate.engine.sglang_admission import Refusal, admit_waiting
from aisimulate.engine.sglang_horizon import passes_until_admission
from aisimulate.engine.sglang_policy import sort_waiting

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import SglangParams
    from aisimulate.engine.sequence import Sequence

# Passes that a new reservation adds for each decoder that survives a retraction.
RETRACTION_STEPS = 20


class SglangScheduler(PricedRun):
    """Waiting queue, decoding set, radix tree and the pass in flight of one rank.

    After `plan()`: `run_batch > 0` means a run of decode passes with that batch, starting at `run_context`
    tokens; otherwise one pass of `pass_ns`, in which the `selected` prompts are computed. `lagging`: for some
    decoders the last token is not the end of the pass before, so the first gap of the run differs.
    Prompts that were computed in part wait at the head of the queue and keep their pages.
    """

    __slots__ = (
        "_ends",
        "_longest_prompt",
        "_opening",
        "_starts",
        "chunk_left",
        "chunk_tokens",
        "cooldown",
        "decoders",
        "doomed",
        "entered",
        "held",
        "input_left",
        "lagging",
        "lags",
        "last_decode_ns",
        "late",
        "left",
        "longest_first",
        "params",
        "pass_ns",
        "planned",
        "pool",
        "prefills",
        "ratio",
        "recent",
        "refusal",
        "rejected",
        "reservations",
        "retracted",
        "room",
        "room_margin",
        "run_batch",
        "run_context",
        "selected",
        "singles",
        "slots",
        "spans",
        "timer",
        "waiting",
    )

    eventful = True  # a pass without any work counts too
    zero_gaps = 0  # between tokens of one burst

    def __init__(self, params: SglangParams, timer: PassTimer) -> None:
        self.params = params
        self.timer = timer
        self.pool = RadixPool(params.num_gpu_blocks, params.block_size, params.enable_prefix_caching)
        self.decoders = PageDecoders(params.block_size)
        self.ratio = ReservationRatio(params.schedule_conservativeness)
        self.reservations = Reservations(params.clip_max_new_tokens)
        self.longest_first = params.schedule_policy == "lpm" and params.enable_prefix_caching
        self.waiting: deque[Sequence] = deque()
        self.doomed = False  # somebody in the queue can never be served
        self.entered = 0  # sequences that began to decode: the running order
        self.cooldown = 0  # passes to come that may not prefill
        self.slots = params.max_num_seqs  # for decoders
        self.held = 0  # prompts that have pages but do not run: handed over, or to come
        self.planned = 0  # decoders whose output others may ask for
        # Decoders that joined after the last decode pass, and the end of that pass.
        self.recent: dict[Sequence, None] = {}
        self.lagging = False
        self.late = False  # some of them have had no token yet, because there was no page for it
        self.last_decode_ns = 0
        # Gaps of one sequence, rows of `GapLog.passes` for those that waited for prompts, and passes of
        # retracted decoders.
        self.singles: list[tuple[int, Sequence]] = []
        self.lags: list[int] = []
        self.spans: list[tuple[Sequence, int, int]] = []
        # The pass in flight.
        self.selected: list[Sequence] = []
        self._starts = self._ends = 0  # sums of their tokens in pages, before and after
        # What the selection may still use: of the budgets, and tokens that are not reserved (`room`, give or
        # take `room_margin`; without what is reserved for decoders `left`).
        whole_pages = params.chunked_prefill_size // params.block_size * params.block_size
        # Tokens of a whole chunk; 0 if it is never computed in one pass.
        self.chunk_tokens = whole_pages if whole_pages <= params.max_prefill_tokens else 0
        self.input_left = self.chunk_left = self.left = 0
        self.room = self.room_margin = 0.0
        self.rejected: list[Sequence] = []
        self.refusal: Refusal | None = None  # why the head of the queue has to wait
        self.retracted = False
        self.prefills = False  # the pass computes tokens of prompts
        self.run_batch = self.run_context = self.pass_ns = self._opening = 0
        self._longest_prompt = params.total_kv_tokens
        if params.max_model_len is not None:
            self._longest_prompt = min(params.total_kv_tokens, params.max_model_len - 1)

    # Queue --------------------------------------------------------------------------------------------

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence that arrived on this rank."""
        params, pool, prompt = self.params, self.pool, sequence.input_tokens
        if not params.enable_prefix_caching:
            sequence.keys = None
            sequence.planned = False
        if (keys := sequence.keys) is not None:
            pool.stride = sequence.stride
            sequence.shared = len(keys) if sequence.planned else prompt // pool.page_size
        else:
            sequence.shared = 0
        sequence.leaf = pool.root
        sequence.computed = sequence.inserted = sequence.order = 0
        limit = params.max_model_len
        if limit is not None and sequence.end_tokens > limit:
            sequence.end_tokens = max(prompt, limit)
        if prompt > self._longest_prompt:
            over_limit = limit is not None and prompt >= limit
            sequence.reason = PROMPT_OVER_MODEL_LEN if over_limit else PROMPT_OVER_CAPACITY
        if sequence.reason is not None:
            self.doomed = True
        self.waiting.append(sequence)

    @property
    def has_work(self) -> bool:
        """Whether a pass can start."""
        return bool(self.waiting or self.decoders.count)

    @property
    def others_hold(self) -> bool:
        """Whether pages will become free although nobody decodes."""
        return self.held > 0

    @property
    def finishes(self) -> bool:
        """Whether somebody ends with the next pass that does not prefill, without decoding."""
        return False

    def promote(self, now_ns: int) -> None:
        """Let sequences that have their prompt decode: where prompts are computed there are none."""

    def _turn_away(self) -> None:
        """Reject the waiting sequences that can never be served."""
        self.doomed = False
        self.rejected += [sequence for sequence in self.waiting if sequence.reason is not None]
        self.waiting = deque(sequence for sequence in self.waiting if sequence.reason is None)

    def reject(self, sequence: Sequence, reason: str, tokens: int) -> None:
        """Reject a sequence with `tokens` tokens in pages."""
        sequence.reason = reason
        self.pool.release(sequence, tokens)
        self.rejected.append(sequence)

    def lost_spans(self) -> list[tuple[int, int]]:
        """List the pass intervals of decoders that did not complete, at the end of a replay."""
        passes = self.decoders.passes
        running = [(sequence, sequence.joined, passes) for sequence in self.decoders.members]
        return [
            (first, last)
            for sequence, first, last in (*self.spans, *running)
            if sequence.status != COMPLETED and first < last
        ]

    # Plan -----------------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> int:
        """Begin a pass at `now_ns`; return the number of identical passes planned (1 unless a run)."""
        self.run_batch = self.pass_ns = 0
        self.retracted = self.prefills = False
        if not (self.waiting or self.late) and (passes := self._plain_run()):
            return passes
        if self.doomed:
            self._turn_away()
        self.refusal = None
        if self.longest_first:
            sort_waiting(self)
        if self.waiting and not self.cooldown:
            self._select(now_ns)
        if self.selected:
            count = len(self.selected)
            self.pass_ns = self.timer.prefill_ns(count, self._ends // count, self._starts // count)
            self.prefills = self._ends > self._starts
            self._starts = self._ends = 0
            return 1
        if not self.decoders.count:
            return 1
        return self._plan_decode()

    def _select(self, now_ns: int) -> None:
        """Select prompts; a head that has to wait although nothing runs would wait for ever."""
        while self.waiting:
            self.refusal = admit_waiting(self, now_ns)
            if self.selected or self.decoders.count or self.refusal is None or self.others_hold:
                return
            head = self.waiting.popleft()
            self.reject(head, self.refusal.reason, head.computed)
            self.refusal = None

    def select(self, sequence: Sequence, start: int, end: int) -> None:
        """Compute the tokens of a prompt from `start` to `end` in this pass."""
        sequence.computed = end
        self.selected.append(sequence)
        self._starts += start
        self._ends += end

    def _plain_run(self) -> int:
        """Plan a run in which nothing but decoding can happen; 0 if pages may run out."""
        decoders, pool = self.decoders, self.pool
        count = decoders.count
        passes = decoders.next_due - decoders.passes
        pages = pool.free if self.planned else pool.free + pool.inactive
        if count * (passes // pool.page_size + 1) > pages:
            return 0
        self.run_batch = count
        self.run_context = decoders.context_tokens
        self._opening = 0
        return passes

    def _begin_decode(self) -> bool:
        """Take the pages that the decoders open, retracting some if need be; return whether any decodes."""
        decoders, pool = self.decoders, self.pool
        opening = decoders.opening()
        if opening > pool.free + pool.inactive:
            self._retract()
            opening = decoders.opening()
            if not decoders.count:
                return False
            if opening > pool.free + pool.inactive:
                self.lagging = True  # it has to wait
                self.estimate_from_nobody()
                return False
        pool.take(opening)
        self._opening = opening
        self.run_batch = decoders.count
        self.run_context = decoders.context_tokens
        return True

    def estimate_from_nobody(self) -> None:
        """Somebody has to wait, and nobody decodes: what is reserved is estimated anew, from no one."""
        self.ratio.restart(0.0)
        self.ratio.advance(not self.retracted)

    def _plan_decode(self) -> int:
        inactive = self.pool.inactive
        if not self._begin_decode() or self.retracted or self.rejected or self.late:
            return 1  # what follows differs, or somebody has to hear of it
        decoders, pool, opening = self.decoders, self.pool, self._opening
        passes = decoders.next_due - decoders.passes
        # Outputs that others have too are freed on the way, so that less is evicted than they open.
        blocks = opening + (pool.free if self.planned else pool.free + pool.inactive)
        if self.waiting:
            if self._sees_cache and pool.inactive < inactive:
                return 1  # an eviction for this pass may change who goes next, or what the head finds
            passes, blocks = self._while_waiting(passes, blocks)
        if decoders.count * (passes // self.params.block_size + 1) <= blocks:
            return passes
        return decoders.longest_within(passes, blocks)

    @property
    def _sees_cache(self) -> bool:
        """Whether who gets in next depends on what is cached."""
        return self.longest_first or (self.refusal is not None and self.refusal.sees_cache)

    def _while_waiting(self, passes: int, blocks: int) -> tuple[int, int]:
        """Limit a run to passes at whose start the queue is as it is and nobody gets in, and to its pages."""
        refusal = self.refusal
        sees_cache = self._sees_cache
        if self.planned and (refusal is not None or sees_cache):
            return 1, blocks  # outputs may complete what is looked for, or be freed
        if refusal is not None and refusal.by_pages:
            return 1, blocks  # looking for room touches the tree
        if sees_cache:
            blocks = self.pool.free + self._opening  # an eviction may change what is found
        if self.cooldown:
            passes = min(passes, self.cooldown)
        elif refusal is not None and refusal.tokens:
            passes = passes_until_admission(self, refusal.tokens, self._opening, passes)
        return passes, blocks

    def _retract(self) -> None:
        """Take out decoders until the next token of all others has room; a lone one can never go on.

        It may go on once others that hold pages meanwhile have let go of them.
        """
        decoders, pool = self.decoders, self.pool
        while decoders.opening() > pool.free + pool.inactive:
            if decoders.count == 1 and self.others_hold:
                break
            sequence = min(decoders.members, key=_generated)
            self._take_out(sequence)
            if not decoders.count:
                self.reject(sequence, SEQUENCE_OVER_CAPACITY, sequence.tokens)
                return
            pool.release(sequence, sequence.tokens)
            sequence.computed = 0
            self.waiting.append(sequence)
            self.retracted = True
        if not self.retracted:
            return
        prompts = sum([sequence.input_tokens for sequence in decoders.members])
        limits = sum([sequence.end_tokens for sequence in decoders.members]) - prompts
        expected = decoders.context_tokens - prompts + float(RETRACTION_STEPS) * decoders.count
        self.ratio.restart(min(1.0, expected / (limits + 1.0)))

    def _take_out(self, sequence: Sequence) -> None:
        self.decoders.remove(sequence)
        self.reservations.remove(sequence)
        self.planned -= sequence.planned
        if sequence.first_token_ns is not None:  # the span of a recent one ends before it begins
            self.spans.append((sequence, sequence.joined, self.decoders.passes))
        if sequence in self.recent:
            del self.recent[sequence]
        else:
            sequence.last_token_ns = self.last_decode_ns

    # Commit ---------------------------------------------------------------------------------------------

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the planned pass, or the first `passes` of the planned run; return what became terminal.

        `first_end_ns` is the end of the first of these passes.
        """
        terminal, self.rejected = self.rejected, []
        for sequence in terminal:
            sequence.status = REJECTED
            sequence.terminal_ns = end_ns
        if self.selected:
            selected, self.selected = self.selected, []
            terminal += self.end_prefill(selected, end_ns)
        elif self.run_batch:
            if self.lagging:
                self.catch_up(self.run_batch, first_end_ns)
            # What was taken when the pass began is the growth of the first one.
            terminal += self.decode(passes, self._opening, end_ns)
        elif not self.cooldown:
            self.ratio.advance(1)
        return terminal

    def decode(self, passes: int, opened: int, end_ns: int) -> list[Sequence]:
        """Let all decoders get `passes` tokens, the last at `end_ns`; return what completes.

        `opened` of the pages they open are taken already.
        """
        decoders, pool = self.decoders, self.pool
        self.last_decode_ns = end_ns
        # Of a lone pass all that they open may be taken already.
        if not (passes == 1 and opened) and (pages := decoders.demand(passes) - opened):
            pool.take(pages)
        # `DecodeSet.advance`, without the call.
        done = decoders.passes = decoders.passes + passes
        decoders.context_tokens += passes * decoders.count
        if pool.appointments:
            pool.grow(done)
        else:
            pool.passes = done
        if not self.retracted:
            self.ratio.steps += passes  # `ReservationRatio.advance`, without the call
        return self.finish_due(end_ns) if done >= decoders.next_due else []

    def finish_due(self, end_ns: int) -> list[Sequence]:
        """Complete the decoders that have all their tokens; they got the last at `end_ns`."""
        decoders = self.decoders
        finished = decoders.pop_finished()
        self.reservations.finish(len(finished), decoders.passes)
        complete = self.pool.complete
        if self.planned or self.recent:
            for sequence in finished:
                self.planned -= sequence.planned
                self.recent.pop(sequence, None)
        for sequence in finished:
            complete(sequence, sequence.tokens)
            sequence.status = COMPLETED
            sequence.last_token_ns = sequence.terminal_ns = end_ns
        return finished

    def catch_up(self, batch: int, end_ns: int) -> None:
        """Note the gaps of the first decode pass after others: decoders waited, or joined in between."""
        recent, passes = self.recent, self.decoders.passes
        if others := batch - len(recent):
            self.lags += (end_ns - self.last_decode_ns, others, passes)
        self.recent = {}
        for sequence in recent:
            last_ns = sequence.last_token_ns
            if last_ns is None:
                # Its first token had no page when its prefill ended; the next gap is its own again.
                sequence.first_token_ns = sequence.last_token_ns = end_ns
                sequence.joined = passes + 2
                self.recent[sequence] = None
                continue
            self.singles.append((end_ns - last_ns, sequence))
            if sequence.second_token_ns is None:
                sequence.second_token_ns = end_ns
        self.late = False
        self.lagging = bool(self.recent)

    def end_prefill(self, selected: list[Sequence], end_ns: int) -> list[Sequence]:
        """Cache what was computed; prompts that are complete emit a token, then decode or complete.

        Return those that completed.
        """
        pool, page_size = self.pool, self.pool.page_size
        self.lagging = True
        joining: list[Sequence] = []
        ending: list[Sequence] = []
        for sequence in selected:
            computed, tokens = sequence.computed, sequence.tokens
            if computed < tokens:
                pool.cache(sequence, computed // page_size)
                self.waiting.appendleft(sequence)
            elif sequence.end_tokens > tokens + 1:
                joining.append(sequence)
            else:
                ending.append(sequence)
        if joining:
            self.join(joining, end_ns)
        if ending:
            self.end(ending, end_ns)
        return ending

    def end(self, ending: list[Sequence], end_ns: int) -> None:
        """Complete sequences with their prefill: those without output, then those with one token left."""
        ending.sort(key=tokens_left)
        for sequence in ending:
            if sequence.end_tokens > sequence.tokens:
                self._emit(sequence, end_ns)
            self._complete(sequence, sequence.computed, end_ns)

    def join(self, joining: list[Sequence], end_ns: int) -> None:
        """Let sequences decode from the next pass on, with a token now if all their tokens have a page."""
        pool, page_size = self.pool, self.params.block_size
        opening = sum([sequence.tokens % page_size == 0 for sequence in joining])
        fits = opening <= pool.free + pool.inactive
        if not fits:
            pool.evict_all()
            self.late = True
        elif opening:
            pool.take(opening)
        for sequence in joining:
            if fits:
                self._emit(sequence, end_ns)
                pool.cache(sequence, sequence.tokens // page_size)
            self.add_decoder(sequence)

    def join_one(self, sequence: Sequence, end_ns: int) -> None:
        """`join` for a sequence that joins alone, as most do."""
        pool, page_size, tokens = self.pool, self.params.block_size, sequence.tokens
        if tokens % page_size == 0:
            if not pool.free + pool.inactive:
                self.join([sequence], end_ns)
                return
            pool.take(1)
        self._emit(sequence, end_ns)
        pool.cache(sequence, (tokens + 1) // page_size)
        self.add_decoder(sequence)

    def add_decoder(self, sequence: Sequence) -> None:
        """Let a sequence whose tokens all have a page decode from the next pass on."""
        self.entered = sequence.order = self.entered + 1
        self.decoders.add(sequence)
        sequence.joined += 1  # its gap in the next pass is noted as its own
        self.pool.begin_growth(sequence)
        self.reservations.add(sequence, self.decoders.passes)
        if sequence.planned:
            self.planned += 1
        self.recent[sequence] = None

    def _emit(self, sequence: Sequence, end_ns: int) -> None:
        """Let a sequence whose prefill ended emit a token."""
        if sequence.first_token_ns is None:
            sequence.first_token_ns = end_ns
        else:
            assert sequence.last_token_ns is not None
            self.singles.append((end_ns - sequence.last_token_ns, sequence))
            if sequence.second_token_ns is None:
                sequence.second_token_ns = end_ns
        sequence.last_token_ns = end_ns
        sequence.tokens += 1

    def _complete(self, sequence: Sequence, tokens: int, end_ns: int) -> None:
        self.pool.complete(sequence, tokens)
        sequence.status = COMPLETED
        sequence.terminal_ns = end_ns


def _generated(sequence: Sequence) -> int:
    """Order decoders by their generated tokens (all have grown in the same passes)."""
    return sequence.base - sequence.input_tokens


def tokens_left(sequence: Sequence) -> int:
    """Tokens to generate."""
    return sequence.end_tokens - sequence.tokens
