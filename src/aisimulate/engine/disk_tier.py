"""The disk behind host memory (G3), of one worker or of all: which blocks of prompts it has, and its traffic.

A block is *pending* while it is written, *pinned* while it is read, and else waits in the order of last use.
Blocks that enter that order together enter it deepest first. Rules: spec 01 section 5.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

from aisimulate.engine.fair_service import FairService, Transfer, exact_gbps
from aisimulate.engine.sharers import Sharers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.engine.params import DiskParams


class Found(Enum):
    """What a look for a block came to."""

    MISSING = 1
    PENDING = 2
    RESIDENT = 3


@dataclass(slots=True)
class Traffic:
    """Transfers of one direction. `transfer_ns`: sum of their durations, first-byte latency included."""

    submitted: int = 0
    completed: int = 0
    completed_blocks: int = 0
    transfer_ns: int = 0


@dataclass(slots=True)
class DiskStats:
    """What happened to a disk. `bypassed`: requests that gave up to restore from it."""

    probes: int = 0
    hits: int = 0
    pending: int = 0
    evictions: int = 0
    cross_worker_blocks: int = 0
    bypassed: int = 0
    reads: Traffic = field(default_factory=Traffic)
    writes: Traffic = field(default_factory=Traffic)


class DiskJob:
    """Blocks of one prompt on their way to the disk, or (`is_read`) from there."""

    __slots__ = ("is_read", "keys", "submitted_ns")

    def __init__(self, keys: list[int], is_read: bool, now_ns: int) -> None:
        self.keys = keys
        self.is_read = is_read
        self.submitted_ns = now_ns


class DiskTier:
    """At most `num_blocks` blocks. Its clients are ranks, numbered as they `join`.

    What ends for a client waits until the client fetches it. `changes` counts all that ended.
    """

    __slots__ = (
        "_capacity_blocks",
        "_ended",
        "_gbps",
        "_params",
        "_pending",
        "_pinned",
        "_service",
        "_unpinned",
        "_writers",
        "changes",
        "sharers",
        "stats",
    )

    def __init__(self, params: DiskParams) -> None:
        self._params = params
        self._capacity_blocks = params.num_blocks
        shared = (params.shared_read_gbps, params.shared_write_gbps) if params.is_shared else (0.0, 0.0)
        self._service: FairService[DiskJob] = FairService(*map(exact_gbps, shared))
        self._gbps = {True: exact_gbps(params.read_gbps), False: exact_gbps(params.write_gbps)}
        self._pending: set[int] = set()
        self._pinned: Counter[int] = Counter()
        self._unpinned: OrderedDict[int, None] = OrderedDict()  # longest unused first
        self._writers: dict[int, int] = {}
        self._ended: list[list[Transfer[DiskJob]]] = []
        self.changes = 0
        self.sharers = Sharers() if params.is_shared else None
        self.stats = DiskStats()

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self._params.block_bytes

    def join(self) -> int:
        """Take up a rank as a client; return its number."""
        self._ended.append([])
        return len(self._ended) - 1

    # Contents -----------------------------------------------------------------------------------------

    def holds(self, key: int) -> bool:
        """Whether a block has a place here, be it still on its way in."""
        return key in self._writers

    @property
    def resident_blocks(self) -> int:
        """Blocks that can be read."""
        return len(self._writers) - len(self._pending)

    @property
    def pending_blocks(self) -> int:
        """Blocks that are being written."""
        return len(self._pending)

    def is_resident(self, key: int) -> bool:
        """Whether a block can be read."""
        return key in self._writers and key not in self._pending

    def probe(self, key: int) -> Found:
        """Look for a block, which counts as use of it."""
        stats = self.stats
        stats.probes += 1
        if key in self._pending:
            stats.pending += 1
            return Found.PENDING
        if key not in self._writers:
            return Found.MISSING
        stats.hits += 1
        if key in self._unpinned:
            self._unpinned.move_to_end(key)
        return Found.RESIDENT

    def problem(self) -> str | None:
        """Tell what is wrong with the books, if anything is."""
        pinned = self._pinned
        listed = len(self._unpinned) + len(pinned) + len(self._pending)
        places = self._unpinned.keys() | pinned.keys() | self._pending
        if not (listed == len(self._writers) <= self._capacity_blocks and places == self._writers.keys()):
            return f"the disk lists {listed} blocks, and holds {len(self._writers)}"
        return None

    # Traffic ------------------------------------------------------------------------------------------

    def write(self, client: int, keys: Sequence[int], now_ns: int) -> list[int]:
        """Begin to write the blocks that are missing, the first as far as there is room, and return them.

        The longest unused go for them, but none of `keys`, and none that is being written or read.
        """
        self._advance(now_ns)
        missing = [key for key in keys if key not in self._writers]
        excess = len(self._writers) + len(missing) - self._capacity_blocks
        if excess > 0:
            victims = self._victims(excess, keys)
            for victim in victims:
                del self._unpinned[victim]
                del self._writers[victim]
            self.stats.evictions += len(victims)
            missing = missing[: len(missing) - excess + len(victims)]
        if not missing:
            return []
        self._pending.update(missing)
        self._writers.update(dict.fromkeys(missing, client))
        self._submit(client, missing, is_read=False, now_ns=now_ns)
        return missing

    def _victims(self, needed: int, keys: Sequence[int]) -> list[int]:
        kept = set(keys)
        return list(islice((key for key in self._unpinned if key not in kept), needed))

    def read(self, client: int, keys: list[int], now_ns: int) -> None:
        """Begin to read blocks, all of which are resident."""
        self._advance(now_ns)
        for key in keys:
            self._unpinned.pop(key, None)
            self._pinned[key] += 1
        self._submit(client, keys, is_read=True, now_ns=now_ns)

    def _submit(self, client: int, keys: list[int], is_read: bool, now_ns: int) -> None:
        params = self._params
        size_bytes = len(keys) * params.block_bytes
        transfer = Transfer(DiskJob(keys, is_read, now_ns), client, is_read, size_bytes, self._gbps[is_read])
        self._service.submit(transfer, now_ns, params.latency_ns)
        self._traffic(is_read).submitted += 1

    def _traffic(self, is_read: bool) -> Traffic:
        return self.stats.reads if is_read else self.stats.writes

    def _advance(self, now_ns: int) -> None:
        for transfer in self._service.advance(now_ns):
            self._finish(transfer)

    def _finish(self, transfer: Transfer[DiskJob]) -> None:
        job, stats = transfer.what, self.stats
        keys = job.keys
        if job.is_read:
            stats.cross_worker_blocks += sum(self._writers[key] != transfer.client for key in keys)
            self._pinned.subtract(keys)
            released = [key for key in keys if not self._pinned[key]]
            for key in released:
                del self._pinned[key]
            self._file(released)
        else:
            self._pending.difference_update(keys)
            self._file(keys)
        self.changes += 1
        traffic = self._traffic(job.is_read)
        traffic.completed += 1
        traffic.completed_blocks += len(keys)
        traffic.transfer_ns += transfer.end_ns - job.submitted_ns
        self._ended[transfer.client].append(transfer)

    def _file(self, keys: list[int]) -> None:
        self._unpinned.update(dict.fromkeys(reversed(keys)))

    def next_ns(self, client: int) -> int:
        """When something happens next; the past if anything ended that the client has to fetch."""
        if self._ended[client]:
            return self._ended[client][0].end_ns
        return self._service.next_ns

    def is_busy(self, client: int) -> bool:
        """Whether anything of a client is on its way, or ended and was not fetched."""
        return bool(self._ended[client]) or self._service.uses(client)

    def fetch_ended(self, client: int, now_ns: int) -> list[DiskJob]:
        """Take out what ended by now for a client, in order."""
        if self._service.next_ns <= now_ns:
            self._advance(now_ns)
        ended = self._ended[client]
        if not ended:
            return []
        self._ended[client] = [transfer for transfer in ended if transfer.end_ns > now_ns]
        return [transfer.what for transfer in ended if transfer.end_ns <= now_ns]
