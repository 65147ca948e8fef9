"""`--set PATH=VALUE`: values of a file that are replaced for one call, before it is validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from aisimulate.config.yaml_file import read_yaml_text
from aisimulate.core.errors import InputError
from aisimulate.core.shown import cut

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

_OPTION = "--set"


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """Add the option to a command."""
    parser.add_argument(
        _OPTION,
        dest="overrides",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="replace a value of the file, such as sweep.max_rounds=3 or search_space.backend=[vllm,sglang]; "
        "the value is YAML, null removes; may be given again",
    )


def with_overrides(document: object, overrides: Iterable[str]) -> object:
    """Return a copy of a document with its overrides; what they mean is checked with the document.

    Raises:
        InputError: an override has no path or value, or leads through something that holds no fields.
    """
    for override in overrides:
        path, equals, text = override.partition("=")
        names = path.strip().split(".")
        if not equals or not all(names):
            raise InputError(f"{_OPTION} {cut(override)!r}: expected PATH=VALUE, such as sweep.max_rounds=3")
        document = _replaced(document, names, _value(path, text), path)
    return document


def _value(path: str, text: str) -> object:
    try:
        return read_yaml_text(text)
    except yaml.YAMLError as error:
        raise InputError(f"{_OPTION} {path}: the value is no YAML: {' '.join(str(error).split())}") from error


def _replaced(document: object, names: list[str], value: object, path: str) -> object:
    name, *rest = names
    if document is None:
        document = {}
    if isinstance(document, list):
        return _replaced_item(document, name, rest, value, path)
    if not isinstance(document, Mapping):
        raise InputError(f"{_OPTION} {path}: there are no fields below {cut(repr(document))}, only a value")
    fields: dict[Any, Any] = dict(document)
    if rest:
        fields[name] = _replaced(fields.get(name), rest, value, path)
    elif value is None:
        fields.pop(name, None)
    else:
        fields[name] = value
    return fields


def _replaced_item(items: list[Any], name: str, rest: list[str], value: object, path: str) -> list[Any]:
    place = int(name) if name.isascii() and name.isdecimal() and len(name) < 9 else -1
    if not 0 <= place < len(items):
        raise InputError(f"{_OPTION} {path}: a list of {len(items)} has no item {name!r}; items count from 0")
    item = _replaced(items[place], rest, value, path) if rest else value
    return [*items[:place], item, *items[place + 1 :]]
