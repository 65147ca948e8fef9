"""Keys of suggestions, so that equal deployments share one replay (spec 05 D4)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aisimulate.spica.samplers.base import Suggestion


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON-like value
    """Return the SHA-256 of a value's canonical JSON (sorted keys, no spaces, no non-finite numbers)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _fields_of(value: Any) -> Any:  # noqa: ANN401 - a field's value
    """Return the fields of nested dataclasses, without the copies of values that `asdict` makes."""
    if not dataclasses.is_dataclass(value):
        return value
    return {item.name: _fields_of(getattr(value, item.name)) for item in dataclasses.fields(value)}


def point_key(suggestion: Suggestion) -> str:
    """Key of a suggestion that has no deployment plan: what was selected, not what it would run."""
    point = [suggestion.selection, _fields_of(suggestion.parallel_config)]
    try:
        return "point:" + digest(point)
    except (TypeError, ValueError):  # values that no JSON text can hold, from a sampler of someone else's
        return "point:" + hashlib.sha256(repr(point).encode(errors="backslashreplace")).hexdigest()
