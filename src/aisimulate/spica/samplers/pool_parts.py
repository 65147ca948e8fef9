"""What a screen's answers for pairs say of a prefill pool alone and of a decode pool alone.

In a closed loop, the decode pool of a pair answers whatever is in flight until its prefill pool can start no
more. So three things make a pair: how many requests a load is, how fast the decode pool is with them, and how
many the prefill pool can start. Each is that of one replica times their number, and is read off once from the
pair in the pool that shows it best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from aisimulate.spica.parallel_enum import DisaggParallelConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from aisimulate.spica.finite_space import FiniteSpace
    from aisimulate.spica.parallel_enum import ParallelConfig

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    # The index of a point in the finite space, and the steps of every continuous range.
    PointKey = tuple[int, tuple[int, ...]]
    Screen = Callable[[Sequence[PointKey]], Floats]

RANGE_STEPS = 1000  # of a continuous range, such as the load
# Loads at which a decode pool is looked at, in steps.
_CURVE = np.unique(np.round(np.geomspace(1, RANGE_STEPS, 40)).astype(int))
_FULL = (300, 600, 1000)  # at one of these a single prefill replica surely limits
_ENOUGH = 3  # prefill GPUs per decode GPU, so that these limit
_CANNOT_RUN = 1e-8  # a screened value below
_MOST_CACHED = 8_000


class Columns(NamedTuple):
    """Pairs in columns; all floats are natural logarithms, rates and requests are per GPU of the pair.

    `pressure` is how much more the decode pool could answer than the prefill pool can start. `load` is at
    most the load that fills the decode pool's seats, `per_load` how many requests a load of 1 is.
    """

    screened: Floats  # (pairs, 2): tokens per second and GPU, and per user
    pressure: Floats
    is_known: Floats
    load: Floats
    per_load: Floats
    capacity: Floats
    curve: Ints
    prefill: Ints
    decode: Ints


@dataclass(frozen=True, slots=True)
class _Structure:
    """A pair without its load."""

    per_load: float
    seats: float
    capacity: float
    curve: int


class PoolParts:
    """Splits pairs (tokens per second and GPU, and per user, at a KV load) into their pools.

    `screen` estimates both by key, `labels` number the engines of every placement by role, `load_range` has
    the least load and the most.
    """

    def __init__(
        self, space: FiniteSpace, labels: Ints, screen: Screen, load_range: tuple[float, float]
    ) -> None:
        self._space, self._labels, self._screen = space, labels, screen
        self._low, self._high = load_range
        self._knobs_size = space.size // len(space.placements)
        self._shown_prefill, self._shown_decode = _best_shown(space.placements, labels)
        self._rates: dict[tuple[Any, ...], float] = {}
        self._curves: dict[tuple[Any, ...], tuple[float, int]] = {}
        self._structures: dict[int, _Structure] = {}
        self._rows: dict[PointKey, Floats] = {}
        self.curve_loads = self._log_loads(_CURVE)
        self._speeds: list[Floats] = []

    @property
    def engines(self) -> int:
        """How many numbers of engines there are."""
        return int(self._labels.max()) + 1

    def speeds(self, curves: Ints) -> Floats:
        """Return the logarithms of the speeds per user at `curve_loads`, a row per curve."""
        return np.array(self._speeds).reshape(-1, len(_CURVE))[curves]

    def columns(self, keys: Sequence[PointKey]) -> Columns:
        """Describe pairs."""
        if len(self._rows) > _MOST_CACHED:
            self._rows.clear()
        fresh = [key for key in dict.fromkeys(keys) if key not in self._rows]
        if fresh:
            self._rows.update(zip(fresh, self._described(fresh), strict=True))
        rows = np.array([self._rows[key] for key in keys]).reshape(-1, 10).T
        numbers = rows[7:].astype(np.intp)
        return Columns(rows[:2].T, *rows[2:7], *numbers)

    def _described(self, keys: Sequence[PointKey]) -> Floats:
        screened = np.log(np.maximum(self._screen(keys), 1e-12))
        found = [self._structure(index) for index, _ in keys]
        per_load, seats, capacity, curve = np.array(
            [(one.per_load, one.seats, one.capacity, one.curve) for one in found]
        ).T
        load = np.minimum(self._log_loads([steps[0] for _, steps in keys]), seats - per_load)
        rows = curve.astype(np.intp)
        pressure = load + per_load + between(self.curve_loads, self.speeds(rows), load) - capacity
        known = (screened > np.log(_CANNOT_RUN)).all(1) & np.isfinite(pressure)
        labels = self._labels[[index // self._knobs_size for index, _ in keys]]
        pressure = np.where(known, pressure, 0.0)
        return np.column_stack([screened, pressure, known, load, per_load, capacity, curve, labels])

    def _log_loads(self, steps: Sequence[int] | Ints) -> Floats:
        """Return the logarithms of loads; the lowest is half a step, not nothing."""
        loads = self._low + (self._high - self._low) * np.maximum(np.asarray(steps), 0.5) / RANGE_STEPS
        return np.asarray(np.log(loads))

    def _structure(self, index: int) -> _Structure:
        if len(self._structures) > _MOST_CACHED:
            self._structures.clear()
        if index not in self._structures:
            self._structures[index] = self._new_structure(index)
        return self._structures[index]

    def _new_structure(self, index: int) -> _Structure:
        point = self._space.point_at(index)
        config, placement = point.parallel_config, index // self._knobs_size
        assert isinstance(config, DisaggParallelConfig)
        prefill, decode = self._labels[placement].tolist()
        rate = self._rate(prefill, _of_role("prefill", point.selection), index)
        held, curve = self._curve(decode, _of_role("decode", point.selection), index)
        seats = config.decode.shape.dp * point.selection.get("decode_max_num_seqs", np.inf)
        replicas = config.decode.replicas
        shares = np.array([held * replicas, seats * replicas, rate * config.prefill.replicas])
        with np.errstate(divide="ignore"):
            logs = np.log(shares / config.total_gpus)
        per_load, seats_of, capacity = map(float, logs)
        return _Structure(per_load, seats_of, capacity, curve)

    def _rate(self, engine: int, knobs: tuple[Any, ...], index: int) -> float:
        """Return the tokens per second that one prefill replica can start."""
        if (engine, knobs) not in self._rates:
            placement = self._shown_prefill[engine]
            rates = self._shown(placement, index, _FULL)[:, 0]
            self._rates[engine, knobs] = float(rates.max() * self._config(placement).total_gpus)
        return self._rates[engine, knobs]

    def _curve(self, engine: int, knobs: tuple[Any, ...], index: int) -> tuple[float, int]:
        """Return the requests that a load of 1 is for one decode replica, and the number of its curve."""
        if (engine, knobs) not in self._curves:
            placement = self._shown_decode[engine]
            values = self._shown(placement, index, _CURVE)
            runs = values[:, 0] > _CANNOT_RUN
            # By Little's law; where the prefill pool limits, fewer than that are screened.
            held = np.where(runs, values[:, 0] / values[:, 1] / np.exp(self.curve_loads), 0.0).max()
            config = self._config(placement)
            each = float(held * config.total_gpus / config.decode.replicas)
            slowest = values[runs, 1].min() if runs.any() else 1.0
            self._curves[engine, knobs] = each, len(self._speeds)
            self._speeds.append(np.log(np.where(runs, values[:, 1], slowest)))
        return self._curves[engine, knobs]

    def _shown(self, placement: int, index: int, steps: Sequence[int] | Ints) -> Floats:
        """Screen a placement with the knobs of a point at several loads."""
        index = placement * self._knobs_size + index % self._knobs_size
        return np.maximum(self._screen([(index, (int(step),)) for step in steps]), 1e-12)

    def _config(self, placement: int) -> DisaggParallelConfig:
        config = self._space.placements[placement][1]
        assert isinstance(config, DisaggParallelConfig)
        return config


def _of_role(role: str, selection: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in sorted(selection.items()) if name.startswith(f"{role}_"))


def _best_shown(
    placements: Sequence[tuple[str, ParallelConfig]], labels: Ints
) -> tuple[dict[int, int], dict[int, int]]:
    """Choose by engine the placement that shows one prefill replica best, and that for its decode pool.

    A prefill replica limits most beside the largest decode pool with the fewest replicas of its own; a decode
    pool is shown well by many replicas (loads are whole requests) beside more than enough prefill GPUs.
    """
    prefill: dict[int, tuple[tuple[int, int], int]] = {}
    decode: dict[int, tuple[tuple[int, int], int]] = {}
    for place, (_, config) in enumerate(placements):
        assert isinstance(config, DisaggParallelConfig)
        first, last = labels[place].tolist()
        starts, answers = config.prefill.total_gpus, config.decode.total_gpus
        _keep_best(prefill, first, (-config.prefill.replicas, answers), place)
        _keep_best(decode, last, (min(starts, _ENOUGH * answers), answers), place)
    return {key: place for key, (_, place) in prefill.items()}, {
        key: place for key, (_, place) in decode.items()
    }


def _keep_best(
    best: dict[int, tuple[tuple[int, int], int]], key: int, merit: tuple[int, int], place: int
) -> None:
    if key not in best or merit > best[key][0]:
        best[key] = merit, place


def between(grid: Floats, rows: Floats, at: Floats) -> Floats:
    """Interpolate each row of values on `grid` at its own place."""
    inside = np.clip(at, grid[0], grid[-1])
    right = np.clip(np.searchsorted(grid, inside, side="right"), 1, len(grid) - 1)
    share = (inside - grid[right - 1]) / (grid[right] - grid[right - 1])
    row = np.arange(len(rows))
    return np.asarray(rows[row, right - 1] * (1.0 - share) + rows[row, right] * share)
