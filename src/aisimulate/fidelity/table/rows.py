"""Benchmark tables: means of a few runs that differ in their load only, as CSV, YAML or JSON."""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisimulate.config.document_file import read_document
from aisimulate.config.text_file import read_text
from aisimulate.core.errors import InputError, nearest
from aisimulate.core.shown import show
from aisimulate.fidelity.table.loads import REQUESTS_PER_SLOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Our names, and those that benchmarks give to the same mean.
_COLUMNS = {
    "concurrency": ("concurrency", "max_concurrency", "concurrent_requests"),
    "rate_rps": ("rate_rps", "request_rate", "rate"),
    "ttft_ms": ("ttft_ms", "mean_ttft_ms"),
    "tpot_ms": ("tpot_ms", "mean_tpot_ms"),
}
LOADS = ("concurrency", "rate_rps")
_LARGEST = 1e12
MOST_IN_FLIGHT = 100_000
"""The largest concurrency of a row: no deployment that one table is about has more in flight."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """Means at one load: a number of requests in flight, or of requests per second."""

    load: float
    ttft_ms: float
    tpot_ms: float


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of increasing load; `by` is `concurrency` or `rate_rps`."""

    file: str
    sha256: str
    by: str
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()


def read_table(path: Path) -> Table:
    """Read a table: a CSV with a header, or a YAML or JSON list of rows (also under the key `rows`).

    Raises `InputError`: one line with file, line or row, column, value and rule.
    """
    records = list(_csv(path) if path.suffix.lower() == ".csv" else _document(path))
    if not records:
        raise InputError(f"table {str(path)!r}: has no rows")
    by = _load_column(path, records[0][1])
    rows: dict[float, TableRow] = {}
    for where, record in records:
        row = _row(where, record, by)
        if row.load in rows:
            raise InputError(f"{where}: {by} {row.load:g} is given twice")
        rows[row.load] = row
    unused = [name for name in records[0][1] if _meaning(name) is None]
    notes = (f"{str(path)!r}: not used: {', '.join(map(show, unused))}",) if unused else ()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Table(path.name, digest, by, tuple(rows[load] for load in sorted(rows)), notes)


def _csv(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        text = read_text(path, f"table {str(path)!r}")
    except OSError as error:
        raise InputError(f"could not read table {str(path)!r}: {error.strerror or error}") from error
    lines = text.removeprefix("\ufeff").splitlines()  # spreadsheets mark their text as UTF-8
    table = csv.DictReader(lines, skipinitialspace=True)
    for record in table:
        where = f"{path}:{table.line_num}"
        if None in record or None in record.values():
            raise InputError(f"{where}: does not have as many fields as the first line")
        yield where, record


def _document(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    name = f"table {str(path)!r}"
    value = read_document(path, name)
    if isinstance(value, Mapping):
        value = value.get("rows")
    if not isinstance(value, list):
        raise InputError(f"{name}: expected a list of rows, or an object with rows")
    for number, record in enumerate(value):
        where = f"{name}: rows[{number}]"
        if not isinstance(record, Mapping):
            raise InputError(f"{where}: {show(record)} is not an object")
        yield where, record


def _meaning(name: object) -> str | None:
    return next((ours for ours, names in _COLUMNS.items() if name in names), None)


def _load_column(path: Path, record: Mapping[str, Any]) -> str:
    found = [meaning for meaning in map(_meaning, record) if meaning in LOADS]
    if len(found) != 1:
        legal = [name for ours in LOADS for name in _COLUMNS[ours]]
        hint = next((hint for key in record if (hint := nearest(str(key), legal))), "") if not found else ""
        rule = f"exactly one of {' and '.join(LOADS)} is needed{hint}"
        raise InputError(f"table {str(path)!r}: {rule}")
    return str(found[0])


def _row(where: str, record: Mapping[str, Any], by: str) -> TableRow:
    values = {name: _number(where, record, name) for name in (by, "ttft_ms", "tpot_ms")}
    if by == "concurrency" and values[by] != int(values[by]):
        raise InputError(f"{where}: {by} {values[by]:g} is not a whole number")
    if by == "concurrency" and values[by] > MOST_IN_FLIGHT:
        requests = f"a replay of {REQUESTS_PER_SLOT} requests a slot would never end"
        raise InputError(f"{where}: {by} {values[by]:,.0f} is more than {MOST_IN_FLIGHT:,}: {requests}")
    return TableRow(values[by], values["ttft_ms"], values["tpot_ms"])


def _number(where: str, record: Mapping[str, Any], name: str) -> float:
    given = [key for key in _COLUMNS[name] if key in record]
    if len(given) != 1:
        problem = "is missing" if not given else f"is given by {' and by '.join(given)}"
        hint = "" if given else nearest(name, [str(key) for key in record])
        raise InputError(f"{where}: {name} {problem}{hint}")
    value = record[given[0]]
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
    except ValueError:
        number = 0.0
    if not (math.isfinite(number) and 0.0 < number <= _LARGEST):
        raise InputError(f"{where}: {given[0]} {show(value)} is not a number above 0")
    return number
