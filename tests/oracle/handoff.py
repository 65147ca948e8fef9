"""Ranks of prefill and decode workers, one pass at a time (spec 01 section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .content import Identities
from .request import Request
from .scheduler import Pass, RankScheduler


@dataclass(eq=False)
class Handoff:
    """One request on its way: `source` is its prefill, `request` its decoding; instants are whole ns."""

    number: int
    request: Request
    source: Request = field(init=False)
    prefill: int = 0  # worker index
    reached_prefill: bool = False  # was queued there
    decode: int | None = None
    rank: int = 0  # of the decode worker
    accepted: int = 0  # place in the order in which its decode rank heard of it
    attempted: int | None = None  # releases of that rank at the last attempt to reserve
    missing_tokens: int = 0
    held_ns: int | None = None
    reserved_ns: int | None = None
    activated_ns: int | None = None
    released_ns: int | None = None

    def __post_init__(self) -> None:
        plan = self.request
        self.source = Request(
            plan.session_id, plan.turn_index, plan.arrival_ns, list(plan.tokens), plan.output[:1]
        )


class PrefillRank(RankScheduler):
    """Computes prompts. Those that are done keep their blocks until they are released."""

    def __init__(self, rank: dict[str, Any], identities: Identities) -> None:
        super().__init__(rank, identities)
        self.timing.decode_ns = lambda lengths: 0  # type: ignore[method-assign]
        self.timing.beside_ns = self.timing.decode_ns  # type: ignore[method-assign]
        self.done: list[Request] = []
        self.kept: list[Request] = []  # have nothing to generate, and end with the pass in flight
        self.held = 0

    @property
    def others_hold(self) -> bool:
        """Whether computed prompts are still here."""
        return self.held > 0 or bool(self.kept)

    def settle(self, work: Pass, end_ns: int) -> list[Request]:
        """End a pass; returns rejected requests, then those whose prompt is computed."""
        self.done, self.kept = [], []
        return super().settle(work, end_ns) + self.done

    def release(self, request: Request) -> None:
        """Give back the blocks of a computed prompt."""
        self.pool.release(request.blocks)
        self.held -= 1

    def _let_go(self, request: Request) -> None:
        """Keep the blocks: they are to be handed over."""
        self.kept.append(request)

    def _complete(self, request: Request, end_ns: int) -> None:
        if request in self.running:
            self.running.remove(request)
        self.done.append(request)
        self.held += 1

    def _impossible(self, request: Request, hits: list[Any]) -> str | None:
        reason = super()._impossible(request, hits)
        if self.trtllm and self._blocks_needed(request) > self.num_gpu_blocks:
            return reason
        waits = ("sequence_exceeds_kv_capacity", "prompt_exceeds_token_budget")
        return None if self.held and reason in waits else reason


class DecodeRank(RankScheduler):
    """Reserves blocks for prompts, then decodes; what it computes again takes no time."""

    def __init__(self, rank: dict[str, Any], identities: Identities, number: int = 0) -> None:
        super().__init__(rank, identities, number)
        self.timing.prefill_ns = lambda spans: 0  # type: ignore[method-assign]
        self.timing.beside_ns = self.timing.decode_ns  # type: ignore[method-assign]
        self.pending: list[Handoff] = []
        self.reserved: list[Handoff] = []
        self.arrived: dict[Request, Handoff] = {}  # activated, and not admitted yet
        self.order: dict[Request, int] = {}
        self.releases = 0
        self.last_resort = False

    @property
    def others_hold(self) -> bool:
        """Whether there are prompts for requests that do not run yet."""
        return bool(self.reserved or self.arrived)

    @property
    def expects(self) -> bool:
        """Whether a prompt is on its way here, or waits for blocks."""
        return bool(self.pending or self.reserved)

    @property
    def stuck(self) -> bool:
        """Whether somebody waits for others although nothing may happen any more."""
        return bool(self.arrived)

    # Destinations -------------------------------------------------------------------------------------

    def accept(self, handoff: Handoff) -> str | None:
        """Hear of a destination; returns why it can never be one."""
        handoff.accepted = len(self.order)
        request = handoff.request
        self.order[request] = handoff.accepted
        if self.max_model_len is not None and request.isl >= self.max_model_len:
            return "prompt_exceeds_max_model_len"
        if self._prompt_blocks(request) > self.num_gpu_blocks:
            return "prompt_exceeds_kv_capacity"
        if self.trtllm and self._blocks_needed(request) > self.num_gpu_blocks:
            return "sequence_exceeds_kv_capacity"
        self.pending.append(handoff)
        return None

    def attempt(self) -> Handoff | None:
        """Try to reserve blocks for the first destination, once per release of anything."""
        if not self.pending or self.pending[0].attempted == self.releases:
            return None
        handoff = self.pending[0]
        handoff.attempted = self.releases
        if not self._has_seat:
            return None
        request = handoff.request
        prompt = request.tokens[: request.isl]
        shares = self.caching and not self.trtllm
        hits = self.pool.lookup(self.identities.of(prompt, self.block_size)) if shares else []
        fresh = self._prompt_blocks(request) - len(hits)
        left = self.num_gpu_blocks - self.pool.active - self._owed()
        if self.trtllm and self._blocks_needed(request) > left:
            return None
        blocks = self.pool.allocate(hits, fresh)
        if blocks is None:
            return None
        request.blocks = blocks
        handoff.missing_tokens = fresh * self.block_size
        self.reserved.append(self.pending.pop(0))
        return handoff

    def _prompt_blocks(self, request: Request) -> int:
        return -(-request.isl // self.block_size)

    def _owed(self) -> int:
        """Blocks promised to those that have a prompt here, beyond what they hold."""
        coming = [handoff.request for handoff in self.reserved]
        owners = [*self.running, *self.leaving, *self.arrived, *coming]
        return sum(self._blocks_needed(request) - len(request.blocks) for request in owners)

    def activate(self, handoff: Handoff) -> None:
        """The prompt is here: cache it, and queue the request in the order of acceptance."""
        request = handoff.request
        self.reserved.remove(handoff)
        request.computed = request.most_computed = request.isl
        if self.caching:
            identities = self.identities.of(request.tokens, self.block_size)
            for block, identity in zip(request.blocks, identities, strict=False):
                if block.identity is None:
                    self.pool.cache(block, identity)
        self.arrived[request] = handoff
        later = [queued for queued in self.waiting if self.order[queued] > handoff.accepted]
        self.waiting.insert(self.waiting.index(later[0]) if later else len(self.waiting), request)

    # Passes -------------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> Pass:
        """Choose the work of a pass that starts now and price it."""
        work = super().plan(now_ns)
        self.last_resort = False
        return work

    def _admit_waiting(self, work: Pass) -> None:
        while self.waiting and not work.preempted_any and self._has_seat:
            request = self._next(work)
            if request is None:
                return
            if request.status:  # rejected just now
                continue
            had_budget = work.budget > 0
            if not self._admit(request, work) or not had_budget:
                return

    def _next(self, work: Pass) -> Request | None:
        if self.pending:
            return min(self.arrived, key=lambda request: self.order[request], default=None)
        head = self.waiting[0]
        if self.last_resort and self.arrived and self.acceptance is not None:
            return self._of_last_resort()
        can_enter = not head.hopeless and (self.running or self.leaving or self._can_enter(head, work))
        if head in self.arrived or can_enter:
            return head
        if self.arrived and not head.hopeless:
            return self._of_last_resort()
        if head.hopeless or not self.reserved:
            reason = self._impossible(head, self._hits(head))
            assert reason is not None
            self.waiting.remove(head)
            work.rejected.append((head, reason))
            head.status = "rejected"
            return head
        return None

    def _of_last_resort(self) -> Request | None:
        """Whom to let pass a head that waits for blocks: only when nothing else would ever happen."""
        if not self.last_resort:
            return None
        self.last_resort = False
        return min(self.arrived, key=lambda request: self.order[request])

    def _can_enter(self, request: Request, work: Pass) -> bool:
        hits = self._hits(request)
        cached = self._most_cached(request, hits) * self.block_size
        whole = self.chunking or request.isl - cached <= work.budget
        return self._fits(request, hits) and whole and work.budget > 0

    def _admit(self, request: Request, work: Pass) -> bool:
        if request in self.arrived:
            del self.arrived[request]
            reused = 0
            self._schedule(request, [], work)
        else:
            hits = self._hits(request)
            pinned = hits[: self._most_cached(request, hits)]
            fits = self._fits(request, hits)
            if self.deferring and request.length - len(pinned) * self.block_size > 1:
                fits = False
            scheduled = fits and self._schedule(request, pinned, work).name
            if scheduled != "SCHEDULED":
                return False
            reused = len(pinned) * self.block_size
        self.waiting.remove(request)
        self.running.append(request)
        request.admissions.append((work.now_ns, reused))
        return True

    def _preempt(self, work: Pass) -> Request:
        self.releases += 1
        return super()._preempt(work)

    def _complete(self, request: Request, end_ns: int) -> None:
        self.releases += 1
        super()._complete(request, end_ns)
