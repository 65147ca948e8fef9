"""Calibration scored on rows that it has not seen: curves over concurrency, calibrated on one or two rows.

All pass times of a closed loop grow by the same factor when every pass does, so no replay is needed for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from aisimulate.config.calibration import Calibration
from aisimulate.config.calibration_file import factors_at
from aisimulate.core.errors import InputError
from aisimulate.fidelity.table.points import LoadPoint, Means, calibration_points, fitted_point

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.validate.outcomes import Outcome

_SOURCE = {"file": "table", "sha256": "0" * 64, "format": "table"}


@dataclass(slots=True)
class Lists:
    """Relative errors of TTFT and TPOT, and how many rows had none because the calibration was refused."""

    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)
    refused: int = 0

    def add(self, ttft_ms: float, tpot_ms: float, outcome: Outcome) -> None:
        """Compare a prediction with what was measured."""
        self.ttft.append(ttft_ms / outcome.run.ttft_ms - 1.0)
        self.tpot.append(tpot_ms / outcome.run.tpot_ms - 1.0)


def curves(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Collect aggregated runs that differ in nothing but the concurrency, one per concurrency."""
    found: dict[object, dict[int, Outcome]] = defaultdict(dict)
    for outcome in outcomes:
        if not outcome.run.is_pair:
            found[outcome.run.curve].setdefault(outcome.run.concurrency, outcome)
    return [[rows[key] for key in sorted(rows)] for rows in found.values()]


def one_row(rows: Sequence[Outcome], errors: Lists) -> None:
    """Calibrate on each row in turn, and score all others of the curve."""
    for row in rows:
        _score([row], [other for other in rows if other is not row], errors)


def two_rows(rows: Sequence[Outcome], errors: Lists) -> None:
    """Calibrate on each two rows with others between them, and score those."""
    for low, high in combinations(range(len(rows)), 2):
        _score([rows[low], rows[high]], rows[low + 1 : high], errors)


def interpolated(rows: Sequence[Outcome], errors: Lists) -> None:
    """Score what the measurements alone say of the rows between each two, along logarithms."""
    for low, high in combinations(range(len(rows)), 2):
        first, last = rows[low].run, rows[high].run
        for inner in rows[low + 1 : high]:
            share = math.log(inner.run.concurrency / first.concurrency)
            share /= math.log(last.concurrency / first.concurrency)
            ttft_ms = first.ttft_ms ** (1 - share) * last.ttft_ms**share
            tpot_ms = first.tpot_ms ** (1 - share) * last.tpot_ms**share
            errors.add(ttft_ms, tpot_ms, inner)


def _score(known: Sequence[Outcome], others: Sequence[Outcome], errors: Lists) -> None:
    try:
        calibration = _calibration([_point(outcome) for outcome in known])
    except InputError:
        errors.refused += len(others)
        return
    for outcome in others:
        scale, ratio = factors_at(calibration, outcome.run.concurrency)
        errors.add(scale * ratio * outcome.ttft_ms, scale * outcome.tpot_ms, outcome)


def _point(outcome: Outcome) -> LoadPoint:
    def simulate(scale: float) -> Means:
        return Means(scale * outcome.ttft_ms, scale * outcome.tpot_ms)

    run = outcome.run
    return fitted_point(run.concurrency, Means(run.ttft_ms, run.tpot_ms), simulate)


def _calibration(points: Sequence[LoadPoint]) -> Calibration:
    return Calibration.model_validate(
        {
            "version": 1,
            "key": {"backend": "vllm"},
            "source": _SOURCE,
            "points": [point.model_dump() for point in calibration_points(points, "concurrency")],
        }
    )


def scored_methods(rows_of_curves: Iterable[Sequence[Outcome]]) -> Iterator[tuple[str, Lists]]:
    """Yield each method with its errors on all curves."""
    curves_seen = list(rows_of_curves)
    methods = {
        "one row of the curve": one_row,
        "two rows, rows between": two_rows,
        "no simulator, rows between": interpolated,
    }
    for name, method in methods.items():
        errors = Lists()
        for rows in curves_seen:
            method(rows, errors)
        yield name, errors
