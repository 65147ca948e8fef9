"""The benchmark's table: a line per setting and sampler, and below ours the bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.bench_search.rounds import MARKS
from tools.bench_search.settings import PEAK_MB, SUGGEST_S, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.bench_search.settings import Setting

HEADER = (
    "problem",
    "sampler",
    "seeds",
    *(f"@{mark}" for mark in MARKS),
    *(f"s/8 @{mark}" for mark in SUGGEST_S),
    "MB",
    "infeasible",
    "duplicates",
)


def table_lines(rows: Sequence[Row]) -> list[str]:
    """Lay the rows out in columns, the bounds below our own."""
    cells = [HEADER]
    for row in rows:
        cells.append(_cells(row))
        if row.sampler == "pool-gp":
            cells.append(_bounds(row.setting))
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    return [_line(line, widths) for line in cells]


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.setting.name,
        row.sampler,
        str(len(row.runs)),
        *_numbers(row.shares(), MARKS, 3),
        *_numbers(row.suggest_s(), SUGGEST_S, 2),
        f"{row.peak_mb():.0f}",
        str(row.total("infeasible")),
        str(row.total("duplicates")),
    )


def _bounds(setting: Setting) -> tuple[str, ...]:
    reached = {mark: bound for mark, bound in SUGGEST_S.items() if mark <= setting.evaluations}
    return (
        "",
        "bound",
        "",
        *_numbers(setting.shares, MARKS, 2),
        *_numbers(reached, SUGGEST_S, 1),
        f"{PEAK_MB:.0f}",
        "",
        "0",
    )


def _numbers(
    values: Mapping[int, float], marks: Sequence[int] | Mapping[int, float], digits: int
) -> list[str]:
    return [f"{values[mark]:.{digits}f}" if mark in values else "" for mark in marks]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    texts = [cell.ljust(width) for cell, width in zip(cells[:2], widths[:2], strict=True)]
    numbers = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
    return "  ".join([*texts, *numbers]).rstrip()
