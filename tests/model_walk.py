"""Which pydantic models a configuration can hold."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel


def models_below(*roots: type[BaseModel]) -> set[type[BaseModel]]:
    """Collect every model that can be written inside the roots, the roots included."""
    found: set[type[BaseModel]] = set()
    waiting: list[Any] = list(roots)
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            if kind not in found:
                found.add(kind)
                waiting += [info.annotation for info in kind.model_fields.values()]
        else:
            waiting += get_args(kind)
    return found
