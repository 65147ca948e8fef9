"""Which candidates a search reports, in which order: those whose figures come from a whole replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.replay.parts import EARLY_STOP_KEY, FIRST_SESSIONS_KEY
from aisimulate.spica.score import pareto_front, rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal


def was_short(candidate: Candidate) -> bool:
    """Whether the figures of a candidate come from a part of the replay."""
    return EARLY_STOP_KEY in candidate.metrics or FIRST_SESSIONS_KEY in candidate.metrics


def reported(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out those that were replayed in part, unless a search that ended early has no others."""
    full = [candidate for candidate in candidates if not was_short(candidate)]
    return full or list(candidates)


def answer(candidates: Sequence[Candidate], goal: OptimizationGoal) -> list[Candidate]:
    """Rank the candidates that a search reports, or give their front."""
    found = reported(candidates)
    return pareto_front(found, goal.targets) if goal.is_pareto else rank(found)
