"""What the rows of a record may hold, so that one edited by hand is told by name and never used."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

from aisimulate.core.errors import nearest
from aisimulate.core.shown import cut
from aisimulate.spica.deploy import DISK_FIELDS, OFFLOAD_FIELDS
from aisimulate.spica.parallel_enum import BACKENDS, ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SHAPE_FIELDS = ("tp", "pp", "attention_dp", "moe_tp", "moe_ep", "replicas")
_ENGINE_COUNTS = ("max_num_batched_tokens", "max_num_seqs", "block_size")
_COUNTS = frozenset(
    [prefix + name for prefix in ("", "prefill_", "decode_") for name in _SHAPE_FIELDS]
    + [f"{role}_{name}" for role in ("agg", "prefill", "decode") for name in _ENGINE_COUNTS]
    + ["used_gpus", "gpu_budget"]
)
_OPTIONAL_COUNTS = frozenset({"context_length", "concurrency"})
_TEXTS = frozenset({"model_name", "hardware_sku", "backend_version", "router_mode"})
_POLICIES = frozenset({"planner_scaling_policy"})  # a name, or an own one with its settings
_NUMBERS = frozenset(
    [f"{role}_gpu_memory_utilization" for role in ("agg", "prefill", "decode")]
    + ["aic_nextn", "startup_time", "kv_load_ratio"]
    + [name for name in (*OFFLOAD_FIELDS, *DISK_FIELDS) if name != "g3_scope"]
)
_NAMES: dict[str, Iterable[str]] = {"deployment_mode": tuple(ROLES), "backend": BACKENDS}
_MOST = 2**53  # the whole numbers that every reader of JSON keeps exactly
_LARGEST = 1e100  # no figure comes near, and its square is still a number


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
    "model_sha256": ("a text or null", lambda value: value is None or _is_text(value)),
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
        if not _is_number(number):
            raise ValueError(f"{name}.{key}: expected a number, got {_shown(number)}")
    return numbers


def check_sample(name: str, sample: object) -> dict[str, Any]:
    """Give an unrolled sample back, which may lack fields.

    Raises ValueError for sizes and counts that are none, and for names that this program does not know.
    """
    fields = check_mapping(name, sample)
    for field, value in fields.items():
        rule = _broken_rule(field, value)
        if rule:
            raise ValueError(f"{name}.{field}: {rule}")
    return fields


def _broken_rule(field: str, value: object) -> str:
    """Say which rule of its field a value breaks; empty for none."""
    if field in _NAMES and value not in tuple(_NAMES[field]):
        known = _NAMES[field]
        return f"{_shown(value)} is not one of {', '.join(known)}{nearest(str(value), known)}"
    if field in _COUNTS or (field in _OPTIONAL_COUNTS and value is not None):
        least = 0 if field == "used_gpus" else 1
        return "" if _is_count(value, least) else f"expected a whole number >= {least}, got {_shown(value)}"
    if field in _TEXTS and not isinstance(value, str):
        return f"expected a text, got {_shown(value)}"
    if field in _POLICIES and not isinstance(value, str | dict):
        return f"expected a name or a mapping, got {_shown(value)}"
    may_lack = value is None and "memory" not in field
    if field in _NUMBERS and not may_lack and not (_is_number(value) and value >= 0):
        return f"expected a number >= 0, got {_shown(value)}"
    return ""


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_count(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= _MOST


def _shown(value: object) -> str:
    return cut(repr(value), 80)
