"""Spelling values for messages: short, on one line, and never writing out a huge value to cut it."""

from __future__ import annotations

import json
import reprlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_VALUE_CHARS = 60
MAX_PATH_CHARS = 240
_OTHERS = reprlib.Repr()


def show(value: object) -> str:
    """Render an offending value shortly: strings quoted, everything else as JSON."""
    return _short(value, lambda atom: _quoted(atom) if isinstance(value, str) else _json(atom))


def show_python(value: object) -> str:
    """Render an offending value shortly, as Python spells it."""
    return _short(value, _quoted)


def show_path(path: object) -> str:
    """Render the name of a file, folder or model in quotes; it may be longer than other values."""
    return cut(repr(str(path)[: MAX_PATH_CHARS + 1]), MAX_PATH_CHARS)


def visible(text: str) -> str:
    """Spell out the characters that would break the line, or that nobody can see."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cut(text: str, limit: int = MAX_VALUE_CHARS) -> str:
    """Shorten `text` to at most `limit` characters, the last three of them dots."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _short(value: object, spell: Callable[[object], str]) -> str:
    text = ""
    for piece in _pieces(value, spell):
        text += piece
        if len(text) > MAX_VALUE_CHARS:
            break
    return cut(visible(text))


def _pieces(value: object, spell: Callable[[object], str]) -> Iterator[str]:
    """Yield the text of a value bit by bit; each level opens with one, so the reader bounds the depth."""
    if isinstance(value, dict):
        yield "{"
        for index, (key, item) in enumerate(value.items()):
            yield ", " * (index > 0) + spell(key) + ": "
            yield from _pieces(item, spell)
        yield "}"
    elif isinstance(value, (list, tuple)):
        yield "["
        for index, item in enumerate(value):
            yield ", " * (index > 0)
            yield from _pieces(item, spell)
        yield "]"
    else:
        yield spell(value)


def _json(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value[: MAX_VALUE_CHARS + 1])
    if value is None or isinstance(value, (bool, float)):
        return json.dumps(value)
    return _quoted(value)


def _quoted(value: object) -> str:
    if isinstance(value, (str, bytes)):
        return repr(value[: MAX_VALUE_CHARS + 1])
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer(value)
    return _OTHERS.repr(value)


def _integer(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python refuses to spell thousands of digits
        return f"a huge {type(value).__name__}"
