"""The reference's order among blocks of host memory that arrived together, for our replays.

It gives up those first whose content has the lowest hash, where ours gives up the end of a prompt: one of
the differences on purpose. Under its order ours has to give the same results, which shows that nothing else
differs. The hash is XXH3 (64 bits, seed 1337) of a block's tokens, then of the hash before it and that one.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SEED = 1337
_MASK = (1 << 64) - 1
# The start of the constant that the algorithm mixes in.
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
)


def xxh3(data: bytes, seed: int = SEED) -> int:
    """Give the XXH3 hash of 4 to 32 bytes."""
    size = len(data)
    if 4 <= size <= 8:
        return _of_8(data, size, seed)
    if size <= 16:
        return _of_16(data, size, seed)
    if size <= 32:
        mixed = size * 0x9E3779B185EBCA87
        mixed += _mixed(data[:16], 0, seed) + _mixed(data[-16:], 16, seed)
        return _avalanche(mixed & _MASK)
    raise ValueError(f"{size} bytes: not within 4 and 32")


def _of_8(data: bytes, size: int, seed: int) -> int:
    seed ^= int.from_bytes((seed & 0xFFFFFFFF).to_bytes(4, "little"), "big") << 32
    first, last = _word(data, 0, 4), _word(data, size - 4, 4)
    mixed = ((_secret(8) ^ _secret(16)) - seed & _MASK) ^ (last + (first << 32))
    mixed ^= _rotated(mixed, 49) ^ _rotated(mixed, 24)
    mixed = mixed * 0x9FB21C651E98DF25 & _MASK
    mixed ^= (mixed >> 35) + size
    mixed = mixed * 0x9FB21C651E98DF25 & _MASK
    return mixed ^ (mixed >> 28)


def _of_16(data: bytes, size: int, seed: int) -> int:
    low = _word(data, 0) ^ ((_secret(24) ^ _secret(32)) + seed & _MASK)
    high = _word(data, size - 8) ^ ((_secret(40) ^ _secret(48)) - seed & _MASK)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(size + swapped + high + _folded(low, high) & _MASK)


def _mixed(data: bytes, at: int, seed: int) -> int:
    low = _word(data, 0) ^ (_secret(at) + seed & _MASK)
    return _folded(low, _word(data, 8) ^ (_secret(at + 8) - seed & _MASK))


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _secret(at: int) -> int:
    return _word(_SECRET, at)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _MASK


def _folded(one: int, other: int) -> int:
    product = one * other
    return (product & _MASK) ^ (product >> 64)


def _avalanche(mixed: int) -> int:
    mixed ^= mixed >> 37
    mixed = mixed * 0x165667919E3779F9 & _MASK
    return mixed ^ (mixed >> 32)


@lru_cache(maxsize=100_000)
def _local(token: int, block_tokens: int) -> int:
    return xxh3(struct.pack("<I", token) * block_tokens)


class ContentOrder:
    """Hashes of the blocks of one replay: trace ids count as tokens in the order of their first use."""

    def __init__(self, rows: Iterable[dict[str, Any]], block_tokens: int) -> None:
        ids = (number for row in rows for number in row["hash_ids"])
        self._tokens = {number: token for token, number in enumerate(dict.fromkeys(ids))}
        self._block_tokens = block_tokens
        self.hashes: dict[int, int] = {}  # of blocks, by the number that ours gives them

    def note(self, keys: Sequence[int], identities: Sequence[int], stride: int) -> None:
        """Hash the blocks of a prompt, which ours numbers by `identities`."""
        parent = None
        for position, identity in enumerate(identities):
            known = self.hashes.get(identity)
            if known is None:
                known = _local(self._tokens[keys[position // stride]], self._block_tokens)
                if parent is not None:
                    known = xxh3(struct.pack("<QQ", parent, known))
                self.hashes[identity] = known
            parent = known


def follow(order: ContentOrder) -> None:
    """Let the engine of this process give up blocks by the hashes of this replay."""
    from aisimulate.engine.disk_tier import DiskTier  # noqa: PLC0415 - ours only
    from aisimulate.engine.host_tier import BlockIdentities, HostTier  # noqa: PLC0415 - ours only

    numbered = _originals.setdefault("of", BlockIdentities.of)
    firsts = count(1, _NUMBERS_OF_A_RANK)

    def start(self: Any) -> None:
        self._numbers, self._unused = {}, next(firsts)  # ranks number apart: the hashes are of all of them

    def of(self: Any, keys: Sequence[int] | None, stride: int, blocks: int) -> list[int]:
        identities = numbered(self, keys, stride, blocks)
        if keys is not None:
            order.note(keys, identities, stride)
        return identities

    def file(self: Any, keys: Sequence[int]) -> None:
        self._unpinned.update(dict.fromkeys(sorted(keys, key=order.hashes.__getitem__)))

    BlockIdentities.__init__ = start  # type: ignore[method-assign]
    BlockIdentities.of = of  # type: ignore[method-assign]
    HostTier._file = DiskTier._file = file  # type: ignore[method-assign]


_NUMBERS_OF_A_RANK = 1_000_000
_originals: dict[str, Any] = {}
