"""The rows of CSV traces; every complaint names the file, the physical line and the column."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, nearest
from aisimulate.workload.limits import MAX_INSTANT_MS, MAX_TOKENS, shown
from aisimulate.workload.lines import numbered_lines
from aisimulate.workload.problems import wrong_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class CsvRow:
    """One row, read column by column. An empty cell counts as absent.

    Every method raises InputError naming file, line, column, value and rule.
    """

    __slots__ = ("_cells", "_columns", "_path", "line")

    def __init__(self, path: Path, line: int, columns: dict[str, int], cells: list[str]) -> None:
        self._path = path
        self.line = line
        self._columns = columns
        self._cells = cells

    def error(self, message: str) -> InputError:
        """Build the error that puts file and line before `message`."""
        return InputError(f"{self._path}:{self.line}: {message}")

    def text(self, column: str) -> str | None:
        """Read a cell; None when it is empty or the file has no such column."""
        index = self._columns.get(column)
        return None if index is None else self._cells[index].strip() or None

    def needed(self, column: str) -> str:
        """Read a cell that must be filled."""
        text = self.text(column)
        if text is None:
            raise self.error(f"{column} is missing")
        return text

    def tokens(self, column: str, low: int) -> int:
        """Read a number of tokens of at least `low`."""
        text = self.needed(column)
        value = int(text) if text.isascii() and text.isdigit() else _whole(text)
        if not low <= value <= MAX_TOKENS:
            raise self.error(f"{column} {shown(text)}: must be a whole number from {low} to {MAX_TOKENS}")
        return value

    def seconds_ms(self, column: str) -> float | None:
        """Read a time or duration in seconds; give it in ms."""
        text = self.text(column)
        if text is None:
            return None
        try:
            ms = float(text) * 1000.0
        except ValueError:
            ms = float("nan")
        if not 0.0 <= ms <= MAX_INSTANT_MS:
            raise self.error(
                f"{column} {shown(text)}: must be a number of seconds from 0 to {MAX_INSTANT_MS / 1000:g}"
            )
        return ms


class CsvFile:
    """A CSV file whose first line names its columns; case and blanks around names do not matter.

    Raises InputError when a column of `needed` is missing, or one is there twice.
    """

    def __init__(self, path: Path, needed: Sequence[str], other: Sequence[str] = ()) -> None:
        """Open the file; `other` columns may be there, too."""
        self._path = path
        self._table = csv.reader(_decoded(path), strict=True)
        header = self._next()
        if header is None:
            raise InputError(f"{path}: the file contains no requests")
        self._width = len(header)
        self._legal = (*needed, *other)
        self._columns, self.notes = self._find_columns(header)
        for column in needed:
            if column not in self._columns:
                titles = [title.strip() for title in header]
                raise InputError(
                    f"{path}:{self._table.line_num}: no column {column!r} (found: {shown(', '.join(titles))})"
                    f"{nearest(column, titles)}"
                )

    def rows(self) -> Iterator[CsvRow]:
        """Yield the rows that are not blank."""
        found = False
        while (cells := self._next()) is not None:
            row = CsvRow(self._path, self._table.line_num, self._columns, cells)
            found = True
            if len(cells) == self._width:
                yield row
            else:
                wrong_row(row.error(f"{len(cells)} cells, but the header names {self._width}"))
        if not found:
            raise InputError(f"{self._path}: the file contains no requests")

    def _next(self) -> list[str] | None:
        try:
            return next((cells for cells in self._table if cells and cells != [""]), None)
        except csv.Error as error:
            raise InputError(f"{self._path}:{self._table.line_num}: not CSV: {error}") from None

    def _find_columns(self, header: list[str]) -> tuple[dict[str, int], list[str]]:
        place = f"{self._path}:{self._table.line_num}"
        known = {name.casefold(): name for name in self._legal}
        columns: dict[str, int] = {}
        notes: list[str] = []
        for index, title in enumerate(header):
            name = known.get(title.strip().casefold())
            if name is None:
                hint = nearest(title.strip(), self._legal)
                notes.append(f"{place}: unknown column {shown(title.strip())}, ignored{hint}")
            elif columns.setdefault(name, index) != index:
                raise InputError(f"{place}: the column {name!r} appears twice")
        return columns, notes


def _decoded(path: Path) -> Iterator[str]:
    for number, line in numbered_lines(path):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{path}:{number}: not UTF-8 (byte {error.start + 1})") from None


def _whole(text: str) -> int:
    """Read a whole number that is written with decimals, as tables of floats do; -1 for anything else."""
    try:
        value = float(text)
    except ValueError:
        return -1
    return int(value) if value.is_integer() else -1
