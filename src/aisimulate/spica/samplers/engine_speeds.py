"""Learns how fast engines really are, from what pairs of pools measured: the screen of pairs, calibrated.

A screen is wrong about an engine as a whole more than about anything else. In a pair that shows in a way that
depends on which pool limits: the decode pool's engine makes both objectives slower, until the prefill pool
limits; then the rate is the prefill pool's, and the decode pool runs the fewest requests that keep it up. So
every engine has one unknown per role, the logarithm of how much slower it is than screened, and all of them
are fitted together to all measurements (Gauss-Newton steps to the most probable values, with Cauchy weights).
The samplers' Gaussian processes learn what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr

from aisimulate.spica.pool_gp.doubt import Doubt
from aisimulate.spica.samplers.pool_parts import between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.samplers.pool_parts import Columns, PointKey, PoolParts

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

# Deviation of an engine's slowness before anything is measured, and how many engines that is worth.
_UNKNOWN, _UNKNOWN_ENGINES = 0.15, 4.0
# Deviations of measurements around what follows: always, more near the balance of both pools, where queues
# form, and as the KV caches fill up (spec 08 section 2.2), when the decode pool limits.
_ERROR, _IN_BALANCE, _FULL = 0.03, 0.08, 0.3
_BALANCE_WIDTH = 0.12
_FULL_FROM = 0.75
_LIMIT_WIDTH = 0.1  # how sharply the limit passes from one pool to the other, as a logarithm
_OUTLIER = 3.0  # deviations from which a measurement counts ever less
_STEPS, _LONGEST_STEP = 6, 0.15
_MOST_AMPLIFIED = 5.0


class _Answer(NamedTuple):
    """Calibrated logarithms (pairs, 2); the pressure on the prefill pool; where that limits, by how much the
    speed per user follows the rate; and deviations of measurements (2, pairs).
    """

    logs: Floats
    pressure: Floats
    amplified: Floats
    errors: Floats


class EngineSpeeds:
    """The calibrated screen of the pairs that `parts` describes."""

    def __init__(self, parts: PoolParts) -> None:
        self._parts = parts
        # Slowness of every engine as a prefill pool, then as a decode pool.
        self._slowness = np.zeros(2 * parts.engines)
        self._variance = _UNKNOWN**2  # of the slowness of an engine of which nothing is measured
        self._covariance = self._variance * np.eye(2 * parts.engines)
        self._answers: dict[PointKey, Floats] = {}

    def fit(self, keys: Sequence[PointKey], logs: Floats) -> None:
        """Learn the logarithms of what was measured, shape (pairs, 2)."""
        columns = self._parts.columns(keys)
        slowness = self._slowness
        for _ in range(_STEPS):
            answer = self._answer(columns, slowness)
            slopes = self._slopes(columns, answer.pressure, answer.amplified)
            missed = (logs - answer.logs).T
            trust = columns.is_known / answer.errors**2
            trust /= 1.0 + (missed / answer.errors / _OUTLIER) ** 2
            weighted = (slopes * trust[:, :, None]).reshape(-1, len(slowness))
            found = slopes.reshape(-1, len(slowness)).T @ weighted
            precision = np.asarray(found + np.eye(len(slowness)) / self._variance)
            pull = np.einsum("kni,kn->i", slopes, trust * missed) - slowness / self._variance
            step = np.linalg.solve(precision, pull)
            slowness = np.asarray(slowness + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP))
        self._slowness = slowness
        self._covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        self._variance = self._typical_variance()
        self._answers.clear()

    def logs(self, keys: Sequence[PointKey]) -> Floats:
        """Return the logarithms of the calibrated objectives, one row each."""
        return self._known(keys).logs

    def pressure(self, keys: Sequence[PointKey]) -> Floats:
        """Return, as a logarithm, how much more the decode pool could answer than the prefill pool starts."""
        return self._known(keys).pressure

    def limited(self, keys: Sequence[PointKey]) -> Floats:
        """Return how surely the prefill pool limits, in [0, 1]."""
        return np.asarray(ndtr(self.pressure(keys) / _LIMIT_WIDTH))

    def doubt(self, keys: Sequence[PointKey]) -> Doubt:
        """Return what the engines' speeds leave in doubt."""
        answer = self._known(keys)
        slopes = self._slopes(self._parts.columns(keys), answer.pressure, answer.amplified)
        return Doubt(slopes, self._covariance, answer.errors)

    def _typical_variance(self) -> float:
        """Tell from the engines of which much is known how wrong the screen is about one (an EM step)."""
        variances = np.diag(self._covariance)
        known = variances < 0.5 * self._variance
        found = float((self._slowness[known] ** 2 + variances[known]).sum())
        engines = _UNKNOWN_ENGINES + np.count_nonzero(known)
        return (_UNKNOWN_ENGINES * _UNKNOWN**2 + found) / engines

    def _known(self, keys: Sequence[PointKey]) -> _Answer:
        fresh = [key for key in dict.fromkeys(keys) if key not in self._answers]
        if fresh:
            found = self._answer(self._parts.columns(fresh), self._slowness)
            rows = np.column_stack([found.logs, found.pressure, found.amplified, found.errors.T])
            self._answers.update(zip(fresh, rows, strict=True))
        rows = np.array([self._answers[key] for key in keys]).reshape(-1, 6)
        return _Answer(rows[:, :2], rows[:, 2], rows[:, 3], rows[:, 4:].T)

    def _answer(self, columns: Columns, slowness: Floats) -> _Answer:
        prefill, decode = slowness[columns.prefill], slowness[self._parts.engines + columns.decode]
        pressure = np.where(columns.is_known > 0, columns.pressure + prefill - decode, 0.0)
        speed, load, amplified = self._settled(columns, decode - prefill)
        beyond = np.maximum(pressure, 0.0) - np.maximum(columns.pressure, 0.0)
        is_limited = pressure > 0.0
        amplified = np.where(is_limited, amplified, 0.0)
        # Some screens take all requests for decoding, others know that prompts wait: this depends on neither.
        is_settled = is_limited | (columns.pressure > 0.0)
        rate = columns.screened[:, 0] - decode - beyond
        speed = np.where(is_settled, speed, columns.screened[:, 1]) - decode
        logs = np.where(columns.is_known[:, None] > 0, np.column_stack([rate, speed]), columns.screened)
        errors = _ERROR + _IN_BALANCE * np.exp(-np.abs(pressure) / _BALANCE_WIDTH)
        full = np.exp(np.where(is_limited, load, columns.load))
        errors = errors + _FULL * np.maximum(full - _FULL_FROM, 0.0) / (1.0 - _FULL_FROM)
        return _Answer(logs, pressure, amplified, errors * np.array([np.ones(len(full)), 1.0 + amplified]))

    def _settled(self, columns: Columns, goal: Floats) -> tuple[Floats, Floats, Floats]:
        """Find the least load at which a pair's screened pressure is `goal`, at most its own.

        Return the speed per user there and the load (both as logarithms), and by how much the speed falls
        when the rate rises.
        """
        loads, speeds = self._parts.curve_loads, self._parts.speeds(columns.curve)
        rates = np.maximum.accumulate(loads + speeds, axis=1)
        wanted = columns.capacity + goal - columns.per_load
        right = np.clip((rates < wanted[:, None]).sum(1), 1, len(loads) - 1)
        rows = np.arange(len(right))
        low, rise = rates[rows, right - 1], rates[rows, right] - rates[rows, right - 1]
        share = np.clip((wanted - low) / np.maximum(rise, 1e-9), 0.0, 1.0)
        load = np.minimum(loads[right - 1] * (1.0 - share) + loads[right] * share, columns.load)
        fall = (speeds[rows, right - 1] - speeds[rows, right]) / np.maximum(rise, 1e-3)
        return between(loads, speeds, load), load, np.clip(fall, 0.0, _MOST_AMPLIFIED)

    def _slopes(self, columns: Columns, pressure: Floats, amplified: Floats) -> Floats:
        """Return the derivatives of the logarithms, shape (2, pairs, unknowns)."""
        rows, decode = np.arange(len(pressure)), self._parts.engines + columns.decode
        slopes = np.zeros((2, len(rows), 2 * self._parts.engines))
        limited = ndtr(pressure / _LIMIT_WIDTH)
        slopes[0, rows, columns.prefill], slopes[0, rows, decode] = -limited, limited - 1.0
        slopes[1, rows, columns.prefill], slopes[1, rows, decode] = amplified, -1.0 - amplified
        return slopes
