"""Bounds of an SLA that no engine can meet, most likely because they were given in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEAST_MS = {"ttft_ms": 5.0, "itl_ms": 0.5, "e2e_ms": 5.0}


def sla_doubts(bounds: Mapping[str, float | None], path: str) -> list[str]:
    """Ask about each bound, by field, that is too small to be meant in ms; `path` is where they stand."""
    return [
        f"{path}.{name}: {value:g} ms is less than any engine takes: are these seconds?"
        for name, value in bounds.items()
        if value is not None and value < _LEAST_MS.get(name, 0.0)
    ]
