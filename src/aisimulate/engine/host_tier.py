"""The host memory behind one rank (G2): which blocks of prompts it has, and which it gives up first.

A block is known by its identity, a number (see `block_identities`). It is *pending* while it is copied in,
*pinned* while it is copied out, and else waits in the order of last use. Blocks that enter that order
together enter it deepest first, so that a prompt is given up from its end. Rules: spec 01 section 5.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class HostMatch(NamedTuple):
    """Blocks found from some block of a prompt on, and whether any of them is on its way in or out."""

    blocks: int
    in_transit: bool


class HostTier:
    """At most `capacity_blocks` blocks of prompts."""

    __slots__ = ("_capacity_blocks", "_pending", "_pinned", "_unpinned")

    def __init__(self, capacity_blocks: int) -> None:
        self._capacity_blocks = capacity_blocks
        self._pending: set[int] = set()
        self._pinned: set[int] = set()
        self._unpinned: OrderedDict[int, None] = OrderedDict()  # longest unused first

    def holds(self, key: int) -> bool:
        """Whether a block has a place here, be it still on its way in."""
        return key in self._unpinned or key in self._pinned or key in self._pending

    def match(self, keys: Sequence[int], start: int) -> HostMatch:
        """Find the blocks of a prompt from block `start` on that follow each other here."""
        in_transit = False
        for position in range(start, len(keys)):
            key = keys[position]
            if key in self._unpinned:
                continue
            if not (key in self._pinned or key in self._pending):
                return HostMatch(position - start, in_transit)
            in_transit = True
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
    def free_blocks(self) -> int:
        """Blocks that hold nothing."""
        return self._capacity_blocks - len(self._unpinned) - len(self._pinned) - len(self._pending)

    def _victims(self, needed: int, kept: set[int]) -> list[int]:
        victims = []
        for key in self._unpinned:
            if key not in kept:
                victims.append(key)
                if len(victims) == needed:
                    break
        return victims

    def arrive(self, keys: Sequence[int]) -> None:
        """Blocks of one prompt, in its order, have been copied in."""
        self._pending.difference_update(keys)
        self._file(keys)

    def pin(self, keys: Iterable[int]) -> None:
        """Keep blocks that are copied out."""
        for key in keys:
            del self._unpinned[key]
            self._pinned.add(key)

    def unpin(self, keys: Sequence[int]) -> None:
        """Blocks of one prompt, in its order, have been copied out."""
        self._pinned.difference_update(keys)
        self._file(keys)

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
