"""Whether to try something hardly measured yet, because much else would be as good as it turns out to be.

Expected improvement looks at one candidate at a time. But the first measurement of an engine tells of all
deployments with that engine, so its worth is what all of them together might add.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.spica.pool_gp.improvement import expected_gain, worth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aisimulate.spica.pool_gp.inputs import Inputs

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

_HARDLY = 3  # a label with fewer measurements is hardly known
# How many deviations better it might be than expected, and the chance of about that: Student's t with
# four degrees of freedom, for what is wrong with a whole engine is now and then very wrong.
_SHIFTS = ((1.0, 0.218), (2.0, 0.071), (3.0, 0.021), (4.0, 0.0124))
_TYPICAL_SHIFT = 3.0
_HARVEST = 4.0  # further measurements that it takes to get what a label is worth
_LOWEST_CHANCE = 0.5
PER_GROUP = 6  # its most promising candidates


def by_label(labels: Ints) -> list[Ints]:
    """Group rows by each label they have, in a fixed order."""
    groups: list[Ints] = []
    for column in labels.T:
        order = np.argsort(column, kind="stable")
        groups += np.split(order, np.flatnonzero(np.diff(column[order])) + 1)
    return groups


@dataclass(frozen=True, slots=True)
class Trial:
    """What measuring a group promises to gain, and its best rows, the best first."""

    value: float
    rows: Ints


def hardly_known(measured: Inputs, candidates: Inputs) -> list[Ints]:
    """Group candidates by each offset of a label that they mostly have, and that was hardly measured."""
    groups: list[Ints] = []
    for mine, theirs in zip(measured.labels.T, candidates.labels.T, strict=True):
        for weight, share in zip(measured.weights.T, candidates.weights.T, strict=True):
            mostly = np.flatnonzero(share > 0.5)
            for rows in by_label(theirs[mostly, None]) if len(mostly) else []:
                if weight[mine == theirs[mostly[rows[0]]]].sum() < _HARDLY:
                    groups.append(mostly[rows])
    return groups


def best_of_groups(
    means: Floats, deviations: Floats, chance: Floats, groups: list[Ints], known: Floats, otherwise: float
) -> list[Trial]:
    """Return what each group might add to `known`, and with which candidates, the most valuable first.

    `means` and `deviations` are of the logarithms, `chance` is that of being feasible, a row per candidate.
    `otherwise` is the gain of a measurement spent on something else.
    """
    trials = []
    for group in groups:
        rows = group[chance[group] >= _LOWEST_CHANCE]
        if len(rows):
            value, best = _promise(means[rows], deviations[rows], known, otherwise)
            trials.append(Trial(value, rows[best]))
    return sorted(trials, key=lambda trial: -trial.value)


def _promise(means: Floats, deviations: Floats, known: Floats, otherwise: float) -> tuple[float, Ints]:
    """Return the expected gain of a group beyond what its harvest would gain elsewhere, and its best rows."""
    unit = known.max(0)
    before = worth(known, unit)
    value = 0.0
    for shift, chance in _SHIFTS:
        shifted = np.exp(means + shift * deviations)
        gain = worth(np.concatenate([known, shifted]), unit) - before
        value += chance * max(gain - _HARVEST * otherwise, 0.0)
    hoped = expected_gain(means + _TYPICAL_SHIFT * deviations, 0.1 * deviations, known)
    return value, np.argsort(-hoped, kind="stable")[:PER_GROUP]
