"""Pools of SGLang, where the destination of a prompt is reserved first (spec 01 section 6)."""

from __future__ import annotations

from typing import Any

from .content import Identities
from .disagg import DisaggFleet, Worker
from .handoff import Handoff
from .request import Request
from .sglang import Held, Pass, SglangScheduler


class SglangPrefillRank(SglangScheduler):
    """Computes prompts. Those that are done keep their pages until they are released."""

    kept = 0

    @property
    def others_hold(self) -> bool:
        """Whether computed prompts are still here."""
        return self.kept > 0

    def release(self, request: Request) -> None:
        """Give back the pages of a computed prompt, which stays cached."""
        self.kept -= 1
        held = self.held[request]
        if self.caching:
            keys = self._keys(request, request.computed)
            self.tree.insert(held.node, keys[held.cached :])
            held.cached = len(keys)
        self._release(request)

    def _complete(self, request: Request, end_ns: int) -> None:
        self.kept += 1


class SglangDecodeRank(SglangScheduler):
    """Reserves pages for prompts, then decodes; what it computes again takes no time."""

    taken = 0  # slots of those who end with the pass in flight, where the next one is planned meanwhile

    def __init__(self, rank: dict[str, Any], identities: Identities, dp_size: int, number: int) -> None:
        super().__init__(rank, identities, dp_size, number)
        self.timing.prefill_ns = lambda spans: 0  # type: ignore[method-assign]
        self.pending: list[Handoff] = []
        self.reserved = 0  # prompts to come that have pages
        self.arrived: list[Request] = []  # have their prompt, and no slot yet
        self.finishing: list[Request] = []  # have nothing to generate
        self.releases = 0
        self.last_resort = False

    # Destinations -------------------------------------------------------------------------------------

    @property
    def others_hold(self) -> bool:
        """Whether there are pages of prompts to come, or of requests that end with this pass."""
        return bool(self.reserved or self.finishing)

    @property
    def stuck(self) -> bool:
        """Whether somebody waits for a destination although nothing may happen any more."""
        return bool(self.pending and self.waiting)

    @property
    def is_due(self) -> bool:
        """Whether the first destination is to be tried."""
        return bool(self.pending) and self.pending[0].attempted != self.releases

    @property
    def ready(self) -> bool:
        """Whether a pass would have anything to look at."""
        return bool(super().ready or self.arrived or self.finishing or self.is_due)

    def accept(self, handoff: Handoff) -> str | None:
        """Hear of a destination; returns why it can never be one."""
        isl = handoff.request.isl
        if self.max_model_len is not None and isl >= self.max_model_len:
            return "prompt_exceeds_max_model_len"
        if self._pages(isl) > self.num_gpu_blocks:
            return "prompt_exceeds_kv_capacity"
        self.pending.append(handoff)
        return None

    def attempt(self) -> Handoff | None:
        """Try to reserve pages for the first destination, once per release of anything."""
        if not self.is_due:
            return None
        handoff = self.pending[0]
        handoff.attempted = self.releases
        request = handoff.request
        matched, node = 0, self.tree.root
        if self.caching:
            matched, node = self.tree.match(self._keys(request, request.isl))
        self.tree.lock(node)
        fresh = self._pages(request.isl) - matched
        if fresh > self.tree.available:
            self.tree.lock(node, -1)
            return None
        self.tree.take(fresh)
        self.held[request] = Held(node, matched + fresh, matched)
        handoff.missing_tokens = fresh * self.page
        self.reserved += 1
        return self.pending.pop(0)

    def activate(self, handoff: Handoff) -> None:
        """The prompt is here: cache it, and let the request wait for a slot."""
        request = handoff.request
        self.reserved -= 1
        request.computed = request.isl
        free = self.tree.free
        self._cache_completed(request)
        self.releases += self.tree.free > free
        self.arrived.append(request)

    def cancel(self, handoff: Handoff) -> None:
        """The prompt will not come."""
        self.reserved -= 1
        self._release(handoff.request)
        self.releases += 1

    # Passes -------------------------------------------------------------------------------------------

    @property
    def may_select(self) -> bool:
        """Whether prompts may be computed: not before those that have theirs."""
        return not self.arrived and (self.last_resort or not self.pending)

    def plan(self, now_ns: int, may_prefill: bool = True) -> Pass:
        """Choose the work of a pass that starts now and price it."""
        taken = self.taken
        while self.arrived and len(self.running) + len(self.finishing) + taken < self.max_num_seqs:
            request = self.arrived.pop(0)
            request.admissions.append((now_ns, 0))
            (self.running if self._remaining(request) else self.finishing).append(request)
        self.leaving = len(self.finishing) + taken
        work = super().plan(now_ns, may_prefill)
        self.releases += bool(work.rejected or work.retracted)
        self.last_resort = False
        return work

    def settle(self, work: Pass, end_ns: int) -> list[Request]:
        """Make the outcome of a pass visible at its end; returns the requests that became terminal."""
        done: list[Request] = []
        if not work.selected:
            done, self.finishing = self.finishing, []
            for request in done:
                self._complete(request, end_ns)
        ended = done + super().settle(work, end_ns)
        self.releases += sum(request.status == "completed" for request in ended)
        return ended


