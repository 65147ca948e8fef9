"""The vLLM scheduler of a rank with host memory behind its KV pool (spec 01 section 5).

Every prompt block that is computed is copied to the host (write-through), and prompts are restored from
there when the GPU has lost them. Passes that only decode repeat as on any other rank: they store nothing, and
the look-ups of a request that has to wait change nothing the second time. While a copy is on its way, that
goes for passes nobody waits for, up to its end, as long as they need no block that may still be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine import stepwise
from aisimulate.engine.cadence import CadenceScheduler
from aisimulate.engine.decode_set import running_order
from aisimulate.engine.fused import FusedScheduler
from aisimulate.engine.held_pool import HeldPool
from aisimulate.engine.offload_admission import admit_or_load
from aisimulate.engine.offload_lanes import NEVER_NS
from aisimulate.engine.offload_pool import OffloadPool
from aisimulate.engine.offload_state import HostSide
from aisimulate.engine.prefill_rank import PrefillRank
from aisimulate.engine.scheduler import RankScheduler
from aisimulate.engine.sequence import EVERY_BLOCK
from aisimulate.engine.shared_host import SharedHostSide

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.disk_tier import DiskTier
    from aisimulate.engine.params import OffloadParams, RankParams
    from aisimulate.engine.sequence import Sequence


class Offloading(RankScheduler):
    """A `RankScheduler` with a `HostSide`.

    After `plan()`, `host.idle` tells that nothing is done in the pass, which then need not be: nothing
    changes before a copy ends or a request arrives.
    """

    __slots__ = ()

    pool: OffloadPool
    host: HostSide

    def __init__(
        self, params: RankParams, timer: PassTimer, offload: OffloadParams, disk: DiskTier | None = None
    ) -> None:
        super().__init__(params, timer)
        is_shared = offload.shared is not None
        self.pool = (HeldPool if is_shared else OffloadPool)(params.num_gpu_blocks, self.block_size)
        self.ends_alone = False  # a pool of this kind does more
        # The slot is in the subclasses: two bases with slots of their own cannot be joined.
        side = SharedHostSide if is_shared else HostSide
        self.host = side(offload, self.pool, disk)  # type: ignore[misc]
        if self.host.sharers is not None:
            self.host.sharers.join(self)

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence that arrived on this rank."""
        self.host.enter(sequence, self.block_size)
        sequence.tail_start = EVERY_BLOCK  # host memory keeps them all
        super().submit(sequence)

    def lower_tier_hits(self, sequence: Sequence) -> tuple[int, int]:
        """Count the blocks of a prompt that host memory has beyond the GPU, and the disk beyond that.

        For a request that is still to be placed; the question changes nothing.
        """
        blocks = sequence.input_tokens // self.block_size
        state = self.host.states.get(sequence)
        if state is not None:
            keys = state.keys
        elif sequence.keys is None:
            return 0, 0
        else:
            keys = self.host.identities.find(sequence.keys, sequence.stride, blocks)
        return self.host.lower_hits(keys, self.pool.match(keys, len(keys))[0])

    @property
    def has_work(self) -> bool:
        """Whether a pass can start."""
        return bool(self.waiting or self.decoders.count or self.partial or self.host.next_aside() is not None)

    def give_up(self) -> bool:
        """Wait no longer for what other ranks do; return whether anybody here did."""
        is_waiting = self.host.is_shared and self.has_work and not self.is_running
        return is_waiting and self.host.give_up()

    @property
    def is_running(self) -> bool:
        """Whether anybody was admitted and has not ended."""
        is_computing = self.joining or (self.done and self.host.in_pass)
        return bool(self.decoders.count or self.partial or is_computing or self.held)

    @property
    def wake_ns(self) -> int:
        """When a copy ends for which a request waits, or which decides when a block is free."""
        host = self.host
        is_awaited = self.waiting or host.aside or (self.held and host.is_shared)
        return host.next_end_ns if is_awaited else NEVER_NS

    @property
    def background_ns(self) -> int:
        """When a copy ends that matters though no request waits: what goes on to the disk goes on then."""
        return NEVER_NS if self.host.disk is None else self.host.next_end_ns

    def end_copies(self, now_ns: int) -> None:
        """Let everything happen that copies bring about by `now_ns`."""
        self.host.end_copies(now_ns)

    def plan(self, now_ns: int) -> int:
        """Begin a pass at `now_ns`; return the number of identical passes planned (1 unless a run)."""
        host = self.host
        if self.eventful:
            self.eventful = False
            if self.unusual:
                self._clear_unusual()
        host.idle = False
        quiet = not (self.waiting or self.partial or self.unusual or host.aside)
        if quiet and not host.unstored and (passes := self._plain_run()):
            blocks = self.decoders.count * (passes // self.block_size + 1)
            if not host.busy or (blocks <= self.pool.free and host.may_run_on):
                host.progressed()
                return passes
        self.run_batch = 0
        host.begin_pass()
        opening = self._begin(now_ns)
        recalls = False
        if (self.waiting or host.aside) and not self.preempted:
            blocked = self.let_in(now_ns)
            recalls = blocked is not None and (host.recalls(blocked) or self._may_load(blocked))
        if host.unstored:
            self._store()
        waiting_ns = self.pool.fence_ns - now_ns
        is_eventful = self.eventful or not self.decoders.count or host.busy or waiting_ns > 0 or recalls
        # What is generated may be in the prompt of one set aside, which then needs fewer blocks.
        if is_eventful or (self.planned and host.aside) or (host.is_shared and (self.waiting or host.aside)):
            return self._single_pass(max(0, waiting_ns))
        host.progressed()
        return self._plan_run(opening)

    def _may_load(self, blocked: Sequence) -> bool:
        """Whether one that waits, but not for room, would load blocks if the GPU lost them meanwhile."""
        waits_for_room = not self.deferring and self.params.enable_chunked_prefill
        return not waits_for_room and self.host.backs(blocked)

    def let_in(self, now_ns: int) -> Sequence | None:
        """Admit from the queue and from those set aside; return who has to wait for room or for budget."""
        return admit_or_load(self, self.host, now_ns)

    def _begin(self, now_ns: int) -> int:
        """Schedule what runs already; return the blocks that decoders open."""
        head = self.waiting[0] if self.waiting else None
        decoders = self.decoders
        self.budget = self.pass_tokens - decoders.count
        self._opening = opening = decoders.opening()
        if self.budget < 0 or (self.watchful and self._needs_steps(opening)):
            self.eventful = self.unusual = True
            self._start_ns = now_ns
            stepwise.schedule_running(self, now_ns)
        elif opening or self.partial or self.unusual:
            self._schedule_running(opening, now_ns)
        if self.preempted:
            self.flush(head)
        return opening

    def flush(self, head: Sequence | None) -> None:
        """Let the pass wait for the unfinished stores of those who were just preempted: all before `head`."""
        for sequence in self.waiting:
            if sequence is head:
                return
            state = self.host.states[sequence]
            if self.host.disk is not None:
                self.host.disk.forget(state)
            store = state.store
            if store is not None:
                self.pool.fence_ns = max(self.pool.fence_ns, store.end_ns)

    def _single_pass(self, waiting_ns: int) -> int:
        host = self.host
        host.idle = not (
            self.decoders.count or host.scheduled or self.rejected or self.preempted or waiting_ns
        )
        if not host.idle:
            host.in_pass = True
            host.progressed()
        self._price()
        self.pass_ns += waiting_ns
        return 1

    # Stores -------------------------------------------------------------------------------------------

    def schedule_chunk(self, sequence: Sequence, start: int, end: int) -> None:
        """Book a chunk whose blocks are taken."""
        first, node = -(-start // self.block_size), sequence.node
        if node is not None:
            first = max(first, node.start + node.len)
        # Blocks below the chunk are another's if the sequence was just admitted, else its own.
        found = 0 if sequence is self.partial else start // self.block_size
        self.host.schedule(sequence, first, found)
        super().schedule_chunk(sequence, start, end)

    def unschedule(self, sequence: Sequence) -> None:
        """Take back the chunk of a sequence from the pass being planned."""
        self.host.scheduled.pop(sequence, None)
        super().unschedule(sequence)

    def _store(self) -> None:
        """Offer the host what this pass computes of prompts, in the running order."""
        host, members = self.host, self.decoders.members
        held_back = dict.fromkeys(self.held_back)
        for sequence in sorted(host.unstored, key=running_order):
            if sequence in host.scheduled:
                if sequence is self.partial:
                    self.cache_computed(sequence)
                computed = min(sequence.computed, sequence.input_tokens)
            elif sequence in members and sequence not in held_back:
                computed = sequence.input_tokens
            else:
                if sequence not in members and sequence is not self.partial:
                    del host.unstored[sequence]
                continue
            if not host.store(sequence, computed, self.block_size):
                del host.unstored[sequence]

    # Commit -------------------------------------------------------------------------------------------

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the planned pass, or the first `passes` of the planned run; return what became terminal."""
        self.host.in_pass = False
        terminal = super().commit(passes, first_end_ns, end_ns)
        for sequence in terminal:
            self.host.leave(sequence)
        if self.host.busy:
            self.end_pass(end_ns)
        return terminal

    def end_pass(self, now_ns: int) -> None:
        """Let copies begin and end with a pass."""
        self.host.end_pass(now_ns)


class OffloadScheduler(Offloading):
    """vLLM with host memory."""

    __slots__ = ("host",)


class FusedOffloadScheduler(Offloading, FusedScheduler):
    """The same where mixed passes are one forward."""

    __slots__ = ("host",)


class CadenceOffloadScheduler(Offloading, CadenceScheduler):
    """vLLM with host memory in a group that schedules prefills in intervals."""

    __slots__ = ("host",)

    def plan(self, now_ns: int) -> int:
        """Begin a pass at `now_ns`; return the number of identical passes planned (1 unless a run)."""
        passes = Offloading.plan(self, now_ns)
        if not self.deferring and not self.preempted:
            self.capacity_bound = bool(self.waiting)
        return passes


class FusedCadenceOffloadScheduler(CadenceOffloadScheduler, FusedScheduler):
    """The same where mixed passes are one forward."""

    __slots__ = ()


class OffloadPrefillScheduler(Offloading, PrefillRank):
    """vLLM with host memory on a prefill worker."""

    __slots__ = ("host",)


def make_offload_rank(
    params: RankParams,
    timer: PassTimer,
    offload: OffloadParams,
    disk: DiskTier | None = None,
    has_cadence: bool = False,
) -> Offloading:
    """Make the scheduler of a rank with host memory; `has_cadence` as in `ranks.make_rank`."""
    if has_cadence:
        kind = FusedCadenceOffloadScheduler if params.fused else CadenceOffloadScheduler
        return kind(params, timer, offload, disk)
    return (FusedOffloadScheduler if params.fused else OffloadScheduler)(params, timer, offload, disk)
