"""A result file as JSON, before anybody knows which tool wrote it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from aisimulate.config.text_file import read_text
from aisimulate.core.errors import InputError
from aisimulate.core.shown import show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_LARGEST = 1e30  # nanoseconds since 1970 are 1.7e18


@dataclass(frozen=True, slots=True)
class Document:
    """A file: `rows` are its JSON values, one a line; a file of one value over several lines has one row.

    `lines` are the lines of the rows, from 1.
    """

    path: Path
    rows: Sequence[Any]
    lines: Sequence[int]

    @property
    def first(self) -> Mapping[str, Any]:
        """The first row, as an object; empty when it is none."""
        value = self.rows[0]
        return value if isinstance(value, dict) else {}

    def fields(self, row: int = 0) -> Fields:
        """Read a row field by field."""
        place = f"{self.path}:{self.lines[row]}" if len(self.rows) > 1 else str(self.path)
        return Fields(self.rows[row], place)


class Fields:
    """An object of a file, read field by field; errors name the file, the path and the value.

    A field given as null counts as absent.
    """

    __slots__ = ("_prefix", "place", "values")

    def __init__(self, value: object, place: str, path: str = "") -> None:
        if not isinstance(value, dict):
            raise InputError(f"{place}: {path or 'the file'} must be a JSON object, got {show(value)}")
        self.values: dict[str, Any] = value
        self.place = place
        self._prefix = f"{path}." if path else ""

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def error(self, name: str, rule: str) -> InputError:
        """Make the error of a field."""
        return InputError(f"{self.place}: {self._prefix}{name}: {rule}")

    def number(self, name: str) -> float | None:
        """Give a finite number from 0 on, or None where there is none. Raises InputError for anything else.

        Nothing that a result tells is negative: times, rates, lengths, counts, and instants of any clock.
        """
        return self._number(name, self.values.get(name))

    def inside(self, name: str) -> Fields | None:
        """Give an object inside of this one, or None where there is none."""
        value = self.values.get(name)
        return None if value is None else Fields(value, self.place, self._prefix + name)

    def items(self, name: str) -> list[Any] | None:
        """Give a list, or None where there is none."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.error(name, f"{show(value)} is not a list")
        return value

    def numbers(self, name: str) -> list[float | None] | None:
        """Give a list of numbers; null in it is None."""
        values = self.items(name)
        if values is None:
            return None
        return [self._number(f"{name}[{place}]", value) for place, value in enumerate(values)]

    def text(self, name: str) -> str:
        """Give a value as text for messages; empty where there is none."""
        value = self.values.get(name)
        return "" if value is None else str(value)

    def _number(self, name: str, value: object) -> float | None:
        if value is None:
            return None
        if not is_measurable(value):
            raise self.error(name, f"{show(value)} is not a finite number")
        if value < 0:
            raise self.error(name, f"{show(value)} is negative: no time, rate or count is")
        return float(value)


def is_measurable(value: object) -> TypeGuard[float]:
    """Whether a value is a number that can be a measurement in any unit: its square must be a number, too."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def read_document(path: Path) -> Document:
    """Read a file of JSON or JSON Lines. Raises InputError with one line: file, line and what is wrong.

    Infinity and NaN are let in, which some tools write where no number belongs.
    """
    try:
        text = read_text(path, str(path))
    except OSError as error:
        raise InputError(f"{path}: could not be read: {error.strerror or error}") from error
    if not text.strip():
        raise InputError(f"{path}: the file is empty")
    try:
        return Document(path, [json.loads(text)], [1])
    except json.JSONDecodeError as whole:
        return _lines(path, text, whole)
    except (RecursionError, ValueError) as error:
        raise InputError(f"{path}: no usable JSON: {error}") from None


def _lines(path: Path, text: str, whole: json.JSONDecodeError) -> Document:
    """Read a file line by line; `whole` is why it is not one value."""
    rows, numbers = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            reason = whole if not rows else error
            told = reason.msg if isinstance(reason, json.JSONDecodeError) else str(reason)
            at = reason.lineno if reason is whole else number
            raise InputError(f"{path}:{at}: neither JSON nor JSON Lines: {told}") from None
        numbers.append(number)
    return Document(path, rows, numbers)
