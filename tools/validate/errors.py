"""Errors of many runs in three numbers: mean and median of their size, and the signed median."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors (simulated / measured - 1): `mape` and `med` of their sizes, `sgn` with sign."""

    count: int
    mape: float
    med: float
    sgn: float

    @classmethod
    def of(cls, errors: Iterable[float]) -> Errors | None:
        """Sum up; None when there is nothing."""
        values = list(errors)
        if not values:
            return None
        sizes = [abs(value) for value in values]
        return cls(len(values), fmean(sizes), median(sizes), median(values))

    def __str__(self) -> str:
        return f"{self.mape:.1%} / {self.med:.1%} / {self.sgn:+.1%}"
