"""Turn a pydantic error into one line a user can act on: path, value, rule, nearest legal name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from aisimulate.config.base import FieldError
from aisimulate.config.locations import field_names, follow, literal_values, tag_values
from aisimulate.core.errors import InputError, nearest
from aisimulate.core.shown import MAX_VALUE_CHARS, cut, show, visible

__all__ = ["choices", "label", "not_one_of", "one_line", "parse_model", "quoted", "show"]

Model = TypeVar("Model", bound=BaseModel)

_MAX_OTHERS = 3
_EXPECTED = {
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "finite",
    "bool_type": "true or false",
    "string_type": "a string",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_BOUNDS = {
    "greater_than": (">", "gt"),
    "greater_than_equal": (">=", "ge"),
    "less_than": ("<", "lt"),
    "less_than_equal": ("<=", "le"),
}


def parse_model(model: type[Model], value: object, root: str) -> Model:
    """Validate `value` as `model`; raise a one-line `InputError` whose paths start with `root`."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InputError(one_line(error, root, model)) from None


def one_line(error: ValidationError, root: str, model: type[BaseModel]) -> str:
    """Describe the most telling problem of `error` in one line, count the others and name some.

    `model` is the class that was validated: it knows the legal names at each path. An unknown field is
    told first, because the misspelling of a required field is also reported as missing.
    """
    problems = error.errors(include_url=False)
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    others = [problem for problem in problems if problem is not first]
    return visible(_describe(first, root, model) + _others(others, root, model))


def label(key: str) -> str:
    """Spell a key of the input for a path: as it is, or quoted when it would not stay on one line."""
    part = key[: MAX_VALUE_CHARS + 1]
    return cut(part if part and part.isprintable() else repr(part))


def quoted(name: str) -> str:
    """Put an authored name into double quotes, on one line."""
    return cut(json.dumps(name[: MAX_VALUE_CHARS + 1]))


def choices(names: Sequence[object]) -> str:
    """List legal names for a message, in their given order: `'a', 'b'`."""
    return ", ".join(show(name) for name in names)


def not_one_of(value: object, legal: Sequence[object]) -> str:
    """Say that `value` is none of the `legal` names, and which is nearest."""
    rule = f"is not {show(legal[0])}" if len(legal) == 1 else f"is not one of {choices(legal)}"
    hint = nearest(value, [str(name) for name in legal]) if isinstance(value, str) else ""
    return f"{show(value)} {rule}{hint}"


def _others(problems: list[ErrorDetails], root: str, model: type[BaseModel]) -> str:
    """Count further problems in parentheses, with the paths of the first few."""
    if not problems:
        return ""
    places = dict.fromkeys(_place(problem, root, model)[0] for problem in problems)
    named = [place for place in places if place]
    listed = ", ".join(named[:_MAX_OTHERS]) + ", ..." * (len(named) > _MAX_OTHERS)
    return f" (and {len(problems)} more: {listed})" if named else f" (and {len(problems)} more)"


def _describe(problem: ErrorDetails, root: str, model: type[BaseModel]) -> str:
    where, types = _place(problem, root, model)
    text = _problem(problem, types)
    return f"{where}: {text}" if where else text


def _place(problem: ErrorDetails, root: str, model: type[BaseModel]) -> tuple[str, list[Any]]:
    """Spell the path of the field at fault, and list the types that are legal there."""
    path, types = follow(problem["loc"], model)
    cause = problem.get("ctx", {}).get("error")
    field = [cause.field] if isinstance(cause, FieldError) else []
    where = ".".join([root] * bool(root) + [label(part) for part in path] + field)
    return where.replace(".[", "["), types


def _problem(problem: ErrorDetails, types: list[Any]) -> str:
    kind, value = problem["type"], problem["input"]
    context: dict[str, Any] = problem.get("ctx", {})
    if kind == "missing":
        return "missing (required)"
    if kind == "extra_forbidden":
        return f"unknown field{nearest(str(problem['loc'][-1]), field_names(types))}"
    if kind in _EXPECTED:
        return f"{show(value)} is not {_EXPECTED[kind]}"
    if kind in _BOUNDS:
        sign, key = _BOUNDS[kind]
        return f"{show(value)} is not {sign} {_bound(context[key])}"
    if kind == "literal_error":
        return not_one_of(value, literal_values(types))
    if kind.startswith("union_tag"):
        return _tag_problem(context, types)
    return str(context.get("error") or f"{show(value)}: {problem['msg']}")


def _bound(limit: float) -> str:
    return str(int(limit)) if limit == int(limit) else str(limit)


def _tag_problem(context: dict[str, Any], types: list[Any]) -> str:
    field = str(context["discriminator"]).strip("'")
    legal = tag_values(types, field)
    if "tag" not in context:
        return f"field {field!r} is missing (one of {choices(legal)})"
    return f"{field} {not_one_of(context['tag'], legal)}"
