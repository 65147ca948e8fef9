"""Statistics of every inter-token gap of a replay: pooled ITL and per-user token rate (spec 02 section 8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.core.units import NS_PER_MS, NS_PER_S
from aisimulate.replay.gap_blocks import Points, gap_blocks
from aisimulate.replay.statistics import EMPTY, PERCENTILES, Summary, percentile_rank
from aisimulate.replay.weighted import RankedBlocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.engine.gap_log import GapLog
    from aisimulate.replay.weighted import Block, Floats, Ints

_MOST_KEPT = 1 << 17  # gaps, each with its weight


@dataclass(slots=True, frozen=True)
class GapSummary:
    """`count` gaps, `total_ns` altogether: their statistics in ms, those of 1000 / gap in tokens per s."""

    count: int = 0
    total_ns: int = 0
    itl_ms: Summary = EMPTY
    rate_tok_s: Summary = EMPTY


def summarize_gaps(logs: Sequence[GapLog]) -> GapSummary:
    """Pool the gaps of all requests that completed; gaps of 0 ns have no rate and are left out of it."""
    blocks = gap_blocks(logs)
    return _Pool(blocks).summary() if blocks else GapSummary()


class _Pool:
    """Count, sum and moments of all gaps, taken in one sweep over the blocks."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.count = 0
        self.zeros = 0
        self.total_ns = 0
        self.ranked = RankedBlocks()
        self.gap_moments = _Moments()
        self.rate_moments = _Moments()
        self._room = _MOST_KEPT
        for block in blocks:
            self._add(block)

    def _add(self, block: Block) -> None:
        gaps, weights = block.pairs()
        low, high = int(gaps.min()), int(gaps.max())
        if low == high:  # usual with fixed timing: nothing to look up again
            gaps, weights = gaps[:1].copy(), weights.sum(keepdims=True)
            block = Points(gaps, weights)
        elif self._room >= len(gaps):  # of most replays all: none of them is expanded again
            self._room -= len(gaps)
            block = Points(gaps, weights)
        self.ranked.add(block, gaps, weights)
        self.count += int(weights.sum())
        self.total_ns += exact_dot(gaps, weights)
        values, factors = gaps.astype(np.float64), weights.astype(np.float64)
        self.gap_moments.add(values, factors)
        if low == 0:
            self.zeros += int(weights[gaps == 0].sum())
            values, factors = values[gaps > 0], factors[gaps > 0]
        if high > 0:
            self.rate_moments.add(NS_PER_S / values, factors)

    def summary(self) -> GapSummary:
        if self.count <= 0:
            return GapSummary()
        gap_ranks = _summary_ranks(self.count)
        # Rates sort the other way round; zero gaps, which have none, come first among the gaps.
        rate_ranks = [self.count - 1 - rank for rank in _summary_ranks(self.count - self.zeros)]
        gap_at = self.ranked.at(gap_ranks + rate_ranks)
        mean_ns = self.total_ns / self.count
        nine_ns = (mean_ns, *(gap_at[rank] for rank in gap_ranks), self.gap_moments.std(self.count, mean_ns))
        itl_ms = Summary._make(value / NS_PER_MS for value in nine_ns)
        return GapSummary(
            self.count, self.total_ns, itl_ms, self._rates([gap_at[rank] for rank in rate_ranks])
        )

    def _rates(self, gaps_ns: list[int]) -> Summary:
        count = self.count - self.zeros
        if count <= 0:
            return EMPTY
        low, high, *percentiles = (NS_PER_S / gap for gap in gaps_ns)
        mean = min(max(self.rate_moments.mean(count), low), high)
        return Summary._make((mean, low, high, *percentiles, self.rate_moments.std(count, mean)))


class _Moments:
    """Mean and standard deviation of weighted values.

    Squares are taken of deviations from the mean of each block, so they lose no digits to cancellation.
    """

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        # Per block: weight, weighted sum, mean, weighted sum of squared deviations from that mean.
        self._blocks: list[tuple[float, float, float, float]] = []

    def add(self, values: Floats, weights: Floats) -> None:
        """Count a non-empty block."""
        origin = float(values.mean())
        deviations = values - origin
        squares = float((deviations * deviations * weights).sum())
        self._blocks.append((float(weights.sum()), float((values * weights).sum()), origin, squares))

    def mean(self, count: int) -> float:
        """Give the mean when all weights add up to `count`."""
        return math.fsum(total for _, total, _, _ in self._blocks) / count

    def std(self, count: int, mean: float) -> float:
        """Give the root of the mean squared deviation from `mean`; exactly 0 when all values equal it."""
        total = math.fsum(
            squares + (origin - mean) * (2 * (total - weight * origin) + weight * (origin - mean))
            for weight, total, origin, squares in self._blocks
        )
        return math.sqrt(max(0.0, total / count))


def _summary_ranks(count: int) -> list[int]:
    """Ranks of minimum, maximum and percentiles, in the order of `Summary`; none when `count` is 0."""
    if count <= 0:
        return []
    return [0, count - 1, *(percentile_rank(count, percent) for percent in PERCENTILES)]


def exact_dot(numbers: Ints, weights: Ints) -> int:
    """Sum of numbers * weights, not subject to overflow."""
    largest = len(numbers) * int(numbers.max()) * int(weights.max())
    if largest < 2**63:
        return int((numbers * weights).sum())
    return sum(number * weight for number, weight in zip(numbers.tolist(), weights.tolist(), strict=True))
