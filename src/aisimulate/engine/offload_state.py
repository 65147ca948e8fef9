"""What a rank with host memory remembers of it: per request, per pass, and what is on its way."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from aisimulate.engine.host_tier import BlockIdentities, HostTier
from aisimulate.engine.offload_disk import DiskSide
from aisimulate.engine.offload_lanes import Copy, Lanes
from aisimulate.engine.sequence import COMPLETED

if TYPE_CHECKING:
    from collections.abc import Sequence as ListOf

    from aisimulate.engine.disk_tier import DiskTier
    from aisimulate.engine.offload_pool import OffloadPool
    from aisimulate.engine.params import OffloadParams
    from aisimulate.engine.sequence import Sequence


class PromptState:
    """A request's prompt and the host memory.

    `keys` identify its full blocks; the first `stored` of them have been offered to the host. `store` is its
    latest store. While a load is on its way (`load`), and after it until the request is admitted,
    `restored` blocks of the GPU are kept for it, `found_blocks` of which were there before.
    """

    __slots__ = (
        "asleep",
        "bypasses",
        "found_blocks",
        "keys",
        "load",
        "promoted",
        "restored",
        "store",
        "stored",
        "tail_blocks",
    )

    def __init__(self, keys: list[int]) -> None:
        self.keys = keys
        self.stored = 0
        self.store: Copy | None = None
        self.load: Copy | None = None
        self.restored = 0
        self.found_blocks = 0
        self.tail_blocks = 0  # that the request will need beyond the restored ones
        self.asleep = False  # set aside until any copy ends
        self.promoted: set[int] = set()  # keys of blocks that the disk gave to the host for this request
        self.bypasses = False  # takes nothing from the disk


class HostSide:
    """The host memory of one rank, its lanes, maybe a `disk` behind it, and the requests that wait for them.

    `aside`: requests that were passed over because of a copy, in order; they are looked at again before
    those that wait, once any copy has ended. `unstored`: running requests with blocks to offer. `loading`:
    blocks on their way to this rank.
    `tail_blocks`: sum over restored requests that are not admitted yet. Of the pass being planned:
    `scheduled`, the requests with a chunk and the blocks they found on the GPU; `unwritten`, per block on
    space that still is being read, who computes it there.
    """

    __slots__ = (
        "_places",
        "aside",
        "disk",
        "identities",
        "idle",
        "in_pass",
        "lanes",
        "loading",
        "pool",
        "reused_tokens",
        "scheduled",
        "sharers",
        "states",
        "tail_blocks",
        "tier",
        "unstored",
        "unwritten",
    )

    def __init__(self, params: OffloadParams, pool: OffloadPool, disk: DiskTier | None = None) -> None:
        self.tier = self._make_tier(params)
        self.disk = None if disk is None else DiskSide(disk, self.tier)
        self.lanes = self._make_lanes(params)
        shared = params.shared or disk
        self.sharers = None if shared is None else shared.sharers
        self.loading: set[int] = set()
        self.identities = params.identities or BlockIdentities()
        self.pool = pool
        self.states: dict[Sequence, PromptState] = {}
        self.aside: dict[Sequence, PromptState] = {}
        self._places: deque[Sequence] = deque()  # those set aside, in order, and such as no longer are
        self.unstored: dict[Sequence, None] = {}
        self.scheduled: dict[Sequence, int] = {}
        self.unwritten: dict[int, list[Sequence]] = {}
        self.tail_blocks = 0
        self.reused_tokens = [
            0,
            0,
            0,
        ]  # of completed requests: by GPU, host, disk
        self.idle = False  # whether the pass that was planned last does nothing
        self.in_pass = False  # whether it is in flight, where it is not one of a run

    def _make_tier(self, params: OffloadParams) -> HostTier:
        return HostTier(params.num_host_blocks)

    def _make_lanes(self, params: OffloadParams) -> Lanes:
        return Lanes(
            params.block_bytes, params.d2h_bandwidth_gbps, params.h2d_bandwidth_gbps, params.latency_ns
        )

    # Requests -----------------------------------------------------------------------------------------

    def enter(self, sequence: Sequence, block_size: int) -> None:
        """Take up a request: from here on its keys are block identities."""
        prompt_blocks = sequence.input_tokens // block_size
        blocks = prompt_blocks if sequence.keys is None else len(sequence.keys) * sequence.stride
        keys = self.identities.of(sequence.keys, sequence.stride, blocks)
        sequence.keys, sequence.stride = keys, 1
        self.states[sequence] = PromptState(keys[:prompt_blocks])

    def next_aside(self) -> Sequence | None:
        """Give the first request set aside that may be looked at again; with a disk, a restored one first."""
        aside = self.aside
        if not aside:
            return None
        if self.disk is not None:
            for sequence in self._places:
                if sequence in aside and aside[sequence].restored and not aside[sequence].asleep:
                    return sequence
        if all(state.asleep for state in aside.values()):
            return None
        while self._places[0] not in aside:
            self._places.popleft()
        return next(each for each in self._places if each in aside and not aside[each].asleep)

    def set_aside(self, sequence: Sequence) -> None:
        """Pass a request over until a copy has ended.

        It keeps its place among those set aside, also the one that it had before it was let in and gave way,
        as long as somebody before it is still there.
        """
        state = self.states[sequence]
        if sequence not in self.aside:
            self.aside[sequence] = state
            self._places.append(sequence)
        state.asleep = True

    def _take_out(self, sequence: Sequence) -> None:
        """Count a request among those set aside no more."""
        if self.aside.pop(sequence, None) is not None and self._places[0] is sequence:
            self._places.popleft()

    def put_first(self, sequence: Sequence) -> None:
        """Look at a request before all others that were set aside."""
        self._places.appendleft(sequence)

    def leave(self, sequence: Sequence) -> None:
        """A request completed, was rejected, or is handed over: count what it found here, and forget it."""
        if sequence.status in (COMPLETED, None):  # None if it is handed over
            host_tokens, disk_tokens = sequence.host_reused_tokens, sequence.disk_reused_tokens
            reused = self.reused_tokens
            reused[0] += sequence.admissions[0][1] - host_tokens
            reused[1] += host_tokens - disk_tokens
            reused[2] += disk_tokens
        self.dismiss(sequence)

    def dismiss(self, sequence: Sequence) -> None:
        """Forget a request that ended."""
        state = self.states.pop(sequence, None)
        if state is not None:
            self.tail_blocks -= state.tail_blocks
        self._take_out(sequence)
        self.unstored.pop(sequence, None)

    @property
    def is_shared(self) -> bool:
        """Whether what is found here may change by what other workers do."""
        return self.sharers is not None

    @property
    def busy(self) -> bool:
        """Whether anything is on its way or about to be."""
        return self.lanes.busy or (self.disk is not None and self.disk.busy)

    @property
    def is_awaited(self) -> bool:
        """Whether the end of a copy may matter here: of one of this rank, or of others that share."""
        return self.busy or (self.is_shared and bool(self.aside))

    def is_stuck(self, now_ns: int) -> bool:
        """Whether nothing that goes on elsewhere may help a rank where nothing runs and nothing arrives."""
        if (sharers := self.sharers) is None:
            return True
        sharers.note_stuck(self, now_ns)
        return sharers.all_stuck(now_ns)

    def give_up(self) -> bool:
        """Take it that nothing goes on elsewhere; return whether that was not taken for granted."""
        return False

    @property
    def may_run_on(self) -> bool:
        """Whether passes that take no blocks from anybody may go on up to `next_end_ns` as one run."""
        return not (self.lanes.prepared or self.is_shared or self.pool.read_free)

    @property
    def next_end_ns(self) -> int:
        """When anything that is on its way arrives, or may."""
        lanes_ns = self.lanes.next_end_ns
        return lanes_ns if self.disk is None else min(lanes_ns, self.disk.next_ns)

    def look_up(self, state: PromptState, first: int, now_ns: int) -> tuple[int, bool]:
        """Count the blocks of a prompt from block `first` on to load, and tell whether to wait for a copy.

        What the disk has of them begins to come in. All that is here counts as used.
        """
        blocks, has_to_wait, disk = 0, False, self.disk
        if first < len(state.keys):
            has_to_wait = disk is not None and disk.stage(state, first, now_ns)
            if not has_to_wait:
                blocks, has_to_wait = self.tier.match(state.keys, first, self.loading)
        self.tier.touch(state.keys)
        return blocks, has_to_wait

    def recalls(self, sequence: Sequence) -> bool:
        """Whether one that waits for room would promote blocks from the disk if the GPU lost them."""
        state = self.states[sequence]
        return self.disk is not None and not state.restored and self.disk.has_more(state.keys)

    def backs(self, sequence: Sequence) -> bool:
        """Whether the host has any block of a prompt for which nothing is kept on the GPU yet."""
        state = self.states[sequence]
        return not state.restored and any(map(self.tier.is_resident, state.keys))

    def lower_hits(self, keys: ListOf[int], first: int) -> tuple[int, int]:
        """Count the blocks of a prompt from block `first` on that the host has, then those that the disk has.

        Each continues the other; what is on its way does not count. Nothing takes note of the question.
        """
        host = first
        while host < len(keys) and self.tier.is_resident(keys[host]):
            host += 1
        last = host
        while last < len(keys) and self.disk is not None and self.disk.tier.is_resident(keys[last]):
            last += 1
        return host - first, last - host

    # Copies -------------------------------------------------------------------------------------------

    def end_copies(self, now_ns: int) -> bool:
        """Let everything happen that copies bring about by `now_ns`; return whether any has ended."""
        loads: list[Copy] = []
        stores: list[Copy] = []
        disk = self.disk
        for copy in self.lanes.pop_ended(now_ns):
            self._land(copy)
            if copy.is_load:
                self.loading.difference_update(copy.keys)
                loads.append(copy)
            else:
                stores.append(copy)
                self.pool.forget(copy)
                state = self.states.get(copy.sequence)
                if state is not None and state.store is copy:
                    state.store = None
        ended = bool(loads or stores) or self.lanes.has_news
        if disk is not None:
            for copy in stores:
                disk.store(copy.keys, now_ns)
            ended = disk.end_jobs(now_ns) or ended
        for copy in loads:
            state = self.states[copy.sequence]
            self.pool.extend(copy.sequence, state.found_blocks, state.restored)
            state.load = None
        if ended:
            for state in self.aside.values():
                state.asleep = False
        return ended

    def _land(self, copy: Copy) -> None:
        """A copy has ended: what it brought to the host is there, what it took need not be kept."""
        if copy.is_load:
            self.tier.release(copy.keys)
        else:
            self.tier.arrive(copy.keys, held=self.disk is not None)

    def end_pass(self, now_ns: int) -> bool:
        """Submit the stores of the pass that ends now; those that take no time have ended at once.

        Return whether any copy has ended.
        """
        ended = self.end_copies(now_ns)
        self.lanes.submit_stores(now_ns)
        return self.end_copies(now_ns) or ended

    def load(self, sequence: Sequence, blocks: int, now_ns: int, known_blocks: int) -> None:
        """Start to load `blocks` blocks behind the `found_blocks` that the sequence holds."""
        state = self.states[sequence]
        ready_ns = self.pool.take_ready(blocks)
        first = state.found_blocks
        state.restored = first + blocks
        state.tail_blocks = known_blocks - state.restored
        self.tail_blocks += state.tail_blocks
        state.load = Copy(sequence, state.keys[first : state.restored], is_load=True)
        self.tier.load(state.load.keys)
        self.loading.update(state.load.keys)
        self.lanes.submit_load(state.load, max(now_ns, ready_ns))

    def progressed(self) -> None:
        """The pass being planned does something."""
        if self.disk is not None:
            self.disk.progressed()

    # The pass being planned -----------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Forget the pass before."""
        self.scheduled.clear()
        self.unwritten.clear()

    def schedule(self, sequence: Sequence, first_block: int, found_blocks: int) -> None:
        """Book a chunk whose blocks, from `first_block` on, were just taken."""
        self.scheduled[sequence] = found_blocks
        self.unstored[sequence] = None
        if self.pool.overwritten:
            keys = self.states[sequence].keys
            positions = (first_block + number for number in self.pool.overwritten)
            for key in (keys[position] for position in positions if position < len(keys)):
                self.unwritten.setdefault(key, []).append(sequence)

    def _is_unwritten(self, sequence: Sequence, position: int) -> bool:
        """Whether a block of a request lies on space still being read, be it computed by another request."""
        owners = self.unwritten.get(self.states[sequence].keys[position])
        if not owners:
            return False
        return position < self.scheduled.get(sequence, 0) or sequence in owners

    def admitted(self, sequence: Sequence, reused_tokens: int, block_size: int) -> None:
        """A request left the queue: what was kept for it is its own, and its reuse is split by tier."""
        self._take_out(sequence)
        state = self.states[sequence]
        host_tokens = disk_tokens = 0
        if state.restored:
            blocks = state.stored = reused_tokens // block_size
            host_tokens = max(0, reused_tokens - state.found_blocks * block_size)
            restored = state.keys[state.found_blocks : blocks]
            disk_tokens = block_size * sum(key in state.promoted for key in restored)
            self.tail_blocks -= state.tail_blocks
            state.restored = state.tail_blocks = 0
        if len(sequence.admissions) == 1:
            sequence.host_reused_tokens = host_tokens
            sequence.disk_reused_tokens = disk_tokens
        if self.disk is not None:
            state.promoted.clear()
            self.disk.forget(state)

    def store(self, sequence: Sequence, computed_tokens: int, block_size: int) -> bool:
        """Offer the prompt blocks computed so far; return whether the request has more to offer.

        Nothing is stored in this pass when there is no room, or when a block lies on space still being read.
        """
        state = self.states[sequence]
        keys, first = state.keys, state.stored
        last = min(computed_tokens // block_size, len(keys))
        holds = self.tier.holds
        missing = [position for position in range(first, last) if not holds(keys[position])]
        if not missing:
            state.stored = max(first, last)
        elif not any(self._is_unwritten(sequence, position) for position in missing):
            reserved = self.tier.reserve(keys[first:last])
            if reserved is not None:
                state.store = Copy(sequence, reserved, is_load=False)
                self.pool.read_by(state.store, sequence, missing)
                self.lanes.prepared.append(state.store)
                state.stored = last
                self.tier.touch(keys)
        return state.stored < len(keys)
