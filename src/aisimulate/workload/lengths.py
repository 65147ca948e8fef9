"""Reader of plain lists of lengths, as made from ShareGPT: JSON Lines, or one JSON array, of objects."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.workload.flat import Request, flat_trace
from aisimulate.workload.json_array import array_items
from aisimulate.workload.jsonl import Row, UnknownFields, parse_line
from aisimulate.workload.limits import MAX_INSTANT_MS, MAX_TOKENS
from aisimulate.workload.lines import text_lines
from aisimulate.workload.problems import wrong_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from aisimulate.workload.loaded import LoadedTrace

_PROMPT = ("prompt_len", "prompt_length", "prompt_tokens", "input_len", "input_length", "input_tokens")
_OUTPUT = ("output_len", "output_length", "output_tokens", "completion_tokens")
_MS, _SECONDS = "arrival_ms", "arrival_s"


def read_lengths(path: Path) -> LoadedTrace:
    """Read a list into independent requests, ordered by arrival where they have one.

    Raises InputError naming file, line, field, value and rule.
    """
    unknown = UnknownFields(path, (*_PROMPT, *_OUTPUT, _MS, _SECONDS))
    requests = []
    for number, read in _items(path):
        try:
            row = Row(path, number, read())
            unknown.look(row)
            requests.append(_request(row))
        except InputError as error:
            wrong_row(error)
    return flat_trace(path, requests, unknown.notes())


def _items(path: Path) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Yield the line of each item, and what gives its value."""
    lines = text_lines(path)
    start, first = next(lines)
    if first.lstrip().startswith(b"["):
        for number, value in array_items(path, start, first + b"".join(_padded(lines, start))):
            yield number, partial(_same, value)
        return
    for number, line in chain([(start, first)], lines):
        yield number, partial(parse_line, path, number, line)


def _same(value: object) -> object:
    return value


def _padded(lines: Iterator[tuple[int, bytes]], last: int) -> Iterator[bytes]:
    """Give the rest of a file with its blank lines, so that positions tell physical lines."""
    for number, line in lines:
        yield b"\n" * (number - last - 1) + line
        last = number


def _request(row: Row) -> Request:
    prompt = row.whole(*_PROMPT, low=1, high=MAX_TOKENS)
    if prompt is None:
        raise row.error(f"{_PROMPT[0]} is missing")
    output = row.whole(*_OUTPUT, low=0, high=MAX_TOKENS)
    if output is None:
        raise row.error(f"{_OUTPUT[0]} is missing")
    return Request(row.line, _arrival_ms(row), prompt, output)


def _arrival_ms(row: Row) -> float | None:
    name, value = row.value(_MS, _SECONDS)
    if value is None:
        return None
    scale = 1000.0 if name == _SECONDS else 1.0
    arrival = row.number(name, limit=MAX_INSTANT_MS / scale) or 0.0
    if arrival < 0:
        raise row.error(f"{name} {arrival:g}: must not be negative")
    return arrival * scale
