"""The items of one JSON array that fills a file, each with the line that it starts on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.workload.limits import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BLANK = " \t\r\n"


class _TwiceError(ValueError):
    pass


def array_items(path: Path, first_line: int, content: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (physical line, item) of an array; `content` starts on line `first_line`.

    Raises InputError when the text is no JSON array, or gives a key twice.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = first_line + content.count(b"\n", 0, error.start)
        raise InputError(f"{path}:{line}: not UTF-8") from None
    cursor = _Cursor(path, first_line, text)
    cursor.expect("[")
    if cursor.at("]"):
        raise InputError(f"{path}: the file contains no requests")
    while True:
        yield cursor.line, cursor.item()
        if not cursor.at(","):
            break
        cursor.expect(",")
    cursor.expect("]")
    cursor.end()


class _Cursor:
    """A place in the text; `line` is the physical line of what comes next."""

    def __init__(self, path: Path, line: int, text: str) -> None:
        self._path, self._text, self.line, self._at = path, text, line, 0
        self._decoder = json.JSONDecoder(object_pairs_hook=_object)
        self._skip()

    def at(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at)

    def expect(self, sign: str) -> None:
        if not self.at(sign):
            raise self._error(f"expected {sign!r}")
        self._move(self._at + 1)

    def item(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        try:
            value, end = self._decoder.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            self._move(error.pos)
            raise self._error(error.msg) from None
        except _TwiceError as error:
            raise InputError(f"{self._path}:{self.line}: {error}") from None
        except (RecursionError, ValueError):
            raise self._error("nested too deeply, or a number too long") from None
        self._move(end)
        return value

    def end(self) -> None:
        if self._at < len(self._text):
            raise self._error("text after the array")

    def _error(self, problem: str) -> InputError:
        return InputError(f"{self._path}:{self.line}: not JSON: {problem}")

    def _move(self, to: int) -> None:
        self.line += self._text.count("\n", self._at, to)
        self._at = to
        self._skip()

    def _skip(self) -> None:
        start = end = self._at
        while end < len(self._text) and self._text[end] in _BLANK:
            end += 1
        self.line += self._text.count("\n", start, end)
        self._at = end


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _TwiceError(f"the key {shown(twice)} appears twice")
    return found
