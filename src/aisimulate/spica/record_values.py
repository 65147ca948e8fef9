"""What the rows of a record may hold, so that one edited by hand is told by name and never used."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from aisimulate.core.errors import nearest
from aisimulate.core.shown import cut
from aisimulate.spica.parallel_enum import BACKENDS, ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SHAPE_FIELDS = ("tp", "pp", "attention_dp", "moe_tp", "moe_ep", "replicas")
_ENGINE_COUNTS = ("max_num_batched_tokens", "max_num_seqs", "block_size")
_COUNTS = frozenset(
    [prefix + name for prefix in ("", "prefill_", "decode_") for name in _SHAPE_FIELDS]
    + [f"{role}_{name}" for role in ("agg", "prefill", "decode") for name in _ENGINE_COUNTS]
    + ["context_length", "concurrency"]
)
_NAMES: dict[str, Iterable[str]] = {"deployment_mode": tuple(ROLES), "backend": BACKENDS}
_MOST = 2**53  # the whole numbers that every reader of JSON keeps exactly


def read_json(text: object) -> Any:  # noqa: ANN401 - anything JSON holds
    """Read the JSON of a row. Raises ValueError, also for numbers that are not finite."""
    if not isinstance(text, str):
        raise ValueError(f"expected a text, got {_shown(text)}")
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite_float)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no finite number")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{cut(text)} is {value}")
    return value


def check_row(**columns: tuple[object, type]) -> None:
    """Hold columns against their kinds, which SQLite does not. Raises ValueError."""
    for name, (value, kind) in columns.items():
        if not isinstance(value, kind):
            raise ValueError(f"{name} is {_shown(value)}")


# The facts of a run ------------------------------------------------------------------------------------


def read_fact(name: str, text: object) -> Any:  # noqa: ANN401 - anything JSON holds
    """Read a fact of a run. Raises ValueError for one of another kind than this program writes."""
    value = read_json(text)
    if name in _FACTS:
        what, is_right = _FACTS[name]
        if not is_right(value):
            raise ValueError(f"expected {what}, got {_shown(value)}")
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values())


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


_FACTS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "asked": ("a configuration", _is_mapping),
    "config": ("a configuration", _is_mapping),
    "config_sha256": ("a text", _is_text),
    "trace_sha256": ("a text or null", lambda value: value is None or _is_text(value)),
    "versions": ("versions by name", _is_texts),
    "backend_versions": ("versions by name", _is_texts),
    "seed": ("a whole number", lambda value: type(value) is int),
    "status": ("a text", _is_text),
    "first_origins": ("a text", _is_text),
}


# Configurations of candidates ---------------------------------------------------------------------------


def check_mapping(name: str, value: object) -> dict[str, Any]:
    """Give a mapping back. Raises ValueError for anything else."""
    if not isinstance(value, dict):
        raise ValueError(f"{name}: expected a mapping, got {_shown(value)}")
    return value


def check_numbers(name: str, value: object) -> dict[str, float]:
    """Give a mapping of numbers back. Raises ValueError for anything else."""
    numbers = check_mapping(name, value)
    for key, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or abs(number) > 1e300:
            raise ValueError(f"{name}.{key}: expected a number, got {_shown(number)}")
    return numbers


def check_sample(name: str, sample: object) -> dict[str, Any]:
    """Give an unrolled sample back, which may lack fields.

    Raises ValueError for sizes and counts that are none, and for names that this program does not know.
    """
    fields = check_mapping(name, sample)
    for field, value in fields.items():
        if field in _COUNTS and value is not None and not _is_count(value, 1):
            raise ValueError(f"{name}.{field}: expected a whole number >= 1, got {_shown(value)}")
        if field in _NAMES and value not in tuple(_NAMES[field]):
            known = _NAMES[field]
            rule = f"is not one of {', '.join(known)}{nearest(str(value), known)}"
            raise ValueError(f"{name}.{field}: {_shown(value)} {rule}")
    if fields.get("used_gpus") is not None and not _is_count(fields["used_gpus"], 0):
        raise ValueError(f"{name}.used_gpus: expected a whole number, got {_shown(fields['used_gpus'])}")
    return fields


def _is_count(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= _MOST


def _shown(value: object) -> str:
    return cut(repr(value), 80)
