"""The vLLM scheduler of a rank with host memory, one pass at a time (spec 01 section 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from .fleet import Fleet, Outcome, Worker
from .host import Copy, Host, ReadablePool
from .scheduler import Pass, RankScheduler, Step

if TYPE_CHECKING:
    from .content import Identities
    from .pool import Block
    from .request import Request


class Look(Enum):
    """What came of looking at a request that waits."""

    ADMITTED = 1
    ASIDE = 2
    BLOCKED = 3
    REJECTED = 4


@dataclass(eq=False)
class Prompt:
    """A request's full prompt blocks and what the host has to do with them."""

    identities: list[int]
    offered: int = 0  # of these blocks were offered to the host
    store: Copy | None = None
    load: Copy | None = None
    found: int = 0  # blocks of the GPU that a load began behind
    kept: list[Block] = field(default_factory=list)  # blocks held for the request while it does not run
    tail: int = 0  # blocks it needs beyond those
    asleep: bool = False


class OffloadRank(RankScheduler):
    """A rank that writes prompts through to host memory and restores them from there."""

    def __init__(self, rank: dict[str, Any], identities: Identities) -> None:
        super().__init__(rank, identities)
        tier = rank["native_host_offload"]
        block_bytes = self.block_size * rank["kv_cache_bytes_per_token"]
        bandwidths = (tier.get(f"{way}_bandwidth_gbps", 32.0) for way in ("d2h", "h2d"))
        self.host = Host(tier["num_host_blocks"], block_bytes, *bandwidths)
        self.pool: ReadablePool = ReadablePool(self.num_gpu_blocks, self.host)
        self.prompts: dict[Request, Prompt] = {}
        self.aside: list[Request] = []
        self.fence_ns = 0
        self.host_tokens: dict[Request, int] = {}  # of first admissions
        self.idle = False

    def prompt(self, request: Request) -> Prompt:
        """The prompt of a request."""
        if request not in self.prompts:
            known = request.tokens[: request.isl]
            self.prompts[request] = Prompt(self.identities.of(known, self.block_size))
        return self.prompts[request]

    @property
    def ready(self) -> bool:
        """Whether a pass would have anything to look at."""
        return super().ready or any(not self.prompts[request].asleep for request in self.aside)

    # Copies -----------------------------------------------------------------------------------------

    def end_copies(self, now_ns: int) -> None:
        """Everything that ended by now takes effect; who was set aside may be looked at again."""
        ended = self.host.ended(now_ns)
        for copy in ended:
            prompt = self.prompts[copy.request]
            if prompt.store is copy:
                prompt.store = None
        for copy in ended:
            prompt = self.prompts[copy.request]
            if prompt.load is copy:
                prompt.load = None
                for index in range(prompt.found, len(prompt.kept)):
                    self.pool.cache(prompt.kept[index], prompt.identities[index])
        if ended:
            for request in self.aside:
                self.prompts[request].asleep = False

    def alarm_ns(self) -> int | None:
        """When a copy ends for which somebody waits."""
        ends = [copy.end_ns for copy in self.host.copies if copy.end_ns is not None]
        return min(ends, default=None) if self.waiting or self.aside else None

    # Passes -----------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> Pass:
        """Choose the work of a pass, store what it computes, and wait for what it overwrites."""
        work = super().plan(now_ns)
        for request in self.running:
            if request in work.computed:
                self._offer(request)
        wait_ns = max(0, self.fence_ns - now_ns)
        work.duration_ns += wait_ns
        self.idle = not (work.computed or work.finished or work.rejected or work.preempted_any or wait_ns)
        return work

    def settle(self, work: Pass, end_ns: int) -> list[Request]:
        """End a pass: copies that have ended, then the stores of the pass, then those that take no time."""
        ended = super().settle(work, end_ns)
        self.end_copies(end_ns)
        for copy in self.host.prepared:
            self.host.submit(copy, end_ns)
        self.host.prepared = []
        self.end_copies(end_ns)
        return ended

    def _offer(self, request: Request) -> None:
        prompt = self.prompt(request)
        first, last = prompt.offered, min(request.computed, request.isl) // self.block_size
        missing = [k for k in range(first, last) if prompt.identities[k] not in self.host.blocks]
        if not missing:
            prompt.offered = max(first, last)
            return
        if any(self.pool.is_read(request.blocks[k]) for k in missing):
            return
        reserved = self.host.reserve(prompt.identities[first:last])
        if reserved is None:
            return
        prompt.store = Copy(request, reserved, is_load=False)
        for k in missing:
            self.pool.readers[request.blocks[k]] = prompt.store
        self.host.prepared.append(prompt.store)
        prompt.offered = last
        self.host.touch(prompt.identities)

    def _grow(self, request: Request, hits: list[Block], tokens: int) -> bool:
        if len(request.blocks) + len(hits) >= -(-tokens // self.block_size):
            # A restored prompt may hold more than its first chunk needs.
            if hits:
                self.pool.allocate(hits, 0)
                request.blocks += hits
            return True
        if not super()._grow(request, hits, tokens):
            return False
        self._wait_for(self.pool.waits_for)
        return True

    def _wait_for(self, copies: list[Copy]) -> None:
        self.fence_ns = max([self.fence_ns, *(copy.end_ns for copy in copies if copy.end_ns is not None)])

    def _preempt(self, work: Pass) -> Request:
        victim = super()._preempt(work)
        store = self.prompt(victim).store
        self._wait_for([store] if store else [])
        return victim

    # Waiting requests -------------------------------------------------------------------------------

    def _admit_waiting(self, work: Pass) -> None:
        while not work.preempted_any and len(self.running) < self.max_num_seqs and work.budget > 0:
            awake = [request for request in self.aside if not self.prompts[request].asleep]
            if not awake and not self.waiting:
                return
            head = awake[0] if awake else self.waiting[0]
            look = self._look_at(head, work)
            if look is Look.BLOCKED:
                if self.running or self.host.copies:
                    return
                holders = [request for request in awake if self.prompts[request].kept]
                if holders and not self.prompts[head].kept:
                    self.aside.remove(holders[0])
                    self.aside.insert(0, holders[0])
                    continue
                work.rejected.append((head, self._stuck_reason(head)))
            if look in (Look.BLOCKED, Look.REJECTED):
                self._take_out(head)
                self.pool.release(self.prompts[head].kept)
                self.prompts[head].kept, self.prompts[head].tail = [], 0

    def _stuck_reason(self, head: Request) -> str:
        too_long = self._blocks_needed(head) > self.num_gpu_blocks
        return "sequence_exceeds_kv_capacity" if too_long else "prompt_exceeds_token_budget"

    def _take_out(self, request: Request) -> None:
        (self.aside if request in self.aside else self.waiting).remove(request)

    def _set_aside(self, request: Request) -> Look:
        if request not in self.aside:
            self.waiting.remove(request)
            self.aside.append(request)
        self.prompts[request].asleep = True
        return Look.ASIDE

    def _look_at(self, head: Request, work: Pass) -> Look:
        prompt = self.prompt(head)
        if self.max_model_len is not None and head.isl >= self.max_model_len:
            work.rejected.append((head, "prompt_exceeds_max_model_len"))
            return Look.REJECTED
        if prompt.load or prompt.store:
            return self._set_aside(head)
        if prompt.kept:
            return self._admit_restored(head, work)
        hits = self._hits(head)
        identities = prompt.identities
        loadable = 0
        while len(hits) + loadable < len(identities) and identities[len(hits) + loadable] in self.host.blocks:
            loadable += 1
        wanted = [self.host.blocks[identity] for identity in identities[len(hits) : len(hits) + loadable]]
        self.host.touch(identities)
        if any(block.pinned or not block.resident for block in wanted):
            return self._set_aside(head)
        if not head.preempted and self._blocks_needed(head) > self.num_gpu_blocks:
            work.rejected.append((head, "prompt_exceeds_kv_capacity"))
            return Look.REJECTED
        if loadable:
            return self._load(head, hits, loadable, work)
        pinned = hits[: self._most_cached(head, hits)]
        if not self._fits(head, hits) or self._schedule(head, pinned, work) is not Step.SCHEDULED:
            return Look.BLOCKED
        return self._admitted(head, len(pinned), 0, work)

    def _load(self, head: Request, hits: list[Block], loadable: int, work: Pass) -> Look:
        prompt = self.prompts[head]
        referenced = sum(block.references > 0 for block in hits)
        promised = sum(other.tail for other in self.prompts.values())
        for request in self.running:
            if request.computed < request.isl:
                promised += self._blocks_needed(request) - len(request.blocks)
        available = self.num_gpu_blocks - self.pool.active - promised
        if self._blocks_needed(head) - referenced > available:
            return Look.BLOCKED
        kept = self.pool.allocate(hits, loadable)
        if kept is None:
            return Look.BLOCKED
        ready_ns = max([work.now_ns, *(copy.end_ns or 0 for copy in self.pool.waits_for)])
        prompt.kept, prompt.found = kept, len(hits)
        prompt.tail = self._blocks_needed(head) - len(kept)
        prompt.load = Copy(head, prompt.identities[len(hits) : len(kept)], is_load=True)
        for identity in prompt.load.identities:
            self.host.blocks[identity].pinned = True
        self.host.submit(prompt.load, ready_ns)
        return self._set_aside(head)

    def _admit_restored(self, head: Request, work: Pass) -> Look:
        prompt = self.prompts[head]
        if self._blocks_needed(head) - len(prompt.kept) > self.num_gpu_blocks - self.pool.active:
            return Look.BLOCKED
        cached = self._most_cached(head, prompt.kept)
        head.blocks, head.computed = prompt.kept, cached * self.block_size
        if self._schedule(head, [], work) is not Step.SCHEDULED:
            head.blocks, head.computed = [], 0
            return Look.BLOCKED
        host_tokens = max(0, cached - prompt.found) * self.block_size
        prompt.kept, prompt.tail, prompt.offered = [], 0, cached
        return self._admitted(head, cached, host_tokens, work)

    def _admitted(self, head: Request, cached: int, host_tokens: int, work: Pass) -> Look:
        self._take_out(head)
        self.running.append(head)
        head.admissions.append((work.now_ns, cached * self.block_size))
        self.host_tokens.setdefault(head, host_tokens)
        return Look.ADMITTED


class OffloadWorker(Worker):
    """A worker of one such rank: it may be awake and have nothing to do until a copy ends."""

    def __init__(self, engine: dict[str, Any], identities: Identities) -> None:
        super().__init__(engine, identities)
        self.rank = OffloadRank(engine["rank"], identities)
        self.ranks: list[Any] = [self.rank]

    def start(self, now_ns: int) -> bool:
        """Start a pass if anything can be done now."""
        if self.end_ns is not None:
            return False
        self.rank.end_copies(now_ns)
        if not super().start(now_ns):
            return False
        if self.rank.idle:
            self.end_ns = None
        return not self.rank.idle


class OffloadFleet(Fleet):
    """A fleet of such workers, which are looked at again when copies end."""

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__(payload)
        identities = self.workers[0].ranks[0].identities
        self.offloaders = [OffloadWorker(payload["spec"]["engine"], identities) for _ in self.workers]
        self.workers = [*self.offloaders]

    def _alarms(self) -> list[int]:
        alarms = [worker.rank.alarm_ns() for worker in self.offloaders if worker.end_ns is None]
        return [alarm_ns for alarm_ns in alarms if alarm_ns is not None]

    def _next_instant(self) -> int | None:
        instant = super()._next_instant()
        return min([*self._alarms(), *([] if instant is None else [instant])], default=None)

    def _round(self) -> bool:
        return super()._round() or self.now_ns in self._alarms()


def replay_offload(payload: dict[str, Any]) -> tuple[Outcome, dict[tuple[str, int | None], int]]:
    """Run a payload whose rank has host memory; also give the host's tokens of first admissions."""
    fleet = OffloadFleet(payload)
    outcome = fleet.run()
    host_tokens = {
        (request.session_id, request.turn_index): tokens
        for worker in fleet.offloaders
        for request, tokens in worker.rank.host_tokens.items()
        if request.status
    }
    return outcome, host_tokens