class SglangPoolWorker(Worker):
    """Ranks of a pool; all pause prefilling for some rounds after any of them prefilled."""

    pause = 0

    def start(self, now_ns: int) -> bool:
        """Start a pass if that would do anything."""
        ready = [rank for rank in self.ranks if rank.ready]
        if not ready:
            self.pause = 0
            return False
        paused = self.pause > 0
        self.passes = [(rank, rank.plan(now_ns, not paused)) for rank in ready]
        idle = paused and not any(work.ran_model for _, work in self.passes)
        if idle:
            for rank in ready:
                rank.ratio = rank.first_ratio
        if not (idle or any(_acts(rank, work) for rank, work in self.passes)):
            return False
        self.pause = max(0, self.pause - 1)
        if any(work.prefills for _, work in self.passes):
            self.pause = self.ranks[0].interval
        self.end_ns = now_ns + max(work.duration_ns for _, work in self.passes)
        return True


def _acts(rank: SglangScheduler, work: Pass) -> bool:
    ends = getattr(rank, "finishing", None) and not work.selected
    return bool(work.ran_model or work.rejected or work.retracted or ends)


class SglangDisaggFleet(DisaggFleet):
    """Reserves the destination of a prompt before it is computed."""

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__(payload)
        self.arrived, self.computed, self.reserved = self._reserve, self._transfer, self._submit

    def _pools(
        self, topology: Any, prefill: Any, decode: Any, identities: list[Identities]
    ) -> tuple[list[Worker], list[Worker]]:
        from .sglang_ahead_pair import AHEAD, AheadSglangPoolWorker

        def workers(stage: str, role: Any, ranks: type, known: Identities) -> list[Worker]:
            size = role.get("dp_size", 1)
            kind: type[Worker] = SglangPoolWorker
            if role["rank"].get("scheduling_look_ahead"):
                kind, ranks = AheadSglangPoolWorker, AHEAD[ranks]
            return [
                kind([ranks(role["rank"], known, size, first + k) for k in range(size)])
                for first in range(0, topology[stage]["initial_workers"] * size, size)
            ]

        return (
            workers("prefill", prefill, SglangPrefillRank, identities[0]),
            workers("decode", decode, SglangDecodeRank, identities[1]),
        )

    def _end(self, handoff: Handoff, status: str, reason: str | None) -> None:
        super()._end(handoff, status, reason)
        if handoff.reserved_ns is not None:
            self.actions.append((self._cancel, handoff))

    def _cancel(self, handoff: Handoff) -> None:
        assert handoff.decode is not None
        worker = self.decode[handoff.decode]
        if worker.busy:
            worker.deferred.append((handoff.rank, self._cancel, handoff))
            return
        rank = worker.ranks[handoff.rank]
        rank.cancel(handoff)
        self._retry(rank)


def replay_sglang_pools(payload: dict[str, Any]) -> DisaggFleet:
    """Run a `{spec, traffic}` payload with pools of SGLang."""
    return SglangDisaggFleet(payload).run()
