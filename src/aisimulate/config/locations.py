"""Follow a pydantic error location through model classes: which parts are fields, and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel


def follow(loc: tuple[int | str, ...], model: type[BaseModel]) -> tuple[list[str], list[Any]]:
    """Return the parts of `loc` to show, and the types found at its end.

    Pydantic puts union tags into locations; they name no field and are not shown. For an unknown field
    the types are those of the object that holds it.
    """
    path: list[str] = []
    types: list[Any] = [model]
    for part in loc:
        if _is_tag(part, types):
            types = [member for member in types if part in _all_tags(member)]
            continue
        path.append(f"[{part}]" if isinstance(part, int) else str(part))
        types = _step(types, part) or types
    return path, types


def field_names(types: list[Any]) -> list[str]:
    """List the legal field names of the models among `types`, aliases last."""
    models = [kind for kind in types if _is_model(kind)]
    names = [name for model in models for name in model.model_fields]
    return names + [alias for model in models for alias in getattr(model, "field_aliases", ())]


def literal_values(types: list[Any]) -> list[object]:
    """List the values of the `Literal` types among `types`."""
    return [value for kind in types if get_origin(kind) is Literal for value in get_args(kind)]


def tag_values(types: list[Any], field: str) -> list[object]:
    """List the values that `field` may take in the models among `types`."""
    return [tag for kind in types if _is_model(kind) for tag in _tags(kind, field)]


def _step(types: list[Any], part: int | str) -> list[Any]:
    found: list[Any] = []
    for kind in types:
        if _is_model(kind):
            found += [kind.model_fields[part].annotation] if part in kind.model_fields else []
        elif get_origin(kind) in (dict, Mapping):
            found.append(get_args(kind)[1])
        elif isinstance(part, int):
            found += [item for item in get_args(kind) if item is not Ellipsis]
    return [member for kind in found for member in _members(kind)]


def _members(kind: object) -> list[Any]:
    """Flatten Annotated, unions and optionals to the types a value may have."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _members(get_args(kind)[0])
    if origin in (Union, UnionType):
        return [member for item in get_args(kind) for member in _members(item)]
    return [] if kind is NoneType else [kind]


def _is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _tags(model: type[BaseModel], field: str) -> list[object]:
    if field not in model.model_fields:
        return []
    return literal_values(_members(model.model_fields[field].annotation))


def _all_tags(kind: object) -> list[object]:
    if not _is_model(kind):
        return []
    return [tag for field in kind.model_fields for tag in _tags(kind, field)]


def _is_tag(part: int | str, types: list[Any]) -> bool:
    """Whether a location part is a union tag: several models to choose from, and none has such a field."""
    if len(types) < 2 or part in field_names(types):
        return False
    return any(part in _all_tags(kind) for kind in types)
