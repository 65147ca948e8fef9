"""Plain YAML values as YAML 1.2 reads them.

YAML 1.1, which PyYAML follows, has surprises: `on` and `yes` are true, `1:30` is 90, `010` is 8 and
`2020-01-01` is a date. Here these are texts, except `010`, which readers disagree on and which is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from yaml.constructor import ConstructorError

from aisimulate.core.shown import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaml import Node, SafeLoader

PREFIX = "tag:yaml.org,2002:"

# name, what a whole plain value looks like, and its possible first characters
RESOLVERS = (
    ("null", re.compile(r"(~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"(true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    ("int", re.compile(r"[-+]?([0-9]+|0x[0-9a-fA-F]+)\Z"), list("-+0123456789")),
    (
        "float",
        re.compile(r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan)\Z"),
        list("-+.0123456789"),
    ),
    ("merge", re.compile(r"<<\Z"), ["<"]),
)

_MAX_DIGITS = 400


def construct_text(loader: SafeLoader, node: Node) -> str:
    """Read a text. Raises ConstructorError for one that no file could hold."""
    text = str(loader.construct_scalar(node))  # type: ignore[arg-type]  # refuses what is no scalar
    try:
        text.encode()
    except UnicodeEncodeError:
        problem = "half of a surrogate pair in a text"
        raise ConstructorError(None, None, problem, node.start_mark) from None
    return text


def construct(loader: SafeLoader, node: Node) -> Any:  # noqa: ANN401 - null, bool, int or float
    """Read a value that is no text, plain or by an explicit tag such as `!!int`.

    Raises ConstructorError naming value, rule and place.
    """
    name = node.tag.removeprefix(PREFIX)
    text = construct_text(loader, node)
    read, rule = _READERS[name]
    try:
        return read(text)
    except (ValueError, KeyError):
        raise ConstructorError(None, None, f"{show(text)} {rule}", node.start_mark) from None


def _null(text: str) -> None:
    return {"": None, "~": None, "null": None}[text.lower()]


def _bool(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(text)
    # Base 0 takes decimal and 0x, and refuses other numbers that start with 0.
    return int(text, 0)


def _float(text: str) -> float:
    return float(re.sub(r"^([-+]?)\.(inf|nan)$", r"\1\2", text.lower()))


_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "null": (_null, "is not null"),
    "bool": (_bool, "is not true or false"),
    "int": (_int, f"is not a whole number of at most {_MAX_DIGITS} digits, without a leading 0"),
    "float": (_float, "is not a number"),
}
