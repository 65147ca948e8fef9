"""Traffic of a trace per time window, as a forecaster sees it (spec 05 section 3.2, 03 section C1)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aisimulate.core.errors import InputError
from aisimulate.core.shown import show_python
from aisimulate.forecast.traffic import Window
from aisimulate.workload.jsonl import parse_line
from aisimulate.workload.lines import text_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Arrival(NamedTuple):
    """One request of a trace."""

    timestamp_ms: float
    input_tokens: float
    output_tokens: float


def build_windows(path: str | Path, interval_s: float) -> list[Window]:
    """Aggregate a Mooncake trace into windows of `interval_s`, from its first to its last request.

    Raises InputError for a row that is not a request, OSError for an unreadable file.
    """
    return aggregate(read_arrivals(Path(path)), interval_s)


def read_arrivals(path: Path) -> list[Arrival]:
    """Read the timed requests of a Mooncake trace; later turns of a session have no time and are left out."""
    rows = (_arrival(path, number, parse_line(path, number, line)) for number, line in text_lines(path))
    return [arrival for arrival in rows if arrival is not None]


def aggregate(arrivals: Sequence[Arrival], interval_s: float) -> list[Window]:
    """Count and average arrivals per window; idle windows between the first and the last are kept."""
    buckets: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        buckets.setdefault(int(arrival.timestamp_ms // (1000.0 * interval_s)), []).append(arrival)
    if not buckets:
        return []
    return [_window(buckets.get(index, [])) for index in range(min(buckets), max(buckets) + 1)]


def carry_shapes(windows: Iterable[Window]) -> list[Window]:
    """Give idle windows the lengths of the last busy one: what a running planner feeds its forecasters."""
    carried: list[Window] = []
    for window in windows:
        if window.num_req == 0 and carried:
            window = Window(0.0, carried[-1].isl, carried[-1].osl)
        carried.append(window)
    return carried


def _window(arrivals: Sequence[Arrival]) -> Window:
    count = len(arrivals)
    if count == 0:
        return Window(0.0, 0.0, 0.0)
    isl = sum(arrival.input_tokens for arrival in arrivals) / count
    osl = sum(arrival.output_tokens for arrival in arrivals) / count
    return Window(float(count), isl, osl)


def _arrival(path: Path, line: int, row: object) -> Arrival | None:
    if not isinstance(row, dict):
        raise InputError(f"{path}:{line}: a trace row must be an object, got {show_python(row)}")
    timestamp_ms = row.get("timestamp", row.get("created_time"))
    if timestamp_ms is None:
        return None
    values = (
        timestamp_ms,
        row.get("input_length", row.get("input_tokens")),
        row.get("output_length", row.get("output_tokens")),
    )
    return Arrival(*(_number(path, line, value) for value in values))


def _number(path: Path, line: int, value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise InputError(
        f"{path}:{line}: timestamp, input_length and output_length must be numbers, got {show_python(value)}"
    )
