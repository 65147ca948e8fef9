"""Exact order statistics of more weighted whole numbers than fit in memory.

The numbers come in blocks that can be produced again. A first sweep counts them in bins 0.1 % wide. Each
further sweep looks only at blocks that may hold a wanted rank. Few numbers in a bin are put in order; many
are counted in bins 2**17 times narrower, until a bin is one number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    Ints: TypeAlias = npt.NDArray[np.int64]
    Floats: TypeAlias = npt.NDArray[np.float64]
    Pairs: TypeAlias = tuple[Ints, Ints]  # numbers, and the weight of each

# Coarse bins keep this many leading bits of the mantissa of a number.
_MANTISSA_BITS = 10
_DROPPED_BITS = 52 - _MANTISSA_BITS
_FIRST_BIN = (1023 << _MANTISSA_BITS) - 1  # bin 0 holds 0, bin 1 starts at 1
_REFINE_BITS = 17
_FEW = 1 << 12  # numbers that are sooner put in order than counted


class Block(Protocol):
    """A part of the numbers: whole, in 0 .. 2**53 - 1, with weights of 1 or more."""

    def pairs(self) -> Pairs:
        """Produce the numbers and their weights, the same at every call."""
        ...


class RankedBlocks:
    """Blocks seen by the first sweep, which can then name the number at any rank of the sorted whole."""

    __slots__ = ("_blocks", "_coarse")

    def __init__(self) -> None:
        self._blocks: list[tuple[int, int, Block]] = []
        self._coarse = np.zeros(64 << _MANTISSA_BITS, dtype=np.int64)

    def add(self, block: Block, numbers: Ints, weights: Ints) -> None:
        """Count a non-empty block, whose `pairs` are `numbers` and `weights`."""
        self._blocks.append((int(numbers.min()), int(numbers.max()), block))
        np.add.at(self._coarse, _coarse_bins(numbers), weights)

    def at(self, ranks: Iterable[int]) -> dict[int, int]:
        """Map each rank (0 = smallest, below the total weight) to its number."""
        found: dict[int, int] = {}
        bins = self._coarse_parts(sorted(set(ranks)))
        while bins:
            self._count(bins)
            bins = [part for parent in bins for part in parent.split(found)]
        return found

    def _coarse_parts(self, ranks: list[int]) -> list[_Bin]:
        grouped = _group(self._coarse, [(rank, rank) for rank in ranks])
        return [
            _Bin(_coarse_edge(index), _coarse_edge(index + 1), wanted) for index, wanted in grouped.items()
        ]

    def _count(self, bins: list[_Bin]) -> None:
        for low, high, block in self._blocks:
            touched = [part for part in bins if part.low <= high and low < part.high]
            if touched:
                numbers, weights = block.pairs()
                for part in touched:
                    part.count(numbers, weights)


class _Bin:
    """The numbers in low .. high - 1 and the ranks sought there: kept while they are few, else counted.

    They are counted in equal sub-bins of 2**shift.
    """

    __slots__ = ("_few", "_kept", "counts", "high", "low", "shift", "wanted")

    def __init__(self, low: int, high: int, wanted: list[tuple[int, int]]) -> None:
        self.low = low
        self.high = high
        self.wanted = wanted  # (rank in the whole, rank in this bin)
        self.shift = max(0, (high - low - 1).bit_length() - _REFINE_BITS)
        self.counts: Ints | None = None
        self._kept: list[Pairs] = []
        self._few = _FEW

    def count(self, numbers: Ints, weights: Ints) -> None:
        inside = np.flatnonzero((numbers >= self.low) & (numbers < self.high))
        self._kept.append((numbers[inside], weights[inside]))
        self._few -= len(inside)
        if self._few < 0:
            self._tally()

    def _tally(self) -> None:
        """Count the numbers that were kept."""
        if self.counts is None:
            self.counts = np.zeros(((self.high - self.low - 1) >> self.shift) + 1, dtype=np.int64)
        for numbers, weights in self._kept:
            np.add.at(self.counts, (numbers - self.low) >> self.shift, weights)
        self._kept.clear()

    def split(self, found: dict[int, int]) -> list[_Bin]:
        """Note in `found` what is settled; return the sub-bins that are still wider than one number."""
        if self.counts is None:
            self._put_in_order(found)
            return []
        grouped = _group(self.counts, self.wanted)
        if self.shift:
            edges = {index: self.low + (index << self.shift) for index in grouped}
            width = 1 << self.shift
            return [_Bin(edges[index], edges[index] + width, wanted) for index, wanted in grouped.items()]
        for index, wanted in grouped.items():
            found.update((rank, self.low + index) for rank, _ in wanted)
        return []

    def _put_in_order(self, found: dict[int, int]) -> None:
        numbers, weights = (np.concatenate(column) for column in zip(*self._kept, strict=True))
        order = np.argsort(numbers)
        places = np.searchsorted(np.cumsum(weights[order]), [inner for _, inner in self.wanted], side="right")
        for (rank, _), number in zip(self.wanted, numbers[order[places]].tolist(), strict=True):
            found[rank] = number


def _group(counts: Ints, wanted: list[tuple[int, int]]) -> dict[int, list[tuple[int, int]]]:
    """Find the counter each wanted rank falls in; ranks become relative to it."""
    ends = np.cumsum(counts)
    grouped: dict[int, list[tuple[int, int]]] = {}
    for rank, inner in wanted:
        index = int(np.searchsorted(ends, inner, side="right"))
        grouped.setdefault(index, []).append((rank, inner - int(ends[index] - counts[index])))
    return grouped


def _coarse_bins(numbers: Ints) -> Ints:
    """Bin on a logarithmic scale, by the leading bits of the double."""
    bins: Ints = numbers.astype(np.float64).view(np.int64) >> _DROPPED_BITS
    bins -= _FIRST_BIN
    return np.maximum(bins, 0, out=bins)


def _coarse_edge(index: int) -> int:
    """Smallest whole number of a coarse bin."""
    if index == 0:
        return 0
    edge = np.array((index + _FIRST_BIN) << _DROPPED_BITS, dtype=np.int64).view(np.float64)
    return int(np.ceil(edge))
