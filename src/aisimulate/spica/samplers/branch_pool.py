"""The deployments of a branch as a pool for a model-based sampler."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.spica.finite_space import FiniteSpace, branch_backends
from aisimulate.spica.samplers.engine_speeds import EngineSpeeds
from aisimulate.spica.samplers.placement_moves import PlacementMoves
from aisimulate.spica.samplers.point_features import (
    PointFeatures,
    balance_features,
    engine_labels,
    load_features,
    pair_balances,
)
from aisimulate.spica.samplers.pool_parts import RANGE_STEPS, PoolParts
from aisimulate.spica.screen.structures import unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.finite_space import FinitePoint
    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.samplers.pool_parts import PointKey
    from aisimulate.spica.search_space import BranchSpace

    Floats = NDArray[np.float64]

    # Positive objectives of which more is better, one list per (selection, parallel config).
    Screen = Callable[[Sequence[tuple[Mapping[str, Any], ParallelConfig]]], list[list[float]]]

_WHOLE = 4096  # spaces up to this size are listed whole instead of drawn from
_MOST_CHANGES = 3
_LOAD = "kv_load_ratio"
# Estimates that differ by less, as a logarithm, are the same: a replay in part is less exact than that.
_SAME_LOG = 0.002
_TINY = 1e-9
_SEATS = "max_num_seqs"  # knobs whose names end so limit requests, and mostly do not act
_MOST_CACHED = 20_000  # descriptions and estimates that are kept; past that they start afresh


class BranchPool:
    """Points of a branch by (index, steps): continuous ranges are cut into 1,000 steps each."""

    def __init__(self, branch: BranchSpace, screen: Screen | None = None, *, in_pairs: bool = False) -> None:
        """`in_pairs`: `screen` estimates tokens per second and GPU, and per user, of disaggregated pairs."""
        self._space = FiniteSpace(branch)
        self._screen = screen
        self._screened: dict[PointKey, list[float]] = {}
        self._ranges = dict(branch.float_ranges)
        self._moves = PlacementMoves(self._space.placements)
        self._features = PointFeatures(branch, branch_backends(branch))
        self._rows: dict[int, list[float]] = {}
        self._labels = engine_labels(self._space.placements)
        self._knobs_size = self._space.size // max(1, len(self._space.placements))
        sizes = [len(self._space.placements), *(len(digit) for digit in self._space.digits)]
        # The positions, and after them the steps, that can be changed at all.
        self._live = [place for place, size in enumerate(sizes) if size > 1]
        self._live += range(len(sizes), len(sizes) + len(self._ranges))
        self._siblings: dict[tuple[int, int], list[int]] = {}
        self._kinds = _numbered([repr(_without_seats(row)) for row in self._space.digits[0]])
        self._units: dict[int, int] = {}
        is_loaded = list(self._ranges) == [_LOAD] and len(self._labels) > 0
        # A screen tells this better.
        self._balances = pair_balances(self._space.placements) if is_loaded and screen is None else None
        self.calibration: EngineSpeeds | None = None
        if in_pairs and is_loaded:
            parts = PoolParts(self._space, self._labels, self._estimates, self._ranges[_LOAD])
            self.calibration = EngineSpeeds(parts)
        self._unit_numbers: dict[tuple[str, ParallelConfig], int] = {}

    @property
    def is_listed(self) -> bool:
        """Whether `draw` gives every point there is."""
        return not self._ranges and self._space.size <= _WHOLE

    def point(self, key: PointKey) -> tuple[FinitePoint, dict[str, float]]:
        """Return the point of a key, and the values of its continuous dimensions."""
        index, steps = key
        floats = {
            name: low + (high - low) * step / RANGE_STEPS
            for (name, (low, high)), step in zip(self._ranges.items(), steps, strict=True)
        }
        return self._space.point_at(index), floats

    def draw(self, count: int, rng: np.random.Generator) -> list[PointKey]:
        """Draw points at random; all of them, in random order, when they are few."""
        if self.is_listed:
            return [(int(index), ()) for index in rng.permutation(self._space.size)]
        indices = rng.integers(0, self._space.size, count)
        steps = [_draw_steps(count, rng) for _ in self._ranges]
        return [(int(index), tuple(map(int, row))) for index, *row in zip(indices, *steps, strict=True)]

    def near(self, key: PointKey, count: int, rng: np.random.Generator) -> list[PointKey]:
        """Change one to three things of a point, `count` times over."""
        return [self._changed(key, rng) for _ in range(count)]

    def moved(self, key: PointKey, count: int, rng: np.random.Generator) -> list[PointKey]:
        """Keep the knobs of a point, and put it on `count` placements, drawn without repeats."""
        index, steps = key
        knobs = index % self._knobs_size
        placements = rng.permutation(len(self._space.placements))[:count].tolist()
        return [(place * self._knobs_size + knobs, steps) for place in placements]

    def features(self, keys: Sequence[PointKey]) -> Floats:
        """Describe points by numbers of about [0, 1]."""
        if len(self._rows) > _MOST_CACHED:
            self._rows.clear()
        rows = np.array([self._row(index) for index, _ in keys], dtype=np.float64).reshape(len(keys), -1)
        if not self._ranges:
            return rows
        steps = np.array([steps for _, steps in keys], dtype=np.float64) / RANGE_STEPS
        columns = [load_features(column) for column in steps.T]
        if self._balances is not None:
            balances = self._balances[[index // self._knobs_size for index, _ in keys]]
            columns.append(balance_features(balances, steps[:, 0]))
        return np.column_stack([rows, *columns])

    def labels(self, keys: Sequence[PointKey]) -> NDArray[np.intp]:
        """Label which engine each role runs: a backend in a shape has a speed of its own."""
        placements = [index // self._knobs_size for index, _ in keys]
        return self._labels[placements]

    def screen(self, keys: Sequence[PointKey]) -> Floats | None:
        """Estimate all objectives as `screen` does; a point that cannot run gets next to nothing."""
        return None if self._screen is None else self._estimates(keys)

    def _estimates(self, keys: Sequence[PointKey]) -> Floats:
        assert self._screen is not None
        if len(self._screened) > _MOST_CACHED:
            self._screened.clear()
        fresh = [key for key in dict.fromkeys(keys) if key not in self._screened]
        points = [self.point(key) for key in fresh]
        chosen = [(point.selection | floats, point.parallel_config) for point, floats in points]
        self._screened.update(zip(fresh, self._screen(chosen), strict=True))
        return np.array([self._screened[key] for key in keys])

    def likenesses(self, keys: Sequence[PointKey]) -> list[Hashable] | None:
        """Describe points by all that makes a difference: the screen has to see that a limit or a load does.

        Copies of the same workers are alike where it says that they are (spec 08 section 2.3).
        """
        screened = self.screen(keys)
        if screened is None:
            return None
        places = np.round(np.log(np.maximum(screened, _TINY)) / _SAME_LOG).astype(np.int64).tolist()
        return [(*self._kind(index), *place) for (index, _), place in zip(keys, places, strict=True)]

    def _kind(self, index: int) -> tuple[int, ...]:
        """Tell what a point is apart from its load and its limits of requests."""
        placement, settings, *others = self._space.positions(index)
        return self._unit(placement), self._kinds[settings], *others

    def _unit(self, placement: int) -> int:
        """Number the workers of which a placement is so many copies."""
        if placement not in self._units:
            backend, config = self._space.placements[placement]
            unit = backend, unit_of(config)[1]
            self._units[placement] = self._unit_numbers.setdefault(unit, len(self._unit_numbers))
        return self._units[placement]

    def _row(self, index: int) -> list[float]:
        if index not in self._rows:
            self._rows[index] = self._features.row(self._space.point_at(index))
        return self._rows[index]

    def _changed(self, key: PointKey, rng: np.random.Generator) -> PointKey:
        positions, steps = list(self._space.positions(key[0])), list(key[1])
        for _ in range(int(rng.integers(1, _MOST_CHANGES + 1)) if self._live else 0):
            dimension = self._live[int(rng.integers(len(self._live)))]
            if dimension == 0:
                positions[0] = self._moves.near(positions[0], rng)
            elif dimension < len(positions):
                positions[dimension] = self._near_digit(dimension - 1, positions[dimension], rng)
            else:
                place = dimension - len(positions)
                steps[place] = _moved_step(steps[place], rng)
        return self._space.index_of(positions), tuple(steps)

    def _near_digit(self, digit: int, position: int, rng: np.random.Generator) -> int:
        """Change one knob of a combination; where that is not possible, take any other one."""
        siblings = self._siblings.get((digit, position))
        if siblings is None:
            siblings = self._siblings[digit, position] = self._differ_by_one(digit, position)
        return siblings[int(rng.integers(len(siblings)))]

    def _differ_by_one(self, digit: int, position: int) -> list[int]:
        combinations = self._space.digits[digit]
        mine = combinations[position]
        changes = [sum(other[knob] != value for knob, value in mine.items()) for other in combinations]
        return [place for place, count in enumerate(changes) if count == 1] or list(range(len(combinations)))


def _draw_steps(count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Half uniform, half log-uniform: the low end of a load range holds the fast half of a front (06)."""
    uniform = rng.integers(0, RANGE_STEPS + 1, count)
    logarithmic = np.floor((RANGE_STEPS + 1) ** rng.random(count)) - 1
    return np.where(rng.random(count) < 0.5, uniform, logarithmic).astype(np.intp)


def _moved_step(step: int, rng: np.random.Generator) -> int:
    """Move by a factor, or by a few steps."""
    if rng.random() < 0.6:
        moved = step * math.exp(0.4 * rng.standard_normal()) + 2.0 * rng.standard_normal()
    else:
        moved = step + float(rng.choice([10, 50, 200])) * rng.standard_normal()
    return min(max(round(moved), 0), RANGE_STEPS)


def _without_seats(knobs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted((name, value) for name, value in knobs.items() if not name.endswith(_SEATS))


def _numbered(names: Sequence[str]) -> list[int]:
    """Number names, equal ones alike."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(name, len(numbers)) for name in names]
