"""A measured run beside a simulated one: every statistic that both have, and how far apart they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.fidelity.measured.metrics import STATISTICS, TITLES
from aisimulate.fidelity.sanity import pair_doubts, run_doubts

if TYPE_CHECKING:
    from aisimulate.fidelity.measured.run import Floats, MeasuredRun

# Computed for a side that has requests, where the other one reports it.
_ON_DEMAND = frozenset({"weighted_tpot_ms", "weighted_ntpot_ms", "ntpot_ms", "user_rate_tok_s"})
_PAIRED = ("ttft_ms", "tpot_ms", "e2e_latency_ms")


@dataclass(frozen=True, slots=True)
class Difference:
    """One statistic of one metric on both sides.

    `error` is simulated / measured - 1, None where 0 was measured.
    """

    metric: str
    statistic: str
    measured: float
    simulated: float

    @property
    def error(self) -> float | None:
        """The relative error of the simulation, with its sign."""
        return self.simulated / self.measured - 1.0 if self.measured else None


@dataclass(frozen=True, slots=True)
class Pairing:
    """Requests of both runs, one by one, for a metric: the median error, with and without its sign."""

    metric: str
    requests: int
    median_error: float
    median_absolute_error: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both runs and what sets them apart.

    `only_measured` and `only_simulated` name metrics that the other side does not tell. `doubts` are lines
    on numbers that look wrong, such as seconds taken for milliseconds. `pairs` are there where both files
    have the same requests in the same order.
    """

    measured: MeasuredRun
    simulated: MeasuredRun
    differences: list[Difference]
    only_measured: list[str]
    only_simulated: list[str]
    doubts: list[str]
    pairs: list[Pairing]

    def of(self, metric: str) -> dict[str, Difference]:
        """Give the differences of a metric by statistic."""
        return {item.statistic: item for item in self.differences if item.metric == metric}


def compare_runs(measured: MeasuredRun, simulated: MeasuredRun) -> Comparison:
    """Set a simulated run beside a measured one (either may be any of the two)."""
    differences: list[Difference] = []
    only_measured, only_simulated = [], []
    for metric in TITLES:
        if metric in _ON_DEMAND and metric not in {**measured.reported, **simulated.reported}:
            continue
        left, right = measured.statistics(metric), simulated.statistics(metric)
        common = [name for name in STATISTICS if name in left and name in right]
        differences += [Difference(metric, name, left[name], right[name]) for name in common]
        if left and not common:
            only_measured.append(metric)
        if right and not common:
            only_simulated.append(metric)
    doubts = [*run_doubts(measured), *run_doubts(simulated), *pair_doubts(measured, simulated)]
    return Comparison(
        measured,
        simulated,
        differences,
        only_measured,
        only_simulated,
        doubts,
        _pairings(measured, simulated),
    )


def _pairings(measured: MeasuredRun, simulated: MeasuredRun) -> list[Pairing]:
    """Compare request by request where both runs had the same ones in the same order, by their lengths."""
    left, right = measured.requests, simulated.requests
    if left is None or right is None:
        return []
    if not all(
        _equal(getattr(left, name), getattr(right, name)) for name in ("input_tokens", "output_tokens")
    ):
        return []
    found = []
    for metric in _PAIRED:
        ours, theirs = getattr(right, metric), getattr(left, metric)
        if ours is None or theirs is None:
            continue
        told = np.isfinite(ours) & np.isfinite(theirs) & (theirs > 0)
        if told.any():
            errors = ours[told] / theirs[told] - 1.0
            found.append(
                Pairing(metric, int(told.sum()), float(np.median(errors)), float(np.median(np.abs(errors))))
            )
    return found


def _equal(left: Floats | None, right: Floats | None) -> bool:
    return left is not None and right is not None and np.array_equal(left, right)
