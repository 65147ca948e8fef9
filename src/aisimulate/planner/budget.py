"""How a scaling decision is made to fit the GPUs there are (spec 03 section B8).

A band of GPUs has a hard maximum. Its minimum is relaxed by the largest step a pool can make when both bounds
hold, because whole replicas may not add up to it. A negative bound does not hold. A *guarded* decision never
goes beyond what was asked for, nor the other way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.planner import reasons

if TYPE_CHECKING:
    from collections.abc import Iterator


Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Band:
    """A GPU band for pools whose replicas take `gpus` each and number at least `floors`."""

    min_gpus: int
    max_gpus: int
    gpus: tuple[int, ...]
    floors: tuple[int, ...]

    @property
    def tolerance(self) -> int:
        """GPUs by which the minimum may be missed."""
        return max(self.gpus) if self.min_gpus >= 0 and self.max_gpus >= 0 else 0

    def total(self, counts: tuple[int, ...]) -> int:
        """GPUs of so many replicas."""
        return sum(count * gpus for count, gpus in zip(counts, self.gpus, strict=True))

    def holds(self, counts: tuple[int, ...]) -> bool:
        """Whether so many replicas are within the band."""
        total = self.total(counts)
        if 0 <= self.max_gpus < total:
            return False
        return self.min_gpus < 0 or total >= self.min_gpus - self.tolerance


# One pool -------------------------------------------------------------------------------------------------


def clamp_one(band: Band, count: int) -> int:
    """Fit one pool; 0 when not even its floor fits under the maximum."""
    if band.holds((count,)):
        return count
    (gpus,), (floor,) = band.gpus, band.floors
    if 0 <= band.max_gpus < count * gpus:
        return max(floor, band.max_gpus // gpus) if floor * gpus <= band.max_gpus else 0
    return max(floor, -(-band.min_gpus // gpus))


def guard_one(band: Band, current: int, proposed: int) -> tuple[int, str | None]:
    """Fit a proposal for one pool without reversing it; with the reason when the budget decided."""
    if not band.holds((current,)):
        return clamp_one(band, current), reasons.BUDGET_RECONCILE
    total = band.total((current,))
    if band.min_gpus >= 0 and total <= band.min_gpus and proposed < current:
        return current, reasons.BUDGET_HOLD
    if 0 <= band.max_gpus <= total and proposed > current:
        return current, reasons.BUDGET_HOLD
    final = clamp_one(band, proposed)
    return (final, None) if _between(current, proposed, final) else (current, reasons.BUDGET_HOLD)


# Two pools ------------------------------------------------------------------------------------------------


def clamp_pair(band: Band, counts: Pair) -> Pair:
    """Fit two pools in proportion; (0, 0) when not even their floors fit under the maximum."""
    if band.holds(counts):
        return counts
    if 0 <= band.max_gpus < band.total(counts):
        return _shrunk(band, counts)
    return _grown(band, counts)


def _shrunk(band: Band, counts: Pair) -> Pair:
    (first_gpus, second_gpus), (first_floor, second_floor) = band.gpus, band.floors
    limit = band.max_gpus
    if limit < band.total((first_floor, second_floor)):
        return 0, 0
    most = (limit - second_floor * second_gpus) // first_gpus
    # The share as a float product, as the reference takes it.
    share = int(counts[0] * (limit / band.total(counts)))
    first = max(first_floor, min(most, share))
    return first, max(second_floor, (limit - first * first_gpus) // second_gpus)


def _grown(band: Band, counts: Pair) -> Pair:
    (first_gpus, second_gpus), (first_floor, second_floor) = band.gpus, band.floors
    floor, total = band.min_gpus, band.total(counts)
    share = counts[0] * (floor / total) if total > 0 else floor / 2 / first_gpus
    first = max(first_floor, math.ceil(share))
    rest = max(0, floor - first * first_gpus)
    second = max(second_floor, -(-rest // second_gpus))
    shrinks = second < counts[1]
    grown = (first, max(counts[1], second))
    if band.max_gpus < 0 or band.total(grown) <= band.max_gpus:
        return grown
    return fit_pair(band, counts, (first, counts[1])) if shrinks else counts


def fit_pair(band: Band, current: Pair, proposed: Pair) -> Pair:
    """Find the pair between `current` and `proposed` that is in the band and nearest to the proposal.

    Of a move in opposite directions either both happen or neither. Ties go to the pair that keeps the
    proportion of the two moves, then to the larger move, then to fewer replicas.
    """
    ranges = _ranges(band, current, proposed)
    if any(low > high for low, high in ranges):
        return current
    if all(map(_reaches, proposed, band.floors)) and band.holds(proposed):
        return proposed
    pairs = _candidates(band, current, proposed, ranges)
    return min(pairs, key=lambda pair: _score(current, proposed, pair), default=current)


def _reaches(count: int, floor: int) -> bool:
    return count >= floor


def _ranges(band: Band, current: Pair, proposed: Pair) -> list[Pair]:
    """Bound each count by both ends of its move and by what the band leaves when the other is extreme."""
    low = [
        max(min(pair), floor)
        for pair, floor in zip(zip(current, proposed, strict=True), band.floors, strict=True)
    ]
    high = [max(pair) for pair in zip(current, proposed, strict=True)]
    gpus = band.gpus
    if band.max_gpus >= 0:
        # One after the other: the second bound already knows the first.
        high[0] = min(high[0], (band.max_gpus - low[1] * gpus[1]) // gpus[0])
        high[1] = min(high[1], (band.max_gpus - low[0] * gpus[0]) // gpus[1])
    if band.min_gpus >= 0:
        least = band.min_gpus - band.tolerance
        low[0] = max(low[0], -((high[1] * gpus[1] - least) // gpus[0]))
        low[1] = max(low[1], -((high[0] * gpus[0] - least) // gpus[1]))
    return [(low[0], high[0]), (low[1], high[1])]


def _candidates(band: Band, current: Pair, proposed: Pair, ranges: list[Pair]) -> Iterator[Pair]:
    """Of each count of the pool with fewer choices, give the best partner in the band."""
    swap = ranges[0][1] - ranges[0][0] > ranges[1][1] - ranges[1][0]
    outer, inner = (1, 0) if swap else (0, 1)
    opposing = is_opposing(current, proposed)
    for count in range(ranges[outer][0], ranges[outer][1] + 1):
        low, high = _partners(band, ranges[inner], count, outer)
        if opposing:
            low, high = _partner_moves(low, high, count == current[outer], current[inner], proposed[inner])
        if low <= high:
            partner = min(max(proposed[inner], low), high)
            yield (partner, count) if swap else (count, partner)


def _partners(band: Band, bounds: Pair, count: int, outer: int) -> Pair:
    low, high = bounds
    cost, gpus = count * band.gpus[outer], band.gpus[1 - outer]
    if band.min_gpus >= 0:
        low = max(low, -((cost - (band.min_gpus - band.tolerance)) // gpus))
    if band.max_gpus >= 0:
        high = min(high, (band.max_gpus - cost) // gpus)
    return low, high


def _partner_moves(low: int, high: int, stays: bool, current: int, proposed: int) -> Pair:
    """Let the partner stay when the other one does, and move when it moves."""
    if stays:
        return max(low, current), min(high, current)
    if proposed > current:
        return max(low, current + 1), high
    return low, min(high, current - 1)


def _score(current: Pair, proposed: Pair, pair: Pair) -> tuple[int, int, int, int, int]:
    distance = sum(abs(want - got) for want, got in zip(proposed, pair, strict=True))
    moved = [abs(got - now) for got, now in zip(pair, current, strict=True)]
    asked = [abs(want - now) for want, now in zip(proposed, current, strict=True)]
    skew = abs(moved[0] * asked[1] - moved[1] * asked[0])
    return distance, skew, -sum(moved), pair[0], pair[1]


def is_opposing(current: Pair, proposed: Pair) -> bool:
    """Whether one pool is to grow and the other to shrink."""
    first, second = (want - now for want, now in zip(proposed, current, strict=True))
    return first * second < 0


def guard_pair(band: Band, current: Pair, proposed: Pair) -> tuple[Pair, str | None]:
    """Fit a proposal for two pools without reversing a move; with the reason when the budget decided."""
    if not band.holds(current):
        return clamp_pair(band, current), reasons.BUDGET_RECONCILE
    if _is_held(band, current, proposed):
        return current, reasons.BUDGET_HOLD
    if _must_swap(band, current, proposed):
        fitted = fit_pair(band, current, proposed)
        return (current, reasons.BUDGET_HOLD) if fitted == current else (fitted, None)
    final = clamp_pair(band, proposed)
    if not all(map(_between, current, proposed, final)) or not band.holds(final):
        return current, reasons.BUDGET_HOLD
    return final, None


def _is_held(band: Band, current: Pair, proposed: Pair) -> bool:
    """At the minimum nothing shrinks, at the maximum nothing grows, without the other pool giving way."""
    total, opposing = band.total(current), is_opposing(current, proposed)
    shrinks = any(want < now for want, now in zip(proposed, current, strict=True))
    grows = any(want > now for want, now in zip(proposed, current, strict=True))
    if total <= band.min_gpus and shrinks and not grows:
        return True
    return 0 <= band.max_gpus <= total and grows and not opposing


def _must_swap(band: Band, current: Pair, proposed: Pair) -> bool:
    total = band.total(current)
    at_bound = total <= band.min_gpus or 0 <= band.max_gpus <= total
    return at_bound and is_opposing(current, proposed)


def _between(current: int, proposed: int, final: int) -> bool:
    return min(current, proposed) <= final <= max(current, proposed)
