"""Rules of pinned `parallel_configs` entries that need no model data (spec 05 section 1.5, D3)."""

from __future__ import annotations

from typing import Any

from aisimulate.core.errors import nearest
from aisimulate.core.shown import show_python
from aisimulate.spica.parallel_enum import ROLES

PIN_KEYS = ("tp", "attention_dp", "moe_tp", "moe_ep", "pp", "replicas")
_PAIR = ROLES["disagg"]


def check_pins(entries: list[Any], modes: list[str]) -> list[dict[str, Any]]:
    """Check pinned entries against the deployment mode; integral floats become whole numbers.

    Raises ValueError that names the entry's index, the offending key and the rule.
    """
    if not entries:
        return []
    if len(modes) != 1:
        raise ValueError(f"parallel_configs needs exactly one mode in deployment_mode, got {modes}")
    check = _agg_pin if modes[0] == "agg" else _disagg_pin
    return [check(f"parallel_configs[{index}]", entry) for index, entry in enumerate(entries)]


def _agg_pin(where: str, entry: object) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise ValueError(f"{where} must be a dict, got {show_python(entry)}")
    return _pool(where, entry)


def _disagg_pin(where: str, entry: object) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise ValueError(f"{where} must be a dict with prefill and decode, got {show_python(entry)}")
    if not entry.keys() >= set(_PAIR):
        raise ValueError(
            f"{where} of a disagg deployment needs both prefill and decode, got {show_python(list(entry))}"
        )
    _refuse_unknown(where, entry, _PAIR)
    return {role: _role_pool(where, role, entry[role]) for role in _PAIR}


def _role_pool(where: str, role: str, pool: object) -> dict[str, int]:
    if not isinstance(pool, dict):
        raise ValueError(f"{where}: {role} must be a dict, got {show_python(pool)}")
    return _pool(f"{where}: {role}", pool)


def _pool(where: str, pool: dict[Any, Any]) -> dict[str, int]:
    if "tp" not in pool:
        raise ValueError(f"{where} needs a 'tp' field, got {show_python(list(pool))}")
    _refuse_unknown(where, pool, PIN_KEYS)
    return {key: _size(where, key, value) for key, value in pool.items()}


def _refuse_unknown(where: str, entry: dict[Any, Any], legal: tuple[str, ...]) -> None:
    for key in entry:
        if key not in legal:
            rule = f"allowed: {list(legal)}{nearest(str(key), legal)}"
            raise ValueError(f"{where} has the unknown key {show_python(key)}; {rule}")


def _size(where: str, key: str, value: object) -> int:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1 and value % 1 == 0:
        return int(value)
    raise ValueError(f"{where}: {key} must be a whole number >= 1, got {show_python(value)}")
