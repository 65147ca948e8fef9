"""Which entries of a report are numbers."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_number(value: object) -> TypeGuard[Real]:
    """Whether a value is a real number; a boolean is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def numeric_entries(report: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the entries of a report that are numbers, order and values unchanged."""
    return {name: value for name, value in report.items() if is_number(value)}


def as_float(value: Real) -> float:
    """Turn a number into a float; an integer beyond every float becomes infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
