"""Reading the rows of JSON Lines files; every complaint names the file and the physical line."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from aisimulate.core.errors import InputError, nearest
from aisimulate.workload.limits import is_whole, shown
from aisimulate.workload.repeated_keys import repeated_key

if TYPE_CHECKING:
    from collections.abc import Iterable, KeysView
    from pathlib import Path

_MAX_NOTES = 10


def parse_line(path: Path, number: int, line: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Parse one line; raise InputError when it is not JSON, or gives a key twice."""
    line = line.rstrip(b"\r\n")
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path}:{number}: not JSON: {error.msg} (column {error.colno})") from None
    repeated = repeated_key(line, _key_count(value)) if isinstance(value, dict) else None
    if repeated is not None:
        raise InputError(f"{path}:{number}: the key {shown(repeated)} appears twice")
    return value


def _key_count(value: dict[str, Any]) -> int:
    """Count the keys of an object and of all objects in it; only lists of objects are looked through."""
    count = len(value)
    for item in value.values():
        if isinstance(item, dict):
            count += _key_count(item)
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            count += sum(_key_count(inner) for inner in item if isinstance(inner, dict))
    return count


class Row:
    """One trace row, read field by field. A field given as null counts as absent.

    Every method takes a field's name and its aliases, and raises InputError naming file, line, field,
    value and rule.
    """

    __slots__ = ("_path", "_prefix", "_values", "line")

    def __init__(self, path: Path, line: int, value: object, inside: str = "") -> None:
        """Take a parsed row, or the object that its field `inside` holds."""
        self._path = path
        self.line = line
        self._prefix = f"{inside}." if inside else ""
        if not isinstance(value, dict):
            raise self.error(f"{inside or 'a row'} must be a JSON object, got {shown(value)}")
        self._values: dict[str, Any] = value

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self._path}:{self.line}"

    @property
    def names(self) -> KeysView[str]:
        """The fields that are given, be it as null."""
        return self._values.keys()

    def error(self, message: str) -> InputError:
        """Build the error that puts file and line before `message`."""
        return InputError(f"{self.place}: {message}")

    def wrong(self, name: str, value: object, rule: str) -> InputError:
        """Build the error of a field's value that breaks a rule."""
        return self.error(f"{self.full_name(name)} {shown(value)}: {rule}")

    def full_name(self, name: str) -> str:
        """Name a field as seen from the row."""
        return self._prefix + name

    def value(self, *names: str) -> tuple[str, Any]:
        """Find the name in use among aliases, and its value (None when absent)."""
        values = self._values
        name = names[0]
        value = values.get(name)
        for alias in names[1:]:
            other = values.get(alias)
            if other is not None:
                if value is not None:
                    raise self.error(f"{name} and {alias} are the same field: give one of them")
                name, value = alias, other
        return name, value

    def given(self, name: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        """Return the value of a field that must be there."""
        if self._values.get(name) is None:
            raise self.error(f"{self._prefix}{name} is missing")
        return self._values[name]

    def inner(self, name: str) -> Row | None:
        """Open the object that a field holds, None when there is none."""
        value = self._values.get(name)
        return None if value is None else Row(self._path, self.line, value, self._prefix + name)

    def needed(self, name: str) -> Row:
        """Open the object that a field must hold."""
        return Row(self._path, self.line, self.given(name), self._prefix + name)

    def rows(self, name: str) -> list[Row]:
        """Open the objects of a list, none when there is none."""
        values = self._values.get(name)
        if values is None:
            return []
        if not isinstance(values, list):
            raise self.wrong(name, values, "must be a list of objects")
        inside = f"{self._prefix}{name}"
        return [Row(self._path, self.line, item, f"{inside}[{k}]") for k, item in enumerate(values)]

    def whole(self, *names: str, low: int, high: int) -> int | None:
        """Read a whole number in low..high."""
        name, value = self.value(*names)
        if value is not None and not is_whole(value, low, high):
            raise self.error(
                f"{self.full_name(name)} {shown(value)}: must be a whole number from {low} to {high}"
            )
        return value  # type: ignore[no-any-return]

    def number(self, *names: str, limit: float) -> float | None:
        """Read a finite number of magnitude at most `limit`."""
        name, value = self.value(*names)
        if value is None:
            return None
        if type(value) not in (int, float) or not -limit <= value <= limit:
            raise self.error(
                f"{self.full_name(name)} {shown(value)}: must be a number from {-limit:g} to {limit:g}"
            )
        return float(value)

    def text(self, *names: str) -> str | None:
        """Read a string."""
        name, value = self.value(*names)
        if value is not None and not isinstance(value, str):
            raise self.error(f"{self.full_name(name)} {shown(value)}: must be a string")
        return value

    def wholes(self, *names: str, high: int) -> list[int] | None:
        """Read a list of whole numbers in 0..high."""
        name, value = self.value(*names)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.error(f"{self.full_name(name)} {shown(value)}: must be a list of whole numbers")
        if value and set(map(type, value)) == {int} and min(value) >= 0 and max(value) <= high:
            return value
        for position, item in enumerate(value):
            if not is_whole(item, 0, high):
                rule = f"must be a whole number from 0 to {high}"
                raise self.error(f"{self.full_name(name)}[{position}] {shown(item)}: {rule}")
        return value


class UnknownFields:
    """Collects the fields of rows that mean nothing to their reader."""

    def __init__(self, path: Path, legal: Iterable[str]) -> None:
        self._path = path
        self._legal = frozenset(legal)
        self._lines: dict[str, str] = {}

    def look(self, row: Row) -> None:
        """Remember the unknown fields of a row, each with the place where it first occurs."""
        if not row.names <= self._legal:
            for name in row.names:
                if name not in self._legal:
                    self._lines.setdefault(name, row.place)

    def notes(self) -> list[str]:
        """Give one line per field, with the legal name it is most like; the last line counts the rest."""
        legal = sorted(self._legal)
        notes = [
            f"{place}: unknown field {shown(name)}, ignored{nearest(name, legal)}"
            for name, place in islice(self._lines.items(), _MAX_NOTES)
        ]
        more = len(self._lines) - len(notes)
        return notes + [f"{self._path}: {more} more unknown fields, ignored"] * bool(more)
