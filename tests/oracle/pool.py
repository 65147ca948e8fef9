"""A KV pool of one rank, one object per block (spec 01 section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Block:
    """One occupied block; `identity` is None while its content is private to one request."""

    identity: int | None = None
    references: int = 1


@dataclass
class Pool:
    """`capacity` blocks: free ones are a count, cached ones nobody references wait in release order."""

    capacity: int
    free: int = 0
    copies: dict[int, list[Block]] = field(default_factory=dict)  # per identity, oldest first
    inactive: list[Block] = field(default_factory=list)  # oldest release first
    aside: int = 0  # for the bursts of the pass in flight

    def __post_init__(self) -> None:
        self.free = self.capacity

    @property
    def active(self) -> int:
        """Blocks that some request references."""
        return self.capacity - self.free - len(self.inactive)

    def lookup(self, identities: list[int]) -> list[Block]:
        """The oldest resident copy of each leading identity, up to the first that is not resident."""
        hits = []
        for identity in identities:
            if identity not in self.copies:
                break
            hits.append(self.copies[identity][0])
        return hits

    def allocate(self, pinned: list[Block], fresh: int) -> list[Block] | None:
        """Reference `pinned` and take `fresh` new private blocks, or change nothing and return None."""
        evictable = len(self.inactive) - sum(block.references == 0 for block in pinned)
        if fresh > self.free + evictable:
            return None
        for block in pinned:
            if block.references == 0:
                self.inactive.remove(block)
            block.references += 1
        for _ in range(fresh - self.free):
            self._evict_oldest()
        self.free -= fresh
        return pinned + [Block() for _ in range(fresh)]

    def set_aside(self, blocks: int) -> bool:
        """Keep `blocks` free ones for bursts, evicting what that takes; False (and nothing) if impossible."""
        if blocks > self.free + len(self.inactive):
            return False
        for _ in range(blocks - self.free):
            self._evict_oldest()
        self.free -= blocks
        self.aside = blocks
        return True

    def use_set_aside(self) -> Block:
        """Take one of the blocks set aside."""
        assert self.aside > 0
        self.aside -= 1
        return Block()

    def return_rest(self) -> None:
        """Free what is still set aside."""
        self.free += self.aside
        self.aside = 0

    def cache(self, block: Block, identity: int) -> None:
        """Make a completed private block findable."""
        assert block.identity is None
        block.identity = identity
        self.copies.setdefault(identity, []).append(block)

    def release(self, blocks: list[Block]) -> None:
        """Let go of a request's blocks, deepest first; private ones become free at once."""
        for block in reversed(blocks):
            block.references -= 1
            if block.identity is None:
                self.free += 1
            elif block.references == 0:
                self.inactive.append(block)

    def _evict_oldest(self) -> None:
        block = self.inactive.pop(0)
        assert block.identity is not None
        copies = self.copies[block.identity]
        copies.remove(block)
        if not copies:
            del self.copies[block.identity]
        self.free += 1
