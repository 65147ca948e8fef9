"""Traffic of a trace per time window, as a forecaster sees it (spec 05 section 3.2, 03 section C1)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aisimulate.core.errors import InputError
from aisimulate.core.shown import show_python
from aisimulate.forecast.traffic import Window
from aisimulate.workload.formats import load_trace
from aisimulate.workload.jsonl import parse_line
from aisimulate.workload.lines import text_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST_WINDOWS = 1_000_000


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


def detected_arrivals(path: Path) -> list[Arrival]:
    """Read the timed requests of a Mooncake trace, or of a Dynamo request trace, whose rows say so.

    Raises InputError for a wrong row or an unreadable file.
    """
    number, line = next(text_lines(path))
    first = parse_line(path, number, line)
    return read_arrivals(path, "dynamo" if isinstance(first, dict) and "schema" in first else "mooncake")


def read_arrivals(path: Path, trace_format: str = "mooncake") -> list[Arrival]:
    """Read the timed requests of a trace; later turns of a session have no time and are left out.

    Times are relative to the first request, except for Mooncake rows, which keep theirs. Raises InputError
    for a wrong row, OSError for an unreadable file.
    """
    return _mooncake_arrivals(path) if trace_format == "mooncake" else _arrivals(path, trace_format)


def _arrivals(path: Path, trace_format: str) -> list[Arrival]:
    sessions = load_trace([path], trace_format).sessions
    timed = [(session.arrival_ms, session.turns[0]) for session in sessions if session.arrival_ms is not None]
    start_ms = min((arrival_ms for arrival_ms, _ in timed), default=0.0)
    return [
        Arrival(arrival_ms - start_ms, turn.input_tokens, turn.output_tokens) for arrival_ms, turn in timed
    ]


def _mooncake_arrivals(path: Path) -> list[Arrival]:
    rows = (_arrival(path, number, parse_line(path, number, line)) for number, line in text_lines(path))
    return [arrival for arrival in rows if arrival is not None]


def aggregate(arrivals: Sequence[Arrival], interval_s: float) -> list[Window]:
    """Count and average arrivals per window; idle windows between the first and the last are kept.

    Raises InputError when that makes more windows than anybody can want.
    """
    buckets: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        buckets.setdefault(int(arrival.timestamp_ms // (1000.0 * interval_s)), []).append(arrival)
    if not buckets:
        return []
    count = max(buckets) - min(buckets) + 1
    if count > _MOST_WINDOWS:
        raise InputError(
            f"windows of {interval_s:g} s would cut the trace into {count:,}, "
            f"of which at most {_MOST_WINDOWS:,} are taken"
        )
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
