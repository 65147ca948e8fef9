"""The host memory behind one rank (G2): which blocks of prompts it has, and which it gives up first.

A block is known by its identity, a number (see `BlockIdentities`). It is *pending* while it is copied in,
*pinned* while it is copied out, to the GPU or to a disk, and else waits in the order of last use. Blocks that
enter that order together enter it deepest first, so that a prompt is given up from its end. (Which of them
the reference gives up first depends on the hashes of their contents.) Rules: spec 01 section 5.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence


class HostMatch(NamedTuple):
    """Blocks found from some block of a prompt on, and whether any of them is on its way in or to the GPU."""

    blocks: int
    in_transit: bool


class HostTier:
    """At most `capacity_blocks` blocks of prompts."""

    __slots__ = ("_pending", "_pinned", "_unpinned", "capacity_blocks")

    def __init__(self, capacity_blocks: int) -> None:
        self.capacity_blocks = capacity_blocks
        self._pending: set[int] = set()
        self._pinned: Counter[int] = Counter()  # how many times each; none is 0
        self._unpinned: OrderedDict[int, None] = OrderedDict()  # longest unused first

    def holds(self, key: int) -> bool:
        """Whether a block has a place here, be it still on its way in."""
        return key in self._unpinned or key in self._pinned or key in self._pending

    def is_resident(self, key: int) -> bool:
        """Whether a block can be copied out."""
        return key in self._unpinned or key in self._pinned

    def is_pending(self, key: int) -> bool:
        """Whether a block is on its way in."""
        return key in self._pending

    def match(self, keys: Sequence[int], start: int, loading: Container[int]) -> HostMatch:
        """Find the blocks of a prompt from block `start` on that follow each other here.

        `loading`: those that are on their way to the GPU of who asks.
        """
        in_transit = False
        for position in range(start, len(keys)):
            key = keys[position]
            if not (key in self._unpinned or key in self._pinned or key in self._pending):
                return HostMatch(position - start, in_transit)
            in_transit |= key in loading or key in self._pending
        return HostMatch(len(keys) - start, in_transit)

    def touch(self, keys: Sequence[int]) -> None:
        """Note the use of a prompt: its first block becomes the last to go."""
        unpinned = self._unpinned
        for key in reversed(keys):
            if key in unpinned:
                unpinned.move_to_end(key)

    def reserve(self, keys: Sequence[int]) -> list[int] | None:
        """Make room for the blocks that are missing and return them; None, and no change, without room.

        The longest unused go first, but none of `keys`.
        """
        missing = [key for key in keys if not self.holds(key)]
        needed = len(missing) - self.free_blocks
        if needed > 0:
            victims = self._victims(needed, set(keys))
            if len(victims) < needed:
                return None
            for victim in victims:
                del self._unpinned[victim]
        self._pending.update(missing)
        return missing

    @property
    def resident_blocks(self) -> int:
        """Blocks that can be copied out."""
        return len(self._unpinned) + len(self._pinned)

    @property
    def free_blocks(self) -> int:
        """Blocks that hold nothing."""
        return self.capacity_blocks - len(self._unpinned) - len(self._pinned) - len(self._pending)

    def problem(self) -> str | None:
        """Tell what is wrong with the books, if anything is."""
        places = len(self._unpinned.keys() | self._pinned.keys() | self._pending)
        listed = self.capacity_blocks - self.free_blocks
        if places != listed or self.free_blocks < 0:
            return f"host memory lists {listed} blocks in {places} places"
        return None

    def _victims(self, needed: int, kept: set[int]) -> list[int]:
        victims = []
        for key in self._unpinned:
            if key not in kept:
                victims.append(key)
                if len(victims) == needed:
                    break
        return victims

    def has_room_for(self, keys: Sequence[int]) -> bool:
        """Whether `reserve` would find room for blocks. Changes nothing."""
        needed = sum(not self.holds(key) for key in keys) - self.free_blocks
        return needed <= 0 or len(self._victims(needed, set(keys))) == needed

    def arrive(self, keys: Sequence[int], held: bool = False) -> None:
        """Blocks of one prompt, in its order, have been copied in; with `held` they are pinned."""
        self._pending.difference_update(keys)
        if held:
            self._pinned.update(keys)
        else:
            self._file(keys)

    def promoted(self, keys: Sequence[int]) -> None:
        """Blocks have been copied in from a disk, one after the other."""
        self._pending.difference_update(keys)
        self._unpinned.update(dict.fromkeys(keys))

    def load(self, keys: Iterable[int]) -> None:
        """Keep blocks that are copied to the GPU."""
        for key in keys:
            self._unpinned.pop(key, None)
            self._pinned[key] += 1

    def release(self, keys: Sequence[int]) -> None:
        """Unpin blocks of one prompt, in its order; those that nobody else has pinned may be given up."""
        released = []
        for key in keys:
            if self._pinned[key] > 1:
                self._pinned[key] -= 1
            else:
                del self._pinned[key]
                released.append(key)
        self._file(released)

    def _file(self, keys: Sequence[int]) -> None:
        self._unpinned.update(dict.fromkeys(reversed(keys)))


class BlockIdentities:
    """Numbers the full blocks of prompts: equal numbers where contents and all that is before are equal.

    The key of a content block stands for `stride` KV blocks. A prompt without keys shares with nobody.
    """

    __slots__ = ("_numbers", "_unused")

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._unused = 1

    def find(self, keys: Sequence[int], stride: int, blocks: int) -> list[int]:
        """Give the numbers of the first blocks of a prompt as far as any other prompt had the same."""
        found: list[int] = []
        parent = 0
        for key in keys[: -(-blocks // stride)]:
            number = self._numbers.get((parent, key))
            if number is None:
                break
            parent = number
            found += range(number * stride, (number + 1) * stride)
        return found[:blocks]

    def of(self, keys: Sequence[int] | None, stride: int, blocks: int) -> list[int]:
        """Give the numbers of the first `blocks` blocks, or of as many as `keys` cover."""
        if keys is None:
            first = self._unused
            self._unused += blocks
            return [number * stride for number in range(first, first + blocks)]
        identities: list[int] = []
        parent = 0
        for key in keys[: -(-blocks // stride)]:
            number = self._numbers.get((parent, key))
            if number is None:
                number = self._numbers[parent, key] = self._unused
                self._unused += 1
            parent = number
            identities += range(number * stride, (number + 1) * stride)
        return identities[:blocks]
