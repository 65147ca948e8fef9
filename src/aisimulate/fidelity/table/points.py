"""Factors from measured means, and how far from the measured loads they hold (spec 07 section 4.2).

One row gives one factor on every pass time, the one at which the simulated TPOT is the measured one, and one
on the TTFT that is then left over. Between two rows both go along the logarithm of the load. Beyond the rows
they fade: what is wrong with one batch size says less and less about others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.config.calibration import CalibrationPoint
from aisimulate.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FADES_OVER_DOUBLINGS = 12
"""Factors are 1 where the load is this many times doubled or halved; the way there is even in logarithms."""

MOST_TTFT_RATIO = 10.0
"""A first token that comes later than this times the simulated one has waited for something that is not
simulated, as in a saturated server; such a wait says nothing about other loads."""

LOWEST_SCALE, HIGHEST_SCALE = 0.05, 20.0
_CLOSE = 1e-4
_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class Means:
    """Mean TTFT and TPOT in ms."""

    ttft_ms: float
    tpot_ms: float


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """What was measured at one load, and the factors that bring the simulation there."""

    load: float
    step_scale: float
    ttft_ratio: float

    @property
    def is_capped(self) -> bool:
        """Whether its TTFT is too far off to be carried to other loads."""
        return not 1.0 / MOST_TTFT_RATIO <= self.ttft_ratio <= MOST_TTFT_RATIO


def fitted_point(load: float, measured: Means, simulate: Callable[[float], Means]) -> LoadPoint:
    """Find the factors of one row; `simulate` gives the means with all pass times multiplied by its argument.

    In a closed loop all times grow with the pass times, so the second replay is the last one. Raises
    `InputError` when no factor from 0.05 to 20 explains the TPOT.
    """
    low, high = math.log(LOWEST_SCALE), math.log(HIGHEST_SCALE)
    position = 0.0
    for _ in range(_ROUNDS):
        means = simulate(math.exp(position))
        gap = math.log(measured.tpot_ms / means.tpot_ms)
        if abs(gap) <= _CLOSE:
            return LoadPoint(load, math.exp(position), measured.ttft_ms / means.ttft_ms)
        low, high = (position, high) if gap > 0 else (low, position)
        position = position + gap if low < position + gap < high else (low + high) / 2
        if high - low < _CLOSE:
            break
    raise InputError(
        f"load {load:g}: no factor on the pass times from {LOWEST_SCALE:g} to {HIGHEST_SCALE:g} "
        f"gives the measured TPOT of {measured.tpot_ms:g} ms: is it in another unit (s, ms)?"
    )


def calibration_points(
    points: Sequence[LoadPoint], by: str, workers: int = 1
) -> tuple[CalibrationPoint, ...]:
    """Turn rows of increasing load into the points of a calibration; `by` is concurrency or rate_rps.

    The load of rows was shared by `workers`, that of points is of one worker: what is wrong with a pass
    depends on its batch, and the same deployment with other replicas has other batches at the same load.

    The outermost two say where the factors have faded. A TTFT factor beyond `MOST_TTFT_RATIO` is cut there.
    """
    reach = 2.0**FADES_OVER_DOUBLINGS
    ends = [LoadPoint(points[0].load / reach, 1.0, 1.0), LoadPoint(points[-1].load * reach, 1.0, 1.0)]
    return tuple(
        CalibrationPoint(
            step_scale=_told(point.step_scale),
            ttft_ratio=_told(_capped(point.ttft_ratio)),
            **{by: point.load / workers},
        )
        for point in (ends[0], *points, ends[1])
    )


def _told(factor: float) -> float:
    return float(f"{factor:.6g}")


def _capped(ratio: float) -> float:
    return min(MOST_TTFT_RATIO, max(1.0 / MOST_TTFT_RATIO, ratio))
