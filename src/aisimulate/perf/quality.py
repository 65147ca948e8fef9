"""How far the time of a forward rests on measurements."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from aisimulate.perf.results import DataQuality

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.timing.aic.operations import OperationTime
    from aisimulate.timing.aic.tables import Axis

ORIGINS = ("measured", "interpolated", "extrapolated", "transferred")
"""From best to worst."""


def data_quality(
    axes: Sequence[Axis],
    point: Mapping[str, int],
    operations: Sequence[OperationTime],
    transfer: str | None,
    experts_tokens: int,
) -> DataQuality:
    """Judge a forward at `point` (tokens, batch, length) by the axes of the tables that it reads.

    `experts_tokens`: tokens that meet in the experts, which are those of all ranks.
    """
    worst, beyond = 0, []
    for axis in axes:
        value = experts_tokens if axis.table == "moe" else point[axis.name]
        origin = _origin(axis.values, value)
        worst = max(worst, origin)
        if origin == ORIGINS.index("extrapolated"):
            beyond.append(_beyond(axis, value))
    if transfer is not None:
        worst = ORIGINS.index("transferred")
    total = sum(operation.ms for operation in operations)
    formula = sum(operation.ms for operation in operations if operation.source == "formula")
    return DataQuality(ORIGINS[worst], formula / total if total else 0.0, tuple(beyond), transfer)


def _origin(values: Sequence[int], value: int) -> int:
    if not values or not values[0] <= value <= values[-1]:
        return ORIGINS.index("extrapolated")
    return int(values[bisect_left(values, value)] != value)


def _beyond(axis: Axis, value: int) -> str:
    if not axis.values:
        return f"{axis.table}: no {axis.name} measured"
    low, high = axis.values[0], axis.values[-1]
    return f"{axis.table}: {axis.name} {value} outside {low}..{high}"
