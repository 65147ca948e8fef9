"""Shapes that enumeration had to drop, and why: nothing disappears from a pool without a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.spica.parallel_enum import describe_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.spica.outcome import Reason
    from aisimulate.spica.parallel_enum import ParallelShape


@dataclass(frozen=True, slots=True)
class DroppedShape:
    """One shape that `role` (agg, prefill or decode) cannot use; `reason` is one line."""

    shape: ParallelShape
    role: str
    category: Reason
    reason: str


def summarise_drops(drops: Iterable[DroppedShape]) -> list[str]:
    """Give one line per reason, naming its shapes and roles, in first-seen order."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for drop in drops:
        key = (drop.category.value, drop.reason, drop.role)
        names.setdefault(key, []).append(describe_shape(drop.shape))
    roles: dict[tuple[str, str, str], list[str]] = {}
    for (category, reason, role), shapes in names.items():
        roles.setdefault((category, reason, ", ".join(shapes)), []).append(role)
    return [
        f"{' and '.join(who)} shapes {shapes} dropped: {reason} [{category}]"
        for (category, reason, shapes), who in roles.items()
    ]
