"""A performance model learned from forward passes: a plane through samples (spec 03 section B7 iii).

Of a pass it takes two loads, each 0 or more. Slopes are never negative. Old samples give way where most are
alike: the samples lie in a grid over log(1 + load), whose bounds only grow.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aisimulate.core.forward_pass import ForwardPass

_LEAST_MS = 1e-6
_SPREAD = 1e-12
_SINGULAR = 1e-12
_RIDGE = 1e-9

Load = tuple[float, float]


class _Sample(NamedTuple):
    loads: Load
    ms: float


class SampleStore:
    """Keeps at most `most` samples; beyond that the oldest of the fullest cell goes."""

    def __init__(self, most: int, cells: int) -> None:
        self._most = most
        self._side = math.isqrt(cells)
        self._samples: list[_Sample] = []
        self._low: list[float] = [math.inf, math.inf]
        self._high: list[float] = [-math.inf, -math.inf]

    def __len__(self) -> int:
        return len(self._samples)

    def samples(self) -> list[_Sample]:
        """List the samples, oldest first."""
        return self._samples

    def add(self, loads: Load, ms: float) -> None:
        """Take in a sample."""
        for axis, load in enumerate(loads):
            place = math.log1p(load)
            self._low[axis] = min(self._low[axis], place)
            self._high[axis] = max(self._high[axis], place)
        self._samples.append(_Sample(loads, ms))
        if len(self._samples) > self._most:
            self._evict()

    def _evict(self) -> None:
        cells = [self._cell(sample.loads) for sample in self._samples]
        fullest = max(cells, key=cells.count)  # of equals, the cell of the oldest sample
        del self._samples[cells.index(fullest)]

    def _cell(self, loads: Load) -> tuple[int, int]:
        return self._slot(0, loads[0]), self._slot(1, loads[1])

    def _slot(self, axis: int, load: float) -> int:
        low, width = self._low[axis], self._high[axis] - self._low[axis]
        if width <= 0:
            return 0
        return min(self._side - 1, int((math.log1p(load) - low) / width * self._side))


class Plane(NamedTuple):
    """Duration in ms: `base` at the mean loads, and slopes along standardised loads."""

    base: float
    slopes: tuple[float, float]
    means: tuple[float, float]
    spreads: tuple[float, float]

    def at(self, loads: Load) -> float:
        """Duration in ms for some loads, at least a nanosecond."""
        value = self.base
        for load, slope, mean, spread in zip(loads, self.slopes, self.means, self.spreads, strict=True):
            if slope:
                value += slope * (load - mean) / spread
        return max(_LEAST_MS, value)


def fit_plane(samples: Sequence[tuple[Load, float]]) -> Plane | None:
    """Fit the plane of least squares with slopes of at least 0; None when no load has an effect."""
    count = len(samples)
    columns = [[loads[axis] for loads, _ in samples] for axis in (0, 1)]
    times = [ms for _, ms in samples]
    means = tuple(sum(column) / count for column in columns)
    spreads = tuple(_spread(column, mean) for column, mean in zip(columns, means, strict=True))
    active = [axis for axis in (0, 1) if spreads[axis] > _SPREAD * max(1.0, abs(means[axis]))]
    base = sum(times) / count
    scaled = {axis: [(x - means[axis]) / spreads[axis] for x in columns[axis]] for axis in active}
    rest = [ms - base for ms in times]
    slopes = min(_faces(scaled, rest), key=lambda found: _error(scaled, rest, found), default={})
    both = (slopes.get(0, 0.0), slopes.get(1, 0.0))
    if not any(slope > 0 for slope in both):
        return None
    return Plane(base, both, (means[0], means[1]), (spreads[0], spreads[1]))


def _spread(values: Sequence[float], mean: float) -> float:
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def _faces(scaled: dict[int, list[float]], rest: list[float]) -> list[dict[int, float]]:
    """Solve for each set of axes that may have a slope, and keep solutions without negative ones."""
    found: list[dict[int, float]] = [{}]
    found += [{axis: _dot(column, rest) / _dot(column, column)} for axis, column in scaled.items()]
    if len(scaled) > 1:
        found.append(_both(scaled[0], scaled[1], rest))
    return [slopes for slopes in found if all(slope >= 0 for slope in slopes.values())]


def _both(first: list[float], second: list[float], rest: list[float]) -> dict[int, float]:
    a, b, d = _dot(first, first), _dot(first, second), _dot(second, second)
    y, z = _dot(first, rest), _dot(second, rest)
    if abs(d - b * b / a) < _SINGULAR:
        ridge = _RIDGE * max(1.0, a + d)
        a, d = a + ridge, d + ridge
    determinant = a * d - b * b
    return {0: (d * y - b * z) / determinant, 1: (a * z - b * y) / determinant}


def _error(scaled: dict[int, list[float]], rest: list[float], slopes: dict[int, float]) -> float:
    total = 0.0
    for number, value in enumerate(rest):
        total += (value - sum(slope * scaled[axis][number] for axis, slope in slopes.items())) ** 2
    return total


def _dot(first: list[float], second: list[float]) -> float:
    return sum(x * y for x, y in zip(first, second, strict=True))


# What a pass loads a rank with ---------------------------------------------------------------------------


def _attention(item: ForwardPass) -> tuple[float, float]:
    """Give cached and quadratic attention work of the prompts of a pass."""
    tokens = item.sum_prefill_tokens
    if not tokens:
        return 0.0, 0.0
    cached, requests = item.sum_prefill_kv_tokens, max(1, item.num_prefill_requests)
    return cached, cached * tokens / requests + tokens * tokens / (2 * requests) + tokens / 2


def prefill_load(ranks: Sequence[ForwardPass]) -> Load:
    """Attention work of the busiest rank, and prompt tokens of all."""
    return max(sum(_attention(item)) for item in ranks), float(sum(item.sum_prefill_tokens for item in ranks))


def decode_load(ranks: Sequence[ForwardPass]) -> Load:
    """Context of the busiest rank, and requests of all."""
    context = max(item.sum_decode_kv_tokens for item in ranks)
    return float(context), float(sum(item.num_decode_requests for item in ranks))


def mixed_load(ranks: Sequence[ForwardPass]) -> Load:
    """Attention and context of the busiest rank, and tokens of all."""
    work = max(sum(_attention(item)) + item.sum_decode_kv_tokens for item in ranks)
    return work, float(sum(item.sum_prefill_tokens + item.num_decode_requests for item in ranks))


LOADS: dict[str, Callable[[Sequence[ForwardPass]], Load]] = {
    "prefill": prefill_load,
    "decode": decode_load,
    "agg": mixed_load,
}


class PassRegression:
    """Estimates passes of one role from `min_samples` passes on."""

    def __init__(self, pool: str, *, samples: int, cells: int, min_samples: int) -> None:
        self._load = LOADS[pool]
        self._store = SampleStore(samples, cells)
        self._min_samples = min_samples
        self._plane: Plane | None = None
        self._is_current = True

    @property
    def ready(self) -> bool:
        """Whether it can estimate."""
        return len(self._store) >= self._min_samples and self._fitted() is not None

    def tune(self, ranks: Sequence[ForwardPass]) -> None:
        """Learn from a pass of all ranks of a replica; one that took no time says nothing."""
        ms = max(item.wall_time for item in ranks) * 1000.0
        if ms > 0:
            self._store.add(self._load(ranks), ms)
            self._is_current = False

    def estimate_ms(self, ranks: Sequence[ForwardPass]) -> float | None:
        """Estimate the duration of a pass; None before it is ready."""
        if not self.ready:
            return None
        plane = self._fitted()
        return None if plane is None else plane.at(self._load(ranks))

    def _fitted(self) -> Plane | None:
        if not self._is_current:
            self._plane = fit_plane([(sample.loads, sample.ms) for sample in self._store.samples()])
            self._is_current = True
        return self._plane
