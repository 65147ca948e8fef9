"""Statistics of a sample, by our own definition, so that two runs are summarised alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.replay.statistics import PERCENTILES, summarize

if TYPE_CHECKING:
    import numpy.typing as npt


def summary(values: npt.NDArray[np.float64]) -> dict[str, float]:
    """Give mean, percentiles (members of the sample), extremes and population deviation; not of nothing."""
    if not len(values):
        return {}
    found = summarize(values)._asdict()
    return {"p50" if name == "median" else name: value for name, value in found.items()}


def weighted_summary(values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> dict[str, float]:
    """Give the same where each value stands for `weights` (above 0) of the sample."""
    if not len(values):
        return {}
    order = np.argsort(values, kind="stable")
    ordered, shares = values[order], weights[order] / weights.sum()
    reached = np.cumsum(shares)
    mean = float(np.dot(ordered, shares))
    last = len(ordered) - 1
    percentiles = {
        f"p{percent}": float(ordered[min(last, int(np.searchsorted(reached, percent / 100.0)))])
        for percent in PERCENTILES
    }
    deviation = float(np.sqrt(np.dot((ordered - mean) ** 2, shares)))
    return {
        "mean": mean,
        "min": float(ordered[0]),
        "max": float(ordered[-1]),
        **percentiles,
        "std": deviation,
    }
