"""The vLLM and TensorRT-LLM schedulers of one rank, one pass at a time (spec 01 sections 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from aisimulate.engine.speculation import Acceptance

from .content import Identities
from .pool import Block, Pool
from .request import Request
from .timing import Timing


class Step(Enum):
    """What became of an attempt to schedule a request."""

    SCHEDULED = 1
    BLOCKED = 2
    SELF_PREEMPTED = 3


@dataclass
class Pass:
    """A pass under construction, then its outcome."""

    now_ns: int
    budget: int
    computed: dict[Request, tuple[int, int]] = field(default_factory=dict)  # request: (before, after)
    preempted_any: bool = False
    rejected: list[tuple[Request, str]] = field(default_factory=list)
    finished: list[Request] = field(default_factory=list)  # nothing left to generate: end without a token
    emitting: list[Request] = field(default_factory=list)
    duration_ns: int = 0

    def prompt_span(self, request: Request) -> tuple[int, int] | None:
        """(before, after) of the prompt tokens this pass computes for the request, None without any."""
        before, after = self.computed.get(request, (0, 0))
        span = min(before, request.isl), min(after, request.isl)
        return span if span[0] < span[1] else None


class RankScheduler:
    """Waiting queue, running list and pool of one rank. `plan` starts a pass, `settle` ends it."""

    def __init__(self, rank: dict[str, Any], identities: Identities, number: int = 0) -> None:
        self.block_size: int = rank["block_size"]
        self.num_gpu_blocks: int = rank["num_gpu_blocks"]
        self.max_num_seqs: int = rank.get("max_num_seqs", 256)
        self.budget: int = rank.get("max_num_batched_tokens", 8192)
        self.max_model_len: int | None = rank.get("max_model_len")
        self.caching: bool = rank.get("enable_prefix_caching", True)
        self.chunking: bool = rank.get("enable_chunked_prefill", True)
        self.fifo: bool = rank.get("preemption_mode", "lifo") == "fifo"
        self.fused: bool = rank.get("timing_mode", "additive") != "additive"
        self.trtllm: bool = rank.get("backend") == "trtllm"
        self.identities = identities
        self.pool = Pool(self.num_gpu_blocks)
        self.timing = Timing(rank, self.num_gpu_blocks * self.block_size)
        self.acceptance = acceptance_of(rank, number)
        self.fruitless = 0  # passes with preemptions since anything came of one
        self.deferring = self.capacity_bound = False  # of the prefill cadence
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.leaving: list[Request] = []  # have all their tokens, but end with the pass in flight

    @property
    def ready(self) -> bool:
        """Whether a pass would have anything to look at."""
        return bool(self.running or self.waiting)

    @property
    def others_hold(self) -> bool:
        """Whether requests that do not run hold blocks, which they will give back."""
        return False

    @property
    def expects(self) -> bool:
        """Whether a prompt is on its way here."""
        return False

    @property
    def has_decoder(self) -> bool:
        """Whether a running request has its prompt computed."""
        return any(request.computed >= request.isl for request in self.running)

    def plan(self, now_ns: int) -> Pass:
        """Choose the work of a pass that starts now and price it."""
        work = Pass(now_ns, self.budget)
        self._continue_running(work)
        self._admit_waiting(work)
        if not self.deferring and not work.preempted_any:
            self.capacity_bound = bool(self.waiting)
        # Whatever was preempted for the bursts of others is paid for nevertheless.
        spans = [span for span in map(work.prompt_span, work.computed) if span]
        chunks = {
            request: span
            for request, span in work.computed.items()
            if not request.decoding and span[0] < span[1]
        }
        self._choose_emitting(work)
        self._break_up(work)
        work.duration_ns = self._fused_ns(work, chunks) if self.fused else self._additive_ns(work, spans)
        return work

    def _additive_ns(self, work: Pass, spans: list[tuple[int, int]]) -> int:
        """A prefill forward, then a decode forward."""
        decoding = [request.length for request in work.emitting if self._needs_decode(request, work)]
        if not spans:
            return self.timing.decode_ns(decoding)
        return self.timing.prefill_ns(spans) + self.timing.beside_ns(decoding)

    def _fused_ns(self, work: Pass, chunks: dict[Request, tuple[int, int]]) -> int:
        """One forward over everything that is computed; without any prefill, a decode forward."""
        decoding = [
            request.length
            for request in work.emitting
            if self.acceptance is not None or request not in chunks
        ]
        if not chunks:
            return self.timing.decode_ns(decoding)
        return self.timing.fused_ns(list(chunks.values()), decoding)

    def _choose_emitting(self, work: Pass) -> None:
        computed = [request for request in self.running if request.computed == request.length]
        work.finished = [request for request in computed if self._remaining(request) == 0]
        work.emitting = [request for request in computed if self._remaining(request) > 0]
        if self.acceptance is None:
            return
        for request in work.finished:
            self.running.remove(request)
            self._let_go(request)
        while work.emitting and not self.pool.set_aside(self._longest_bursts(work.emitting)):
            victim = self._preempt(work)
            work.emitting = [request for request in work.emitting if request is not victim]
            if not self.running and not self.others_hold:
                victim.hopeless = True

    def _let_go(self, request: Request) -> None:
        """Give back the blocks of a request that has nothing to generate."""
        self.pool.release(request.blocks)
        request.blocks = []

    def _break_up(self, work: Pass) -> None:
        """Requests that preempt each other without end: give one up."""
        if work.emitting or work.finished or work.rejected:
            self.fruitless = 0
        elif work.preempted_any:
            self.fruitless += 1
            if self.goes_in_circles and not self.others_hold:
                self.waiting[0].hopeless = True

    @property
    def goes_in_circles(self) -> bool:
        """Whether so many passes came to nothing that none ever will."""
        return self.fruitless > 64 + 4 * (len(self.running) + len(self.waiting))

    def _longest_bursts(self, requests: list[Request]) -> int:
        """Blocks that these requests would open if every drafted token were accepted."""
        assert self.acceptance is not None
        most = self.acceptance.most_tokens
        lengths = [request.length + min(most, self._remaining(request)) for request in requests]
        return sum(
            -(-length // self.block_size) - len(request.blocks)
            for request, length in zip(requests, lengths, strict=True)
        )

    def _needs_decode(self, request: Request, work: Pass) -> bool:
        # The prefill forward that completes a prompt samples the first token, unless drafts are verified.
        sampled = request.emitted == 0 and work.prompt_span(request) is not None
        return self.acceptance is not None or not sampled

    def settle(self, work: Pass, end_ns: int) -> list[Request]:
        """Make the outcome of a pass visible at its end; returns the requests that became terminal."""
        for request, reason in work.rejected:
            request.end(end_ns, "rejected", reason)
        for request in work.finished:
            self._complete(request, end_ns)
        for request in work.emitting:
            self._emit(request, end_ns)
            if self._remaining(request) == 0:
                self._complete(request, end_ns)
        self.pool.return_rest()
        ended = [request for request, _ in work.rejected] + work.finished + work.emitting
        return [request for request in ended if request.status]

    def _emit(self, request: Request, end_ns: int) -> None:
        if self.acceptance is None:
            request.emit(end_ns)
            return
        if request.bursts is None:
            request.bursts = self.acceptance.stream(request.number)
        for _ in range(min(next(request.bursts), self._remaining(request))):
            self._cache_completed(request, request.length - 1, request.length)
            request.emit(end_ns)
            if -(-request.length // self.block_size) > len(request.blocks):
                request.blocks.append(self.pool.use_set_aside())
        request.computed = request.most_computed = request.length - 1

    # Running requests -----------------------------------------------------------------------------

    def _continue_running(self, work: Pass) -> None:
        index = 0
        while index < len(self.running) and work.budget > 0:
            request = self.running[index]
            if self.deferring and request.computed < request.isl:
                index += 1
                continue
            step = self._schedule(request, [], work)
            if step is Step.BLOCKED:
                break
            # A fifo victim before `index` shifts the list: the next request is skipped, as in the peer.
            if step is Step.SCHEDULED:
                index += 1

    def _schedule(self, request: Request, hits: list[Block], work: Pass) -> Step:
        before = request.computed or len(hits) * self.block_size
        if not self.chunking and request.isl - before > work.budget:
            return Step.BLOCKED
        after = before + min(request.length - before, work.budget)
        if after == before < request.length:
            return Step.BLOCKED
        while not self._grow(request, hits, after):
            if self._preempt(work) is request:
                return Step.SELF_PREEMPTED
        work.budget -= after - before
        work.computed[request] = (before, after)
        request.computed = after
        request.most_computed = max(request.most_computed, after)
        self._cache_completed(request, before, after)
        return Step.SCHEDULED

    def _grow(self, request: Request, hits: list[Block], tokens: int) -> bool:
        held = len(request.blocks)
        target = max(held, -(-tokens // self.block_size))
        blocks = self.pool.allocate(hits, target - held - len(hits))
        if blocks is None:
            return False
        request.blocks += blocks
        return True

    def _cache_completed(self, request: Request, before: int, after: int) -> None:
        if not self.caching:
            return
        identities = self.identities.of(request.tokens, self.block_size)
        for index in range(before // self.block_size, after // self.block_size):
            if request.blocks[index].identity is None:
                self.pool.cache(request.blocks[index], identities[index])

    def _preempt(self, work: Pass) -> Request:
        assert not self.trtllm, "every admitted request was promised all its blocks"
        victim = self.running.pop(0 if self.fifo else -1)
        self.pool.release(victim.blocks)
        before, after = work.computed.pop(victim, (0, 0))
        work.budget += after - before
        work.preempted_any = True
        victim.blocks, victim.computed, victim.preempted, victim.decoding = [], 0, True, False
        self.waiting.insert(0, victim)
        return victim

    # Waiting requests -----------------------------------------------------------------------------

    def _admit_waiting(self, work: Pass) -> None:
        while self.waiting and not work.preempted_any and self._has_seat:
            head = self.waiting[0]
            hits = self._hits(head)
            reason = self._impossible(head, hits)
            if reason:
                work.rejected.append((self.waiting.pop(0), reason))
                continue
            pinned = hits[: self._most_cached(head, hits)]
            if not self._fits(head, hits):
                break
            if self.deferring and head.length - len(pinned) * self.block_size > 1:
                break
            if self._schedule(head, pinned, work) is not Step.SCHEDULED:
                break
            self.waiting.remove(head)
            self.running.append(head)
            head.admissions.append((work.now_ns, len(pinned) * self.block_size))
            before, after = work.computed[head]
            if before == after and work.budget == 0:
                break

    @property
    def _has_seat(self) -> bool:
        return len(self.running) + len(self.leaving) < self.max_num_seqs

    def _hits(self, request: Request) -> list[Block]:
        """Resident blocks of the leading part of the known sequence."""
        if not self.caching:
            return []
        # A generated block has an identity only once it was computed, a prompt block from the start.
        known = request.tokens[: max(request.isl, request.most_computed)]
        return self.pool.lookup(self.identities.of(known, self.block_size))

    def _most_cached(self, request: Request, hits: list[Block]) -> int:
        """Blocks that may be taken from the cache: something must be computed to sample a token from."""
        if self.trtllm or self._remaining_output(request) == 0:
            return len(hits)
        blocks = min(len(hits), (request.length - 1) // self.block_size)
        # The draft head needs the hidden states of the last cached block.
        return blocks - 1 if blocks and self.acceptance is not None else blocks

    def _blocks_needed(self, request: Request) -> int:
        length = self._final_length(request) if self.trtllm else request.length
        return -(-length // self.block_size)

    def _final_length(self, request: Request) -> int:
        """Length at completion: what TensorRT-LLM sets blocks aside for."""
        wanted = request.isl + len(request.output)
        if self.max_model_len is not None:
            wanted = min(wanted, max(request.isl, self.max_model_len))
        room = self.num_gpu_blocks * self.block_size
        return min(wanted, room) if request.isl < room else wanted

    def _fits(self, request: Request, hits: list[Block]) -> bool:
        """Whether the whole known sequence has room, even if only a chunk of it will run now.

        The referenced hits are counted before the last-block rule cuts them. With several copies of a block
        that can promise too much: then a running request is preempted for the head, as in the reference.
        """
        referenced = sum(block.references > 0 for block in hits)
        needed = self._blocks_needed(request) - min(referenced, self._most_cached(request, hits))
        promised = 0
        if self.trtllm:
            admitted = self.running + self.leaving
            promised = sum(self._blocks_needed(other) - len(other.blocks) for other in admitted)
        return needed <= self.num_gpu_blocks - self.pool.active - promised

    def _impossible(self, request: Request, hits: list[Block]) -> str | None:
        """Why the request can never run, None when it can or may yet."""
        if self.max_model_len is not None and request.isl >= self.max_model_len:
            return "prompt_exceeds_max_model_len"
        if not request.preempted and -(-request.isl // self.block_size) > self.num_gpu_blocks:
            return "prompt_exceeds_kv_capacity"
        if self.trtllm and self._blocks_needed(request) > self.num_gpu_blocks:
            return "sequence_exceeds_kv_capacity"
        if request.hopeless:
            return "sequence_exceeds_kv_capacity"
        if self.running or self.leaving:
            return None
        # Nothing is running, so nothing will ever change for the head: waiting on would be for ever.
        if not self._fits(request, hits):
            return "sequence_exceeds_kv_capacity"
        cached = self._most_cached(request, hits) * self.block_size
        if not self.chunking and request.isl - cached > self.budget:
            return "prompt_exceeds_token_budget"
        return None

    # Endings --------------------------------------------------------------------------------------

    def _remaining_output(self, request: Request) -> int:
        return len(request.output) - request.emitted

    def _remaining(self, request: Request) -> int:
        remaining = self._remaining_output(request)
        if self.max_model_len is not None:
            remaining = min(remaining, max(0, self.max_model_len - request.length))
        if self.trtllm:
            remaining = min(remaining, self._final_length(request) - request.length)
        return remaining

    def _complete(self, request: Request, end_ns: int) -> None:
        if request in self.running:
            self.running.remove(request)
        self.pool.release(request.blocks)
        request.blocks = []
        request.end(end_ns, "completed")


def acceptance_of(rank: dict[str, Any], number: int) -> Acceptance | None:
    """What decides about the drafts of rank `number` of all workers."""
    nextn = rank.get("aic_nextn")
    if nextn is None:
        return None
    rates = tuple(map(float, rank.get("aic_nextn_accept_rates", "0.85,0.3").split(",")))
    return Acceptance(nextn, rates, rank.get("aic_mtp_seed", 42) + number)
