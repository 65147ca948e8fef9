"""What a stricter reader would choose: the best candidates that serve more requests within the SLA.

Goodput per GPU may be highest where the SLA is missed often, because the next GPU adds less than the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.report.numbers import number_text, share_text
from aisimulate.report.shapes import candidate_text, telling_fields
from aisimulate.spica.score import objective_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal

    Shares = Sequence[tuple[Candidate, float]]

_SHARES = (0.90, 0.95, 0.99)


def sla_share(candidate: Candidate) -> float | None:
    """Share of the requests that met the SLA, or None when the report does not say."""
    good, arrived = (candidate.metrics.get(f"{name}_requests") for name in ("goodput_completed", "num"))
    return None if good is None or not arrived else good / arrived


def attainment_lines(goal: OptimizationGoal, ranked: Sequence[Candidate]) -> list[str]:
    """Name the best candidate per share of requests within the SLA, where it is not the winner.

    Where none serves 99 %, the one that serves most comes last. Empty without an SLA, for a Pareto goal, or
    when the winner serves at least 99 % within it.
    """
    shares = [(candidate, share) for candidate in ranked if (share := sla_share(candidate)) is not None]
    if goal.is_pareto or goal.sla is None or not shares:
        return []
    highest = max(share for _, share in shares)
    if highest == 0:
        return ["no candidate serves any request within the SLA"]
    telling = telling_fields(ranked)
    lines = [_line(goal, telling, *step) for step in _steps(shares, highest)]
    if highest < _SHARES[-1]:
        lines.append(f"no candidate serves more than {share_text(highest)} within the SLA")
    return lines


def _steps(shares: Shares, highest: float) -> Shares:
    """Pick the first candidate of each share that the one before it does not reach."""
    steps = []
    reached = shares[0][1]
    for wanted in (*(share for share in _SHARES if share <= highest), min(highest, _SHARES[-1])):
        if wanted > reached:
            step = next(pair for pair in shares if pair[1] >= wanted)
            steps.append(step)
            reached = step[1]
    return steps


def _line(goal: OptimizationGoal, telling: Sequence[str], candidate: Candidate, share: float) -> str:
    value = number_text(objective_value(candidate.metrics, goal.target))
    deployment = candidate_text(candidate, telling)
    return f"{share_text(share)} within the SLA: {deployment}, {goal.target.value} {value}"
