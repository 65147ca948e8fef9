"""Noticing that the times of one trace are not on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

EPOCH_MS = 1e11
"""Times from here on count from 1970 (this is 1973): no trace lasts three years."""


def scale_doubts(times: Iterable[tuple[str, float]]) -> list[str]:
    """Say where relative times and times since 1970 meet; `times` are places and ms, in file order."""
    first: tuple[str, float] | None = None
    for place, ms in times:
        if first is None:
            first = place, ms
        elif (ms >= EPOCH_MS) != (first[1] >= EPOCH_MS):
            return [
                f"{place}: {_kind(ms)} of {ms:.15g} ms, but {_kind(first[1])} of {first[1]:.15g} ms at "
                f"{first[0]}: both are taken on one clock"
            ]
    return []


def _kind(ms: float) -> str:
    return "a time since 1970" if ms >= EPOCH_MS else "a relative time"
