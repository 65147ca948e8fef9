"""The copies between a rank and its host memory: one lane in each direction, first come, first served."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.engine.sequence import Sequence

NEVER_NS = 1 << 62


class Copy:
    """Blocks of one prompt on their way out (`is_load`: back in); `end_ns` is set when the lane takes it."""

    __slots__ = ("end_ns", "is_load", "keys", "sequence")

    def __init__(self, sequence: Sequence, keys: list[int], is_load: bool) -> None:
        self.sequence = sequence
        self.keys = keys
        self.is_load = is_load
        self.end_ns = NEVER_NS


class Lane:
    """A direction: copies follow each other and each uses the whole bandwidth (decimal GB/s, 0 = at once)."""

    __slots__ = ("_block_bytes", "_gbps", "_latency_ns", "_tail_ns", "copies")

    def __init__(self, block_bytes: int, gbps: float, latency_ns: int) -> None:
        self._block_bytes = block_bytes
        self._gbps = gbps
        self._latency_ns = latency_ns
        self._tail_ns = 0
        self.copies: deque[Copy] = deque()

    def submit(self, copy: Copy, not_before_ns: int) -> None:
        """Queue a copy behind the others, to start the latency after `not_before_ns` or later."""
        start_ns = max(self._tail_ns, not_before_ns + self._latency_ns)
        size = len(copy.keys) * self._block_bytes
        self._tail_ns = copy.end_ns = start_ns + (round(size / self._gbps) if self._gbps else 0)
        self.copies.append(copy)

    @property
    def next_end_ns(self) -> int:
        """When the first copy ends."""
        return self.copies[0].end_ns if self.copies else NEVER_NS

    @property
    def last_end_ns(self) -> int:
        """When the last copy ends; 0 without any."""
        return self.copies[-1].end_ns if self.copies else 0


class Lanes:
    """Both directions, and the stores of the pass in flight, which are submitted when it ends."""

    __slots__ = ("_loads", "_stores", "loads_begun", "prepared")

    def __init__(self, block_bytes: int, d2h_gbps: float, h2d_gbps: float, latency_ns: int = 0) -> None:
        self._stores = Lane(block_bytes, d2h_gbps, latency_ns)
        self._loads = Lane(block_bytes, h2d_gbps, latency_ns)
        self.prepared: list[Copy] = []
        self.loads_begun = 0

    @property
    def busy(self) -> bool:
        """Whether anything is on its way or about to be."""
        return bool(self._stores.copies or self._loads.copies or self.prepared)

    @property
    def has_news(self) -> bool:
        """Whether copies of others have ended that matter here."""
        return False

    @property
    def next_end_ns(self) -> int:
        """When the first copy of either direction ends."""
        return min(self._stores.next_end_ns, self._loads.next_end_ns)

    @property
    def last_end_ns(self) -> int:
        """When the last copy that was submitted ends; 0 if none is left."""
        return max(self._stores.last_end_ns, self._loads.last_end_ns)

    def submit_stores(self, now_ns: int) -> None:
        """Start the stores of the pass that ends now."""
        for copy in self.prepared:
            self._stores.submit(copy, now_ns)
        self.prepared = []

    def submit_load(self, copy: Copy, not_before_ns: int) -> None:
        """Start a load."""
        self.loads_begun += 1
        self._loads.submit(copy, not_before_ns)

    def pop_ended(self, now_ns: int) -> Iterator[Copy]:
        """Take out what ends by `now_ns`, in the order of time; at one instant stores come first."""
        while (end_ns := self.next_end_ns) <= now_ns:
            lane = self._stores if self._stores.next_end_ns == end_ns else self._loads
            yield lane.copies.popleft()
