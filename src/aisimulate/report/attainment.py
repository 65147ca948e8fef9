"""What a stricter reader would choose: the best candidates that serve more requests within the SLA.

Goodput per GPU may be highest where the SLA is missed often, because the next GPU adds less than the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.report.shapes import knobs_text, replicas_text, shape_text
from aisimulate.spica.score import objective_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal

_SHARES = (0.90, 0.95, 0.99)


def sla_share(candidate: Candidate) -> float | None:
    """Share of the requests that met the SLA, or None when the report does not say."""
    good, arrived = (candidate.metrics.get(f"{name}_requests") for name in ("goodput_completed", "num"))
    return None if good is None or not arrived else good / arrived


def attainment_lines(goal: OptimizationGoal, ranked: Sequence[Candidate]) -> list[str]:
    """Name the best candidate per share of requests within the SLA, where it is not the winner.

    Empty without an SLA, for a Pareto goal, or when the winner serves at least 99 % within it.
    """
    shares = [(candidate, share) for candidate in ranked if (share := sla_share(candidate)) is not None]
    if goal.is_pareto or goal.sla is None or not shares:
        return []
    lines = []
    reached = shares[0][1]
    for wanted in _SHARES:
        if wanted <= reached:
            continue
        found = next((pair for pair in shares if pair[1] >= wanted), None)
        if found is None:
            break
        reached = found[1]
        lines.append(_line(goal, *found))
    highest = max(share for _, share in shares)
    if highest < _SHARES[-1]:
        lines.append(f"no candidate serves more than {highest:.1%} within the SLA")
    return lines


def _line(goal: OptimizationGoal, candidate: Candidate, share: float) -> str:
    config, value = candidate.config, objective_value(candidate.metrics, goal.target)
    return (
        f"{share:.1%} within the SLA: {shape_text(config)} x {replicas_text(config)} on "
        f"{candidate.used_gpus} GPUs, {knobs_text(config)}, {goal.target.value} {value:,.4g}"
    )
