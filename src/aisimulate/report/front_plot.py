"""A Pareto front in characters: `*` are its candidates, `.` those that it beats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.report.numbers import number_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal

_COLUMNS, _ROWS = 64, 14


def front_plot_lines(
    goal: OptimizationGoal, front: Sequence[Candidate], all_candidates: Iterable[Candidate]
) -> list[str]:
    """Plot the first objective upwards over the second; nothing without two different points."""
    if not goal.is_pareto:
        return []
    up, across = (target.value for target in goal.targets[:2])
    best = [_point(candidate, across, up) for candidate in front]
    others = [_point(candidate, across, up) for candidate in all_candidates]
    points = best + others
    if len(set(points)) < 2:
        return []
    spans = [(min(values), max(values)) for values in zip(*points, strict=True)]
    grid = [[" "] * _COLUMNS for _ in range(_ROWS)]
    for mark, group in ((".", others), ("*", best)):
        for x, y in group:
            grid[_ROWS - 1 - _place(y, spans[1], _ROWS)][_place(x, spans[0], _COLUMNS)] = mark
    return [f"{up} over {across} (* not beaten, . beaten):", *_framed(grid, spans)]


def _point(candidate: Candidate, across: str, up: str) -> tuple[float, float]:
    objectives = candidate.objectives or {}
    return objectives[across], objectives[up]


def _place(value: float, span: tuple[float, float], size: int) -> int:
    low, high = span
    return round((value - low) / (high - low) * (size - 1)) if high > low else 0


def _framed(grid: list[list[str]], spans: list[tuple[float, float]]) -> list[str]:
    (left, right), (bottom, top) = spans
    labels = [number_text(top), *[""] * (_ROWS - 2), number_text(bottom)]
    width = max(map(len, labels))
    lines = [f"{label:>{width}} |{''.join(row)}".rstrip() for label, row in zip(labels, grid, strict=True)]
    ends = number_text(left), number_text(right)
    gap = " " * max(1, _COLUMNS - len(ends[0]) - len(ends[1]))
    return [*lines, f"{'':>{width}} +{'-' * _COLUMNS}", f"{'':>{width}}  {ends[0]}{gap}{ends[1]}"]
