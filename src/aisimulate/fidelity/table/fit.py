"""From a benchmark table and the payload of the deployment that was measured to a calibration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from aisimulate.config.aic import aic_config
from aisimulate.config.calibration import (
    VERSION,
    Calibration,
    CalibrationError,
    CalibrationKey,
    CalibrationSource,
)
from aisimulate.config.calibration_file import factors_at
from aisimulate.config.payload import parse_payload
from aisimulate.core.errors import InputError
from aisimulate.fidelity.table.loads import at_load, check_payload, with_scale
from aisimulate.fidelity.table.points import MOST_TTFT_RATIO, Means, calibration_points, fitted_point
from aisimulate.replay.calibrated import engine_of, workers_of
from aisimulate.replay.execute import execute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aisimulate.fidelity.table.points import LoadPoint
    from aisimulate.fidelity.table.rows import Table, TableRow

_DIGITS = 6
_WAITS = f"more than {MOST_TTFT_RATIO:g}: something waits that is not simulated, as when a server is full"
_OTHER_UNIT = f"less than 1/{MOST_TTFT_RATIO:g}: is it in another unit (s, ms), or were prompts in the cache?"


@dataclass(frozen=True, slots=True)
class RowErrors:
    """One row: errors (simulated / measured - 1) of TTFT and TPOT, before, after, and by the other rows.

    `held_out` is None in a table of one row.
    """

    load: float
    before: tuple[float, float]
    after: tuple[float, float]
    held_out: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """A calibration, and what it does to each row."""

    calibration: Calibration
    rows: tuple[RowErrors, ...]


@dataclass(frozen=True, slots=True)
class _Engine:
    """What was measured, and how many workers shared the load."""

    key: CalibrationKey
    workers: int


def fit_table(table: Table, payload: Mapping[str, Any]) -> TableOutcome:
    """Fit factors to every row; deterministic. Raises `InputError`, and what replays raise."""
    check_payload(payload)
    engine = _engine(payload, table)
    simulate = simulator(payload, table.by)
    points = [_point(row, simulate) for row in table.rows]
    calibration = _calibration(table, engine, points)
    rows = tuple(
        RowErrors(
            row.load,
            _errors(row, simulate(row.load, 1.0)),
            _errors(row, _predicted(calibration, simulate, row.load, engine.workers)),
            _held_out(table, engine, points, number, simulate),
        )
        for number, row in enumerate(table.rows)
    )
    worst = {
        name: max((row.after[place] for row in rows), key=abs) for place, name in enumerate(("ttft", "tpot"))
    }
    error = CalibrationError(**{name: round(value, _DIGITS) for name, value in worst.items()})
    return TableOutcome(calibration.model_copy(update={"training_error": error}), rows)


def simulator(payload: Mapping[str, Any], by: str) -> Callable[[float, float], Means]:
    """Give a function from load and factor on all pass times to simulated means; equal calls replay once."""

    @cache
    def simulate(load: float, scale: float) -> Means:
        report = execute(with_scale(at_load(payload, by, load), scale))
        ttft_ms, tpot_ms = report["mean_ttft_ms"], report["mean_tpot_ms"]
        if not (report["completed_requests"] and ttft_ms and tpot_ms):
            raise InputError(f"{by} {load:g}: no simulated request has a time per output token")
        return Means(float(ttft_ms), float(tpot_ms))

    return simulate


def _point(row: TableRow, simulate: Callable[[float, float], Means]) -> LoadPoint:
    measured = Means(row.ttft_ms, row.tpot_ms)
    return fitted_point(row.load, measured, lambda scale: simulate(row.load, scale))


def _predicted(
    calibration: Calibration, simulate: Callable[[float, float], Means], load: float, workers: int
) -> Means:
    scale, ratio = factors_at(calibration, load / workers)
    means = simulate(load, scale)
    return Means(ratio * means.ttft_ms, means.tpot_ms)


def _held_out(
    table: Table,
    engine: _Engine,
    points: Sequence[LoadPoint],
    number: int,
    simulate: Callable[[float, float], Means],
) -> tuple[float, float] | None:
    others = [point for place, point in enumerate(points) if place != number]
    if not others:
        return None
    row = table.rows[number]
    calibration = _calibration(table, engine, others)
    return _errors(row, _predicted(calibration, simulate, row.load, engine.workers))


def _errors(row: TableRow, means: Means) -> tuple[float, float]:
    return means.ttft_ms / row.ttft_ms - 1.0, means.tpot_ms / row.tpot_ms - 1.0


def _calibration(table: Table, engine: _Engine, points: Sequence[LoadPoint]) -> Calibration:
    return Calibration(
        version=VERSION,
        key=engine.key,
        points=calibration_points(points, table.by, engine.workers),
        source=CalibrationSource(file=table.file, sha256=table.sha256, format="table", rows=len(points)),
        notes=tuple(_doubts(table, points)),
    )


def _doubts(table: Table, points: Sequence[LoadPoint]) -> list[str]:
    """Say what the rows do not tell."""
    notes = [
        f"{table.by} {point.load:g}: the measured TTFT is {point.ttft_ratio:.3g} times the simulated one, "
        + (_WAITS if point.ttft_ratio > 1.0 else _OTHER_UNIT)
        for point in points
        if point.is_capped
    ]
    if len(points) == 1:
        notes.append("one row: factors are those of its load, and say less of loads far from it")
    return notes


def _engine(payload: Mapping[str, Any], table: Table) -> _Engine:
    execution = parse_payload(at_load(payload, table.by, table.rows[0].load))
    role = execution.spec.engine.role(None)
    return _Engine(engine_of(role, aic_config(role.rank)), workers_of(execution))
