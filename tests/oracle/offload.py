"""The vLLM scheduler of a rank with host memory, one pass at a time (spec 01 section 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from aisimulate.core.units import clock_ns

from .disk import Disk, make_disk
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
    promoted: set[int] = field(default_factory=set)  # identities that the disk gave to the host for it
    rounds: int = 0  # of promotions since its rank last did anything
    bypasses: bool = False


class OffloadRank(RankScheduler):
    """A rank that writes prompts through to host memory and restores them from there."""

    def __init__(
        self, rank: dict[str, Any], identities: Identities, number: int = 0, disk: Disk | None = None
    ) -> None:
        super().__init__(rank, identities)
        self.number = number
        self.disk = disk
        self.changes = 0  # of the disk, that were seen
        self.asked: set[tuple[Request, int]] = set()
        self.asked_ns = -1
        tier = rank["native_host_offload"]
        block_bytes = self.block_size * rank["kv_cache_bytes_per_token"]
        bandwidths = (tier.get(f"{way}_bandwidth_gbps", 32.0) for way in ("d2h", "h2d"))
        self.host = Host(tier["num_host_blocks"], block_bytes, *bandwidths)
        self.host.latency_ns = clock_ns(float(tier.get("latency_to_first_byte_ms", 0.0)))
        self.host.has_disk = disk is not None
        self.pool: ReadablePool = ReadablePool(self.num_gpu_blocks, self.host)
        self.prompts: dict[Request, Prompt] = {}
        self.aside: list[Request] = []
        self.fence_ns = 0
        self.sharers: list[OffloadRank] = []  # the other ranks that use the same disk
        self.stuck_ns = -1  # when it could let nobody in
        self.host_tokens: dict[Request, int] = {}  # of first admissions
        self.disk_tokens: dict[Request, int] = {}
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

    def end_copies(self, now_ns: int) -> bool:
        """Everything that ended by now takes effect; who was set aside may be looked at again.

        True if anything ended.
        """
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
        has_changed = self.disk is not None and self._end_jobs(self.disk, ended, now_ns)
        if ended or has_changed:
            for request in self.aside:
                self.prompts[request].asleep = False
        return bool(ended) or has_changed

    def _end_jobs(self, disk: Disk, ended: list[Copy], now_ns: int) -> bool:
        """Offer the disk what has come into the host; then what the disk has done takes effect."""
        for copy in ended:
            if not copy.is_load:
                taken = disk.write(self.number, copy.identities, now_ns)
                self.host.release([identity for identity in copy.identities if identity not in taken])
        for job in disk.fetch(self.number, now_ns):
            (self.host.promoted if job.is_read else self.host.release)(job.identities)
        has_changed = self.changes != disk.changes
        self.changes = disk.changes
        return has_changed

    def alarm_ns(self, more: bool) -> int | None:
        """When a copy ends for which somebody waits, or may have to."""
        ends = [copy.end_ns for copy in self.host.copies if copy.end_ns is not None]
        if self.disk is not None:
            ends += [job.end_ns for job in self.disk.ended if job.owner == self.number and job.end_ns]
            ends += [] if (event := self.disk.next_ns()) is None else [event]
            ends += [0] if self.changes != self.disk.changes else []
        return min(ends, default=None) if self.waiting or self.aside or (more and self.disk) else None

    # The disk ---------------------------------------------------------------------------------------

    def _stage(self, request: Request, disk: Disk, identities: list[int], now_ns: int) -> bool:
        """Promote what the disk has; True if anything on its way is to be waited for."""
        prompt = self.prompts[request]
        prompt.bypasses = prompt.bypasses or prompt.rounds >= 1024
        if prompt.bypasses:
            return False
        if now_ns > self.asked_ns:
            self.asked_ns, self.asked = now_ns, set()
        wanted, pending = [], False
        for identity in identities:
            if identity in self.host.blocks:
                pending = pending or not self.host.blocks[identity].resident
                continue
            readable = disk.probe(identity)
            if readable is None or (readable and not self._may_promote(request, disk, identity, identities)):
                break
            pending = pending or not readable
            wanted += [identity] if readable else []
        if wanted:
            disk.read(self.number, wanted, now_ns)
            self.asked |= {(request, identity) for identity in wanted}
            prompt.rounds += 1
            prompt.promoted |= set(wanted)
        return pending or bool(wanted)

    def _may_promote(self, request: Request, disk: Disk, identity: int, identities: list[int]) -> bool:
        """Take a place in the host for a block, but not in vain for the second time at one instant."""
        if (request, identity) in self.asked:
            prefix = list(
                takewhile(lambda other: other in self.host.blocks or other in disk.blocks, identities)
            )
            if self.host.reserve(prefix, dry=True) is None:
                return False
        return self.host.reserve([identity]) is not None

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
        if not self.idle:
            for prompt in self.prompts.values():
                prompt.rounds = 0
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
        self.prompt(victim).bypasses = False
        self._wait_for([store] if store else [])
        return victim

    # Waiting requests -------------------------------------------------------------------------------

    def _admit_waiting(self, work: Pass) -> None:
        while not work.preempted_any and len(self.running) < self.max_num_seqs and work.budget > 0:
            awake = [request for request in self.aside if not self.prompts[request].asleep]
            if not awake and not self.waiting:
                return
            head = awake[0] if awake else self.waiting[0]
            if self.disk is not None:
                head = next((request for request in awake if self.prompts[request].kept), head)
            look = self._look_at(head, work)
            if look is Look.BLOCKED:
                if self.running or self._is_copying():
                    return
                self.stuck_ns = work.now_ns
                if any(rank.may_help(work.now_ns) for rank in self.sharers):
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

    def _is_copying(self) -> bool:
        jobs = [*self.disk.jobs, *self.disk.ended] if self.disk is not None else []
        on_the_way = any(job.owner == self.number for job in jobs)
        return bool(self.host.copies or self.host.prepared) or on_the_way

    def may_help(self, now_ns: int) -> bool:
        """Whether what this rank does may put something on the disk for another one that is stuck."""
        is_new = self.ready and self.stuck_ns != now_ns
        return bool(self.running) or self._is_copying() or is_new

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
        if self.disk and self._stage(head, self.disk, identities[len(hits) :], work.now_ns):
            self.host.touch(identities)
            return self._set_aside(head)
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
        used = prompt.identities[prompt.found : cached]
        self.disk_tokens.setdefault(head, sum(key in prompt.promoted for key in used) * self.block_size)
        prompt.kept, prompt.tail, prompt.offered = [], 0, cached
        return self._admitted(head, cached, host_tokens, work)

    def _admitted(self, head: Request, cached: int, host_tokens: int, work: Pass) -> Look:
        self._take_out(head)
        self.running.append(head)
        head.admissions.append((work.now_ns, cached * self.block_size))
        self.host_tokens.setdefault(head, host_tokens)
        self.disk_tokens.setdefault(head, 0)
        self.prompts[head].promoted, self.prompts[head].bypasses, self.prompts[head].rounds = set(), False, 0
        return Look.ADMITTED


class OffloadWorker(Worker):
    """A worker of such ranks: it may be awake and have nothing to do until a copy ends."""

    has_heard = False  # of the end of a copy, when it was to start last

    def __init__(
        self, engine: dict[str, Any], identities: Identities, number: int, disk: Disk | None
    ) -> None:
        super().__init__(engine, identities)
        first = number * len(self.ranks)
        self.offloading = [
            OffloadRank(engine["rank"], identities, first + k, disk) for k in range(len(self.ranks))
        ]
        self.ranks: list[Any] = [*self.offloading]

    def start(self, now_ns: int) -> bool:
        """Start a pass if anything can be done now."""
        if self.end_ns is not None:
            return False
        for rank in self.offloading:
            self.has_heard = rank.end_copies(now_ns) or self.has_heard
        if not super().start(now_ns):
            return False
        if all(rank.idle for rank, _ in self.passes):
            self.end_ns = None
        return self.end_ns is not None


class OffloadFleet(Fleet):
    """A fleet of such workers, which are looked at again when copies end."""

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__(payload)
        engine = payload["spec"]["engine"]
        identities = self.workers[0].ranks[0].identities
        disk = engine["rank"].get("g3_offload")
        disks = [make_disk(engine["rank"]) if disk else None for _ in self.workers]
        if disk and disk["scope"] == "cluster_shared":
            disks = disks[:1] * len(disks)
        self.offloaders = [
            OffloadWorker(engine, identities, number, disks[number]) for number in range(len(disks))
        ]
        self.workers = [*self.offloaders]
        if disk and disk["scope"] == "cluster_shared":
            ranks = [rank for worker in self.offloaders for rank in worker.offloading]
            for rank in ranks:
                rank.sharers = [other for other in ranks if other is not rank]

    def _alarms(self) -> list[int]:
        ranks = [rank for worker in self.offloaders for rank in worker.offloading]
        more = self.driver.due_ns() is not None or any(worker.end_ns for worker in self.offloaders)
        more = more or any(rank.waiting or rank.aside for rank in ranks)
        alarms = [
            rank.alarm_ns(more)
            for worker in self.offloaders
            if worker.end_ns is None
            for rank in worker.offloading
        ]
        return [max(alarm_ns, self.now_ns) for alarm_ns in alarms if alarm_ns is not None]

    def _next_instant(self) -> int | None:
        instant = super()._next_instant()
        return min([*self._alarms(), *([] if instant is None else [instant])], default=None)

    def _round(self) -> bool:
        moved = super()._round()
        # Who could let nobody in before another one heard of the end of a copy may do so now.
        has_heard = any(worker.has_heard for worker in self.offloaders)
        for worker in self.offloaders:
            worker.has_heard = False
        return moved or has_heard or self.now_ns in self._alarms()


def replay_offload(payload: dict[str, Any]) -> tuple[Outcome, dict[tuple[str, int | None], list[int]]]:
    """Run a payload whose rank has host memory; also give what first admissions got from host and disk."""
    fleet = OffloadFleet(payload)
    outcome = fleet.run()
    lower_tokens = {
        (request.session_id, request.turn_index): [tokens, rank.disk_tokens[request]]
        for worker in fleet.offloaders
        for rank in worker.offloading
        for request, tokens in rank.host_tokens.items()
        if request.status
    }
    return outcome, lower_tokens
