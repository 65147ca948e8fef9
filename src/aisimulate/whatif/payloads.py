"""Changing a replay payload without touching the original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Payload = dict[str, Any]
Path = tuple[str, ...]

TRAFFIC: Path = ("traffic",)
STAGES = ("prefill", "decode")


def whole_payload(payload: Mapping[str, Any]) -> Payload:
    """Give a payload as `{"spec": ..., "traffic": ...}`, each stage of a pair with settings of its own.

    The payload must have been accepted by `parse_payload`.
    """
    whole = dict(payload) if "spec" in payload else {"spec": dict(payload)}
    engine = whole["spec"].get("engine") or {}
    if whole["spec"]["topology"]["kind"] == "disaggregated":
        flat = {name: value for name, value in engine.items() if name not in STAGES}
        own = {stage: engine.get(stage) or flat for stage in STAGES}
        return put(whole, ("spec", "engine"), {**engine, **own})
    return put(whole, ("spec", "engine"), engine)


def stages_of(payload: Payload) -> tuple[str, ...]:
    """List the pools: `agg`, or `prefill` and `decode`."""
    return STAGES if payload["spec"]["topology"]["kind"] == "disaggregated" else ("agg",)


def role_path(stage: str) -> Path:
    """Say where the settings of a stage's workers stand."""
    return ("spec", "engine") if stage == "agg" else ("spec", "engine", stage)


def rank_path(stage: str) -> Path:
    """Say where the settings of a stage's ranks stand."""
    return (*role_path(stage), "rank")


def pool_path(stage: str) -> Path:
    """Say where the number of a stage's workers stands."""
    return ("spec", "topology", "workers" if stage == "agg" else stage)


def get(payload: Mapping[str, Any], path: Path) -> Any:  # noqa: ANN401 - what a payload holds
    """Give the value at a path; None where there is none."""
    value: Any = payload
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def put(payload: Mapping[str, Any], path: Path, value: object) -> Payload:
    """Return a copy with another value at a path."""
    name, *rest = path
    if not rest:
        return {**payload, name: value}
    inner = payload.get(name)
    return {**payload, name: put(inner if isinstance(inner, Mapping) else {}, tuple(rest), value)}
