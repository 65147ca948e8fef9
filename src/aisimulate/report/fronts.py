"""Pareto fronts side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.report.numbers import number_text, share_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aisimulate.spica.config import Candidate, OptimizationTarget

Row = tuple[str, ...]

_LEVELS = 6


def front_rows(targets: Sequence[OptimizationTarget], fronts: Sequence[Sequence[Candidate]]) -> list[Row]:
    """Compare fronts of the same objectives, a column each; empty when one of them is.

    The best of every objective; of two objectives also the best of the first where the second is at least
    (of a minimised one: at most) some level, and of two maximised ones the area under the front.
    """
    if not all(fronts):
        return []
    rows: list[Row] = [("points of the front", *(str(len(front)) for front in fronts))]
    rows += [
        (f"best {target.value}", *(number_text(_best(front, target)) for front in fronts))
        for target in targets
    ]
    if len(targets) == 2:
        rows += _level_rows(targets, fronts)
        if all(target.maximize for target in targets):
            rows.append(_area_row(targets, fronts))
    return rows


def front_area(targets: Sequence[OptimizationTarget], candidates: Sequence[Candidate]) -> float:
    """Return the area that candidates dominate over the origin, of two maximised objectives."""
    import numpy as np  # noqa: PLC0415 - numpy costs start-up time

    from aisimulate.spica.pool_gp.fronts import area  # noqa: PLC0415 - as above

    values = [[_value(candidate, target) for target in targets] for candidate in candidates]
    return area(np.array(values, dtype=np.float64)) if values else 0.0


def _area_row(targets: Sequence[OptimizationTarget], fronts: Sequence[Sequence[Candidate]]) -> Row:
    areas = [front_area(targets, front) for front in fronts]
    largest = max(areas)
    shares = (
        f" ({share_text(area / largest)} of the larger)" if 0 < area < largest else "" for area in areas
    )
    texts = (f"{number_text(area)}{share}" for area, share in zip(areas, shares, strict=True))
    return ("area under the front", *texts)


def _level_rows(targets: Sequence[OptimizationTarget], fronts: Sequence[Sequence[Candidate]]) -> list[Row]:
    """Say what each front offers of the first objective at levels of the second that all of them span."""
    first, second = targets
    rows = []
    for level in _levels(second, fronts):
        reached = _at_least(second, level)
        values = ([c for c in front if reached(c)] for front in fronts)
        texts = (number_text(_best(kept, first)) if kept else "-" for kept in values)
        bound = ">=" if second.maximize else "<="
        rows.append((f"{first.value} at {second.value} {bound} {number_text(level)}", *texts))
    return rows


def _levels(target: OptimizationTarget, fronts: Sequence[Sequence[Candidate]]) -> list[float]:
    """Choose levels in even ratios between the ends that all fronts reach; none without such a span."""
    values = [[_value(candidate, target) for candidate in front] for front in fronts]
    low, high = max(map(min, values)), min(map(max, values))
    if not 0.0 < low < high:
        return []
    return [low * (high / low) ** (step / (_LEVELS - 1)) for step in range(_LEVELS)]


def _at_least(target: OptimizationTarget, level: float) -> Callable[[Candidate], bool]:
    slack = 1e-9 * level  # a level may be the value of a candidate itself
    if target.maximize:
        return lambda candidate: _value(candidate, target) >= level - slack
    return lambda candidate: _value(candidate, target) <= level + slack


def _best(candidates: Sequence[Candidate], target: OptimizationTarget) -> float:
    values = [_value(candidate, target) for candidate in candidates]
    return max(values) if target.maximize else min(values)


def _value(candidate: Candidate, target: OptimizationTarget) -> float:
    return (candidate.objectives or {})[target.value]
