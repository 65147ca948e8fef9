"""Host memory that all ranks of a deployment share (G2 of scope `cluster_shared`), and the way to it.

In each direction a copy moves at the lower of two shares: of what its rank may use, by the rank's moving
copies, and of what the memory has, by all moving ones. When it ends, all find its blocks at once, whoever
notices first; the rank that asked for it hears of it when it looks next. Rules: spec 01 section 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.fair_service import FairService, Transfer, exact_gbps
from aisimulate.engine.host_tier import BlockIdentities, HostTier
from aisimulate.engine.offload_lanes import Copy, Lanes
from aisimulate.engine.offload_state import HostSide
from aisimulate.engine.sharers import Sharers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisimulate.engine.params import OffloadParams, SharedHostParams


class SharedHost(HostTier):
    """The memory, and all copies to and from it. `changes` counts what has ended."""

    __slots__ = (
        "_block_bytes",
        "_ended",
        "_holds",
        "_numbers",
        "_service",
        "_submitted",
        "changes",
        "identities",
        "sharers",
    )

    def __init__(self, params: SharedHostParams) -> None:
        super().__init__(params.num_blocks)
        self._block_bytes = params.block_bytes
        limits = exact_gbps(params.h2d_gbps), exact_gbps(params.d2h_gbps)
        self._service: FairService[Copy] = FairService(*limits)
        self._ended: list[list[Copy]] = []  # by client, what it has not heard of
        self._holds: list[bool] = []  # by client, whether what it stored is kept until it says otherwise
        self._numbers: dict[
            Copy, int
        ] = {}  # of those on their way, in the order in which they were asked for
        self._submitted = 0
        self.identities = BlockIdentities()
        self.changes = 0
        self.sharers = Sharers()

    def join(self, holds_stored: bool) -> int:
        """Take up a rank as a client; return its number."""
        self._ended.append([])
        self._holds.append(holds_stored)
        return len(self._ended) - 1

    def promoted(self, keys: Sequence[int]) -> None:
        """Blocks have been copied in from a disk, one after the other."""
        super().promoted(keys)
        self.changes += 1

    @property
    def next_ns(self) -> int:
        """When something happens next."""
        return self._service.next_ns

    def is_busy(self, client: int) -> bool:
        """Whether anything of a client is on its way, or ended without its knowledge."""
        return bool(self._ended[client]) or self._service.uses(client)

    def submit(self, client: int, copy: Copy, gbps: float, now_ns: int, latency_ns: int) -> None:
        """Begin a copy on a link of so many GB/s."""
        self.advance(now_ns)
        copy.end_ns = 0  # nobody waits for that instant
        self._submitted += 1
        self._numbers[copy] = self._submitted
        size_bytes = len(copy.keys) * self._block_bytes
        transfer = Transfer(copy, client, copy.is_load, size_bytes, exact_gbps(gbps))
        self._service.submit(transfer, now_ns, latency_ns)

    def advance(self, now_ns: int) -> None:
        """Let everything happen that ends by `now_ns`; at one instant stores come first."""
        if self._service.next_ns > now_ns:
            return
        ended = self._service.advance(now_ns)
        ended.sort(key=lambda each: (each.end_ns, each.is_read, self._numbers[each.what]))
        for transfer in ended:
            copy, client = transfer.what, transfer.client
            del self._numbers[copy]
            if copy.is_load:
                self.release(copy.keys)
            else:
                self.arrive(copy.keys, held=self._holds[client])
            self.changes += 1
            self._ended[client].append(copy)

    def fetch_ended(self, client: int, now_ns: int) -> list[Copy]:
        """Take out what ended by now for a client, in order."""
        self.advance(now_ns)
        ended, self._ended[client] = self._ended[client], []
        return ended


class SharedLanes(Lanes):
    """A rank's copies to and from host memory that it shares."""

    __slots__ = ("_params", "_seen", "client", "host")

    def __init__(self, host: SharedHost, client: int, params: OffloadParams) -> None:
        super().__init__(params.block_bytes, params.d2h_bandwidth_gbps, params.h2d_bandwidth_gbps)
        self.host = host
        self.client = client
        self._params = params
        self._seen = 0  # of `host.changes`

    @property
    def busy(self) -> bool:
        """Whether anything is on its way or about to be."""
        return bool(self.prepared) or self.host.is_busy(self.client)

    @property
    def next_end_ns(self) -> int:
        """When something happens next; the past if something ended that this rank has not seen."""
        return 0 if self._seen != self.host.changes else self.host.next_ns

    def submit_stores(self, now_ns: int) -> None:
        """Start the stores of the pass that ends now."""
        for copy in self.prepared:
            self._submit(copy, self._params.d2h_bandwidth_gbps, now_ns)
        self.prepared = []

    def submit_load(self, copy: Copy, not_before_ns: int) -> None:
        """Start a load."""
        self._submit(copy, self._params.h2d_bandwidth_gbps, not_before_ns)

    def _submit(self, copy: Copy, gbps: float, now_ns: int) -> None:
        self.host.submit(self.client, copy, gbps, now_ns, self._params.latency_ns)

    def pop_ended(self, now_ns: int) -> Iterator[Copy]:
        """Take out what has ended by `now_ns`, in the order of time; at one instant stores come first."""
        yield from self.host.fetch_ended(self.client, now_ns)

    @property
    def has_news(self) -> bool:
        """Whether any copy has ended since this was noted last."""
        return self._seen != self.host.changes

    def note(self) -> None:
        """Take note of all that has ended."""
        self._seen = self.host.changes


class SharedHostSide(HostSide):
    """A rank's access to host memory that it shares with others."""

    __slots__ = ("_is_last", "_shared_lanes")

    def _make_tier(self, params: OffloadParams) -> HostTier:
        assert params.shared is not None
        return params.shared

    def _make_lanes(self, params: OffloadParams) -> Lanes:
        host = params.shared
        assert host is not None
        self._is_last = False  # whether nothing goes on elsewhere, so that nobody here waits for others
        self._shared_lanes = SharedLanes(host, host.join(self.disk is not None), params)
        return self._shared_lanes

    def end_copies(self, now_ns: int) -> bool:
        """Let everything happen that copies bring about by `now_ns`; return whether any has ended."""
        ended = super().end_copies(now_ns)
        self._shared_lanes.note()
        return ended

    def is_stuck(self, now_ns: int) -> bool:
        """Whether nothing that goes on elsewhere may help a rank where nothing runs and nothing arrives."""
        if self._is_last:
            self._is_last = False
            return True
        return super().is_stuck(now_ns)

    def give_up(self) -> bool:
        """Take it that nothing goes on elsewhere, for one request; return whether that is new."""
        is_new, self._is_last = not self._is_last, True
        return is_new

    def _land(self, copy: Copy) -> None:
        """Do nothing: the host knew it first."""
