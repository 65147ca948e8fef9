"""The vLLM scheduler of one rank, one pass at a time (spec 01 section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

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

    def __init__(self, rank: dict[str, Any], identities: Identities) -> None:
        self.block_size: int = rank["block_size"]
        self.num_gpu_blocks: int = rank["num_gpu_blocks"]
        self.max_num_seqs: int = rank.get("max_num_seqs", 256)
        self.budget: int = rank.get("max_num_batched_tokens", 8192)
        self.max_model_len: int | None = rank.get("max_model_len")
        self.caching: bool = rank.get("enable_prefix_caching", True)
        self.chunking: bool = rank.get("enable_chunked_prefill", True)
        self.fifo: bool = rank.get("preemption_mode", "lifo") == "fifo"
        self.fused: bool = rank.get("timing_mode", "additive") == "fused"
        self.identities = identities
        self.pool = Pool(self.num_gpu_blocks)
        self.timing = Timing(rank, self.num_gpu_blocks * self.block_size)
        self.running: list[Request] = []
        self.waiting: list[Request] = []

    @property
    def ready(self) -> bool:
        """Whether a pass would have anything to look at."""
        return bool(self.running or self.waiting)

    def plan(self, now_ns: int) -> Pass:
        """Choose the work of a pass that starts now and price it."""
        work = Pass(now_ns, self.budget)
        self._continue_running(work)
        self._admit_waiting(work)
        for request in self.running:
            if request.computed < request.length:
                continue
            if self._remaining(request) == 0:
                work.finished.append(request)
                continue
            work.emitting.append(request)
        work.duration_ns = self._fused_ns(work) if self.fused else self._additive_ns(work)
        return work

    def _additive_ns(self, work: Pass) -> int:
        """A prefill forward, then a decode forward."""
        # The prefill forward that completes a prompt samples the first token itself.
        decoding = [
            request.length
            for request in work.emitting
            if request.emitted > 0 or work.prompt_span(request) is None
        ]
        spans = [span for span in map(work.prompt_span, work.computed) if span]
        return self.timing.prefill_ns(spans) + self.timing.decode_ns(decoding)

    def _fused_ns(self, work: Pass) -> int:
        """One forward over everything that is computed; without any prefill, a decode forward."""
        chunks = {
            request: span
            for request, span in work.computed.items()
            if not request.decoding and span[0] < span[1]
        }
        decoding = [request.length for request in work.emitting if request not in chunks]
        if not chunks:
            return self.timing.decode_ns(decoding)
        return self.timing.fused_ns(list(chunks.values()), decoding)

    def settle(self, work: Pass, end_ns: int) -> list[Request]:
        """Make the outcome of a pass visible at its end; returns the requests that became terminal."""
        for request, reason in work.rejected:
            request.end(end_ns, "rejected", reason)
        for request in work.finished:
            self._complete(request, end_ns)
        for request in work.emitting:
            request.emit(end_ns)
            if self._remaining(request) == 0:
                self._complete(request, end_ns)
        ended = [request for request, _ in work.rejected] + work.finished + work.emitting
        return [request for request in ended if request.status]

    # Running requests -----------------------------------------------------------------------------

    def _continue_running(self, work: Pass) -> None:
        index = 0
        while index < len(self.running) and work.budget > 0:
            step = self._schedule(self.running[index], [], work)
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
            self.pool.cache(request.blocks[index], identities[index])

    def _preempt(self, work: Pass) -> Request:
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
        while self.waiting and not work.preempted_any and len(self.running) < self.max_num_seqs:
            head = self.waiting[0]
            hits = self._hits(head)
            reason = self._impossible(head, hits)
            if reason:
                work.rejected.append((self.waiting.pop(0), reason))
                continue
            pinned = hits[: self._most_cached(head)]
            if not self._fits(head, hits) or self._schedule(head, pinned, work) is not Step.SCHEDULED:
                break
            self.waiting.remove(head)
            self.running.append(head)
            head.admissions.append((work.now_ns, len(pinned) * self.block_size))
            before, after = work.computed[head]
            if before == after and work.budget == 0:
                break

    def _hits(self, request: Request) -> list[Block]:
        """Resident blocks of the leading part of the known sequence."""
        if not self.caching:
            return []
        # A generated block has an identity only once it was computed, a prompt block from the start.
        known = request.tokens[: max(request.isl, request.most_computed)]
        return self.pool.lookup(self.identities.of(known, self.block_size))

    def _most_cached(self, request: Request) -> int:
        """Blocks that may be taken from the cache: something must be computed to sample a token from."""
        known = request.length - (self._remaining_output(request) > 0)
        return known // self.block_size

    def _blocks_needed(self, request: Request) -> int:
        return -(-request.length // self.block_size)

    def _fits(self, request: Request, hits: list[Block]) -> bool:
        """Whether the whole known sequence has room, even if only a chunk of it will run now.

        The referenced hits are counted before the last-block rule cuts them. With several copies of a block
        that can promise too much: then a running request is preempted for the head, as in the reference.
        """
        referenced = sum(block.references > 0 for block in hits)
        needed = self._blocks_needed(request) - min(referenced, self._most_cached(request))
        return needed <= self.num_gpu_blocks - self.pool.active

    def _impossible(self, request: Request, hits: list[Block]) -> str | None:
        """Why the request can never run, None when it can or may yet."""
        if self.max_model_len is not None and request.isl >= self.max_model_len:
            return "prompt_exceeds_max_model_len"
        if not request.preempted and self._blocks_needed(request) > self.num_gpu_blocks:
            return "prompt_exceeds_kv_capacity"
        if self.running:
            return None
        # Nothing is running, so nothing will ever change for the head: waiting on would be for ever.
        if not self._fits(request, hits):
            return "sequence_exceeds_kv_capacity"
        cached = min(len(hits), self._most_cached(request)) * self.block_size
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
        return remaining

    def _complete(self, request: Request, end_ns: int) -> None:
        self.running.remove(request)
        self.pool.release(request.blocks)
        request.blocks = []
        request.end(end_ns, "completed")
