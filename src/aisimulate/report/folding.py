"""Candidates that measured exactly the same are one row: a limit that is never reached changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.report.shapes import replicas_text, shape_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.spica.config import Candidate


@dataclass(slots=True)
class Fold:
    """The first of several equal candidates, and how many follow it."""

    candidate: Candidate
    others: int = 0


def fold(candidates: Iterable[Candidate]) -> list[Fold]:
    """Merge candidates of the same workers and the same metrics; order of first appearance."""
    folds: dict[tuple[object, ...], Fold] = {}
    for candidate in candidates:
        workers = (shape_text(candidate.config), replicas_text(candidate.config))
        key = (*workers, *sorted(candidate.metrics.items()))
        if key in folds:
            folds[key].others += 1
        else:
            folds[key] = Fold(candidate)
    return list(folds.values())
