"""The nine statistics that the report gives of every latency, exact and without interpolation."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

PERCENTILES = (50, 75, 90, 95, 99)


class Summary(NamedTuple):
    """Nine statistics of one sample, in the sample's unit; all 0.0 when the sample is empty.

    `std` divides by n (population). A percentile is a member of the sample (spec 02 section 8).
    The field names are the prefixes of the report's keys.
    """

    mean: float = 0.0
    min: float = 0.0
    max: float = 0.0
    median: float = 0.0
    p75: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    std: float = 0.0


EMPTY = Summary()


def percentile_rank(count: int, percent: int) -> int:
    """Index of a percentile in `count` >= 1 sorted values: (count - 1) * percent / 100, half rounded up."""
    return (2 * (count - 1) * percent + 100) // 200


def summarize(values: npt.NDArray[np.float64]) -> Summary:
    """Nine statistics of `values` (any order, finite)."""
    count = len(values)
    if count == 0:
        return EMPTY
    ordered = np.sort(values)
    low, high = float(ordered[0]), float(ordered[-1])
    # Rounding must not push the mean of equal values out of their range.
    mean = min(max(fsum(ordered.data) / count, low), high)
    percentiles = [float(ordered[percentile_rank(count, percent)]) for percent in PERCENTILES]
    return Summary._make((mean, low, high, *percentiles, float(np.std(ordered - mean))))
