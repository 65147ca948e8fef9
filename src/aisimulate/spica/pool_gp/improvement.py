"""How much a candidate is expected to improve on what is known.

Objectives are positive and larger is better; their logarithms are normal, so products and ratios (of a
replay to its screen, say) have simple models. All expectations are over the values themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from aisimulate.spica.pool_gp.fronts import area, front_of_two

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_DIRECTIONS = 64
_DRAWS = 16
_VOLUME_SEED = 1


def expected_gain(means: Floats, deviations: Floats, known: Floats) -> Floats:
    """Return what each candidate is expected to add to the worth of `known` (values, one row each).

    `means` and `deviations` (candidates, objectives) are of the logarithms.
    """
    if means.shape[1] == 1:
        return expected_improvement(means[:, 0], deviations[:, 0], float(np.log(known).max()))
    if means.shape[1] == 2:
        return expected_area(means, deviations, known)
    return expected_volume(means, deviations, known)


def worth(values: Floats, unit: Floats) -> float:
    """Return what values (n, objectives) are worth together, on the scale of `expected_gain`.

    `unit` is the largest known value of each objective, to which three or more are scaled.
    """
    if values.shape[1] == 1:
        return float(np.log(values).max())
    if values.shape[1] == 2:
        return area(values)
    directions = _directions(np.random.default_rng(_VOLUME_SEED), values.shape[1])
    return float((_reach(values / unit, directions).max(0) ** values.shape[1]).mean())


def expected_excess(mean: Floats, deviation: Floats, level: Floats) -> Floats:
    """Return E[max(Y - level, 0)] of log-normal Y, shape (candidates, levels); levels >= 0.

    `mean` and `deviation` are those of log Y (the Black-Scholes formula without interest).
    """
    mean, deviation = mean[:, None], deviation[:, None]
    with np.errstate(divide="ignore"):
        reached = (mean - np.log(level)) / deviation
    return np.asarray(np.exp(mean + 0.5 * deviation**2) * ndtr(reached + deviation) - level * ndtr(reached))


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the expected improvement of normal values on `best` (one objective, any scale)."""
    lead = mean - best
    reached = lead / deviation
    density = np.exp(-0.5 * reached**2) / np.sqrt(2.0 * np.pi)
    return np.asarray(lead * ndtr(reached) + deviation * density)


def expected_area(means: Floats, deviations: Floats, known: Floats) -> Floats:
    """Return the expected gain of area over the origin of two objectives, exactly.

    `means` and `deviations` (candidates, 2) are of the logarithms, `known` (n, 2) are values. Between two
    neighbours of the front the gain is a width times a height, which are independent.
    """
    points = known[front_of_two(known)] if len(known) else known.reshape(0, 2)
    lefts = np.append(points[:, 0], 0.0)
    floors = np.concatenate([[0.0], points[:, 1]])
    beyond = expected_excess(means[:, 0], deviations[:, 0], lefts)
    widths = np.diff(beyond, axis=1, prepend=0.0)
    heights = expected_excess(means[:, 1], deviations[:, 1], floors)
    return np.asarray(np.einsum("ij,ij->i", widths, heights))


def expected_volume(means: Floats, deviations: Floats, known: Floats) -> Floats:
    """Estimate the expected gain of hypervolume of three or more objectives.

    The volume is proportional to the mean over directions w of max over points of min_k (y_k / w_k)^m
    (Zhang and Golovin 2020), so the gain is estimated by the same random directions for all candidates.
    """
    rng = np.random.default_rng(_VOLUME_SEED)
    objectives = means.shape[1]
    directions = _directions(rng, objectives)
    noise = rng.standard_normal((_DRAWS, objectives))
    total = np.zeros(len(means))
    unit = known.max(0) if len(known) else np.exp(means).max(0)
    best = _reach(known / unit, directions).max(0) if len(known) else np.zeros(_DIRECTIONS)
    for draw in noise:
        values = np.exp(means + deviations * draw) / unit
        gains = _reach(values, directions) ** objectives - best**objectives
        total += np.maximum(gains, 0.0).mean(1)
    return total / _DRAWS


def _directions(rng: np.random.Generator, objectives: int) -> Floats:
    directions = np.abs(rng.standard_normal((_DIRECTIONS, objectives))) + 1e-9
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True))


def _reach(values: Floats, directions: Floats) -> Floats:
    """Return how far along each direction each point dominates, shape (points, directions)."""
    return np.asarray((values[:, None, :] / directions).min(2))
