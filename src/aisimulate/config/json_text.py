"""Strict JSON: what other readers take silently (duplicate keys, NaN, numbers out of range) is refused."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

from aisimulate.config.messages import label, show
from aisimulate.core.errors import InputError
from aisimulate.core.shown import cut

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(:?)|[-+.\w]+', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89abAB]")

_CONTAINERS = (dict, list)

MAX_DEPTH = 100
"""Deepest nesting of objects and lists."""


def read_json(text: str, name: str) -> Any:  # noqa: ANN401 - any JSON value
    """Parse `text`; raise a one-line `InputError` that starts with `name` and tells the position."""
    try:
        text.encode()
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
        )
        if _SURROGATE.search(text):
            _check_unicode(value)
        if _is_deep(value):
            raise RecursionError
        return value
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise InputError(f"{name} is not JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise InputError(f"{name} is not usable JSON: nested more than {MAX_DEPTH} deep") from None
    except UnicodeEncodeError:
        raise InputError(f"{name} is not usable JSON: half of a surrogate pair in a string") from None
    except _RefusedNumber as refused:
        raise InputError(f"{name}: {_locate(text, str(refused))}") from None
    except _RefusedKey as refused:
        raise InputError(f"{name}: duplicate key {show(str(refused))}") from None


class _RefusedNumber(Exception):
    """Raised by the hooks with the literal; its place is then looked for."""


class _RefusedKey(Exception):
    """Raised by the hooks with a key that occurs twice in one object."""


def _locate(text: str, literal: str) -> str:
    """Say that a number is refused, where it stands, and under which key."""
    key, place = "", ""
    for token in _TOKEN.finditer(text):
        if token.group() == literal:
            line = text.count("\n", 0, token.start()) + 1
            column = token.start() - text.rfind("\n", 0, token.start())
            place = f" at line {line} column {column}"
            break
        if token.group(1) is not None:
            key = f"{label(token.group(1))}: " if token.group(2) else ""
    return f"{key if place else ''}{cut(literal, 40)} is not a finite JSON number{place}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise _RefusedKey(next(key for key, count in counts.items() if count > 1))
    return result


def _constant(literal: str) -> NoReturn:
    raise _RefusedNumber(literal)


def _float(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise _RefusedNumber(literal)
    return value


def _int(literal: str) -> int:
    # Python refuses to parse integers of thousands of digits; no field takes one anyway.
    if len(literal) > 400:
        raise _RefusedNumber(literal)
    return int(literal)


def _is_deep(value: object) -> bool:
    """Whether objects and lists are nested deeper than the limit."""
    level: list[Any] = [value] * (type(value) in _CONTAINERS)
    for _ in range(MAX_DEPTH):
        parts = [part.values() if isinstance(part, dict) else part for part in level]
        level = [item for part in parts for item in part if type(item) in _CONTAINERS]
    return bool(level)


def _check_unicode(value: object) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            key.encode()
            _check_unicode(item)
    elif isinstance(value, list):
        for item in value:
            _check_unicode(item)
    elif isinstance(value, str):
        value.encode()
