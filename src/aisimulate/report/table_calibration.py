"""The outcome of a calibration from a benchmark table, on the terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from aisimulate.report.calibration import engine_line
from aisimulate.report.columns import aligned
from aisimulate.report.numbers import percent_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.config.calibration import CalibrationPoint
    from aisimulate.fidelity.table.fit import RowErrors, TableOutcome

_MISSING = "-"


def table_outcome_text(outcome: TableOutcome) -> str:
    """Lay out the factors and errors (simulated / measured - 1) of each row."""
    calibration = outcome.calibration
    lines = [
        engine_line(calibration.key),
        f"table: {calibration.source.file}, {calibration.source.rows} rows",
        "",
        *aligned(list(_cells(outcome))),
        "",
    ]
    lines += [f"warning: {note}" for note in calibration.notes]
    return "\n".join(lines).rstrip("\n") + "\n"


def table_outcome_json(outcome: TableOutcome) -> str:
    """Write the same as JSON, with the calibration."""
    document = {
        "calibration": outcome.calibration.model_dump(mode="json", exclude_none=True),
        "rows": [asdict(row) for row in outcome.rows],
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _cells(outcome: TableOutcome) -> Iterator[tuple[str, ...]]:
    measured = outcome.calibration.points[1:-1]  # the outermost say where factors have faded
    by = "concurrency" if outcome.calibration.points[0].concurrency is not None else "requests/s"
    yield (by, "pass times", "TTFT", "before: TTFT", "TPOT", "after: TTFT", "TPOT", "by others: TTFT", "TPOT")
    for row, point in zip(outcome.rows, measured, strict=True):
        yield _row_cells(row, point)


def _row_cells(row: RowErrors, point: CalibrationPoint) -> tuple[str, ...]:
    held_out = (
        (_MISSING, _MISSING) if row.held_out is None else tuple(percent_text(e, 1) for e in row.held_out)
    )
    factors = (f"x {point.step_scale:.3f}", f"x {point.ttft_ratio:.3f}")
    errors = (percent_text(error, 1) for error in (*row.before, *row.after))
    return (f"{row.load:g}", *factors, *errors, *held_out)
