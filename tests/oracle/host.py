"""Host memory behind one rank, one object per block, and the copies to and from it (spec 01 section 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .pool import Block, Pool

if TYPE_CHECKING:
    from .request import Request


@dataclass(eq=False)
class Copy:
    """Blocks of one request's prompt on their way out (store) or back in (load)."""

    request: Request
    identities: list[int]
    is_load: bool
    number: int = 0
    end_ns: int | None = None


@dataclass(eq=False)
class HostBlock:
    """A place in host memory; the block with the lowest stamp was used least recently."""

    resident: bool = False
    pinned: bool = False  # while it is loaded
    held: bool = False  # while it is written to a disk
    stamp: tuple[int, int] = (0, 0)


@dataclass
class Host:
    """Capacity, contents and lanes. Bandwidths in decimal GB/s; 0 takes no time."""

    capacity: int
    block_bytes: int
    d2h_gbps: float
    h2d_gbps: float
    blocks: dict[int, HostBlock] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)  # submitted and not ended
    prepared: list[Copy] = field(default_factory=list)
    tail_ns: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    clock: int = 0
    made: int = 0
    latency_ns: int = 0
    has_disk: bool = False

    def touch(self, identities: list[int]) -> None:
        """Use a prompt: one block after the other, from its end."""
        for identity in reversed(identities):
            block = self.blocks.get(identity)
            if block and block.resident and not (block.pinned or block.held):
                self.clock += 1
                block.stamp = (self.clock, 0)

    def settle(self, copy: Copy) -> None:
        """Blocks have been copied; with a disk, those that came in are held until it was offered them."""
        for identity in copy.identities:
            block = self.blocks[identity]
            block.resident, block.pinned = True, False
            block.held |= self.has_disk and not copy.is_load
        self._file([identity for identity in copy.identities if not self.blocks[identity].held])

    def release(self, identities: list[int]) -> None:
        """Blocks are held no longer."""
        for identity in identities:
            self.blocks[identity].held = False
        self._file([identity for identity in identities if not self.blocks[identity].pinned])

    def promoted(self, identities: list[int]) -> None:
        """Blocks came in from a disk, one after the other."""
        for identity in identities:
            self.blocks[identity].resident = True
            self._file([identity])

    def _file(self, identities: list[int]) -> None:
        """Blocks become evictable together; of those, the deepest goes first."""
        self.clock += 1
        for depth, identity in enumerate(identities):
            self.blocks[identity].stamp = (self.clock, -depth)

    def reserve(self, identities: list[int], dry: bool = False) -> list[int] | None:
        """Places for what is missing, evicting what was used least recently; None if that is not enough.

        A dry run only tells.
        """
        missing = [identity for identity in identities if identity not in self.blocks]
        evictable = [
            identity
            for identity, block in self.blocks.items()
            if block.resident and not (block.pinned or block.held) and identity not in identities
        ]
        evictable.sort(key=lambda identity: self.blocks[identity].stamp)
        excess = len(self.blocks) + len(missing) - self.capacity
        if excess > len(evictable):
            return None
        if dry:
            return missing
        for identity in evictable[: max(0, excess)]:
            del self.blocks[identity]
        for identity in missing:
            self.blocks[identity] = HostBlock()
        return missing

    def submit(self, copy: Copy, not_before_ns: int) -> None:
        """Queue a copy on its lane."""
        gbps = self.h2d_gbps if copy.is_load else self.d2h_gbps
        size = len(copy.identities) * self.block_bytes
        start_ns = max(self.tail_ns[copy.is_load], not_before_ns + self.latency_ns)
        copy.end_ns = self.tail_ns[copy.is_load] = start_ns + (round(size / gbps) if gbps else 0)
        self.made += 1
        copy.number = self.made
        self.copies.append(copy)

    def ended(self, now_ns: int) -> list[Copy]:
        """Settle the copies that end by now: in order of time, stores first, then of submission."""
        due = [copy for copy in self.copies if copy.end_ns is not None and copy.end_ns <= now_ns]
        due.sort(key=lambda copy: (copy.end_ns, copy.is_load, copy.number))
        for copy in due:
            self.copies.remove(copy)
            self.settle(copy)
        return due


class ReadablePool(Pool):
    """A pool that knows of every piece of its space which store still reads it."""

    def __init__(self, capacity: int, host: Host) -> None:
        self.host = host
        self.readers: dict[Block, Copy] = {}
        self.free_space: list[Copy | None] = [None] * capacity
        self.waits_for: list[Copy] = []  # of the space allocated last
        super().__init__(capacity)

    def _pending(self, copy: Copy | None) -> bool:
        return copy is not None and (copy in self.host.copies or copy in self.host.prepared)

    def is_read(self, block: Block) -> bool:
        """Whether a store reads this block, or the space it was put on."""
        return self._pending(self.readers.get(block))

    def allocate(self, pinned: list[Block], fresh: int) -> list[Block] | None:
        """As ever; space that was freed or evicted last is used first."""
        before = list(self.inactive)
        blocks = super().allocate(pinned, fresh)
        if blocks is None:
            return None
        evicted = [block for block in before if block not in self.inactive and block not in pinned]
        from_free = fresh - len(evicted)
        split = len(self.free_space) - from_free
        space = self.free_space[split:] + [self.readers.pop(block, None) for block in evicted]
        del self.free_space[split:]
        self.waits_for = [copy for copy in space if copy is not None and self._pending(copy)]
        for block in blocks[len(pinned) :]:
            reader = space.pop()
            if reader is not None:
                self.readers[block] = reader
        return blocks

    def release(self, blocks: list[Block]) -> None:
        """As ever; a reader goes with the space."""
        for block in reversed(blocks):
            if block.identity is None:
                self.free_space.append(self.readers.pop(block, None))
        super().release(blocks)
