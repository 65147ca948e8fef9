"""What to tell when a goodput goal has no winner, because no candidate served a request within the SLA."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aisimulate.report.attainment import sla_share
from aisimulate.spica.score import objective_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal, OptimizationTarget, SLATarget

# bound of the SLA -> (its name, the metric that is compared with it)
_MEANS = {
    "ttft_ms": ("TTFT", "mean_ttft_ms"),
    "itl_ms": ("ITL", "mean_itl_ms"),
    "e2e_ms": ("e2e", "mean_e2e_latency_ms"),
}


def goodput_targets(goal: OptimizationGoal) -> list[OptimizationTarget]:
    """List what a goal counts within the SLA: itself, or those of its Pareto objectives that do."""
    return [target for target in goal.targets if target.needs_sla]


def is_sla_missed(goal: OptimizationGoal, candidates: Sequence[Candidate]) -> bool:
    """Whether the goal counts goodput and no candidate (or none of the front) has any."""
    targets = goodput_targets(goal)
    return bool(targets) and not any(
        sla_share(candidate) or any(objective_value(candidate.metrics, target) for target in targets)
        for candidate in candidates
    )


def nearest_to_sla(sla: SLATarget, candidates: Sequence[Candidate]) -> Candidate:
    """Pick the candidate whose worst mean, relative to its bound, is smallest; the first of equal ones."""
    return min(candidates, key=lambda candidate: _worst_ratio(sla, candidate))


def missed_lines(sla: SLATarget, nearest: Candidate) -> list[str]:
    """Say that no candidate meets the SLA, and how far off the nearest one is."""
    bounds = ", ".join(f"{field}: {_bound_text(bound)}" for field, bound in _bounds(sla).items())
    means = ", ".join(
        f"mean {_MEANS[field][0]} {_mean_text(nearest, field)} of {_bound_text(bound)} ms"
        for field, bound in _bounds(sla).items()
    )
    return [
        f"no candidate meets the SLA ({bounds}): none serves a single request within it",
        f"nearest to the SLA ({means}):",
    ]


def _bounds(sla: SLATarget) -> dict[str, float]:
    fields = {field: getattr(sla, field) for field in _MEANS}
    return {field: bound for field, bound in fields.items() if bound is not None}


def _worst_ratio(sla: SLATarget, candidate: Candidate) -> float:
    """The largest of mean / bound; infinite where a mean is missing."""
    return max(
        candidate.metrics.get(_MEANS[field][1], math.inf) / bound for field, bound in _bounds(sla).items()
    )


def _mean_text(candidate: Candidate, field: str) -> str:
    mean = candidate.metrics.get(_MEANS[field][1])
    return "-" if mean is None else f"{mean:,.1f}"


def _bound_text(bound: float) -> str:
    return f"{bound:,.10g}"
