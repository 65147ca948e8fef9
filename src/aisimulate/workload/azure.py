"""Reader of the Azure LLM inference traces: CSV of TIMESTAMP, ContextTokens, GeneratedTokens."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.units import NS_PER_S, to_ms
from aisimulate.workload.csv_rows import CsvFile
from aisimulate.workload.flat import Request, flat_trace
from aisimulate.workload.limits import MAX_INSTANT_MS, shown
from aisimulate.workload.problems import wrong_row

if TYPE_CHECKING:
    from pathlib import Path

    from aisimulate.workload.csv_rows import CsvRow
    from aisimulate.workload.loaded import LoadedTrace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_DAYS = int(MAX_INSTANT_MS / 86_400_000)
# Date, time, up to nine decimals (the 2023 files have seven, which are beyond datetime), zone.
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII)


def read_azure(path: Path) -> LoadedTrace:
    """Read a trace into independent requests; the earliest arrives at 0 ms.

    Raises InputError naming file, line, column, value and rule.
    """
    table = CsvFile(path, ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), ("NumImages",))
    clock = _Clock()
    rows: list[tuple[int, int, int, int]] = []
    for row in table.rows():
        try:
            lengths = row.tokens("ContextTokens", 1), row.tokens("GeneratedTokens", 0)
            rows.append((row.line, clock.ns(row), *lengths))
        except InputError as error:
            wrong_row(error)
    start_ns = min((ns for _, ns, _, _ in rows), default=0)
    requests = [Request(line, to_ms(ns - start_ns), prompt, output) for line, ns, prompt, output in rows]
    return flat_trace(path, requests, table.notes)


class _Clock:
    """Reads points in time; all of one file either name their zone or do not."""

    def __init__(self) -> None:
        self._zoned: bool | None = None

    def ns(self, row: CsvRow) -> int:
        """Read TIMESTAMP as whole ns since 1970; a time without zone counts as UTC."""
        text = row.needed("TIMESTAMP")
        match = _STAMP.fullmatch(text)
        if match is None:
            raise _wrong(row, text)
        date, time, decimals, zone = match.groups()
        if self._zoned is None:
            self._zoned = zone is not None
        elif self._zoned is not (zone is not None):
            raise row.error(
                f"TIMESTAMP {shown(text)}: names a time zone where other rows do not, or the other way round"
            )
        try:
            moment = datetime.fromisoformat(f"{date}T{time}{zone or '+00:00'}")
        except ValueError:
            raise _wrong(row, text) from None
        since = moment - _EPOCH
        if not 0 <= since.days <= _MOST_DAYS:
            raise row.error(f"TIMESTAMP {shown(text)}: must lie between 1970 and 2255")
        return (since.days * 86_400 + since.seconds) * NS_PER_S + int((decimals or "").ljust(9, "0"))


def _wrong(row: CsvRow, text: str) -> Exception:
    return row.error(f"TIMESTAMP {shown(text)}: must be a date and time such as 2023-11-16 18:17:03.9799600")
