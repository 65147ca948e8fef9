"""The lines below the table: the chosen configuration, what it served, how to start it, and alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from aisimulate.report.attainment import attainment_lines
from aisimulate.report.launch import launch_lines, surrounding_lines
from aisimulate.report.missed_sla import is_sla_missed, missed_lines, nearest_to_sla
from aisimulate.report.numbers import share_text
from aisimulate.spica.evaluator import REJECTION_PREFIX
from aisimulate.spica.summary import headline_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal


_TOLERATED_REJECTIONS = 0.01


def winner_lines(goal: OptimizationGoal, candidates: Sequence[Candidate]) -> list[str]:
    """Describe the best candidate; where none served a request within the SLA, the nearest to it."""
    if goal.sla is not None and is_sla_missed(goal, candidates):
        nearest = nearest_to_sla(goal.sla, candidates)
        return [*missed_lines(goal.sla, nearest), *_candidate_lines(nearest)]
    title, winner = _winner(goal, candidates)
    lines = [f"{title}:", *_candidate_lines(winner)]
    stricter = attainment_lines(goal, candidates)
    if stricter:
        lines += ["if more requests must meet the SLA:", *_indented("\n".join(stricter))]
    return lines


def _winner(goal: OptimizationGoal, candidates: Sequence[Candidate]) -> tuple[str, Candidate]:
    if not goal.is_pareto:
        return "winning configuration", candidates[0]
    target = headline_target(goal)
    sign = 1 if target.maximize else -1
    best = max(candidates, key=lambda item: sign * (item.objectives or {})[target.value])
    return f"best {target.value} of the front", best


def _candidate_lines(candidate: Candidate) -> list[str]:
    chosen = {key: value for key, value in candidate.config.items() if value is not None}
    lines = [*_indented(yaml.safe_dump(chosen, sort_keys=False)), served_text(candidate)]
    lines += [f"note: it {text}" for text in rejection_notes([candidate])]
    launch = launch_lines(candidate.config)
    if launch:
        lines += ["launch:", *_indented("\n".join([*launch, *surrounding_lines(candidate.config)]))]
    return lines


def rejection_notes(ranked: Sequence[Candidate]) -> list[str]:
    """Say of the first candidate that it rejects much of the work, which makes it look better than it is."""
    for candidate in ranked[:1]:
        rejected, arrived = (candidate.metrics.get(f"{name}_requests") for name in ("rejected", "num"))
        if rejected and arrived and rejected / arrived > _TOLERATED_REJECTIONS:
            return [
                f"rejects {share_text(rejected / arrived)} of the requests"
                f"{_reasons_text(candidate)}; its figures are of the others alone"
            ]
    return []


def served_text(candidate: Candidate) -> str:
    """Say how many requests the numbers stand for: a fleet that rejects work may look fast."""
    metrics = candidate.metrics
    completed, arrived = metrics.get("completed_requests"), metrics.get("num_requests")
    if completed is None or arrived is None:
        return "requests: not reported"
    parts = [f"requests: {completed:,.0f} of {arrived:,.0f} completed"]
    good = metrics.get("goodput_completed_requests")
    if good is not None:
        parts.append(f"{good:,.0f} within the SLA")
    if metrics.get("rejected_requests"):
        parts.append(f"{metrics['rejected_requests']:,.0f} rejected{_reasons_text(candidate)}")
    if metrics.get("unfinished_requests"):
        parts.append(f"{metrics['unfinished_requests']:,.0f} unfinished")
    return ", ".join(parts)


def _reasons_text(candidate: Candidate) -> str:
    """Name the reasons of rejections, most frequent first, with counts when there are several."""
    counts = {
        name.removeprefix(REJECTION_PREFIX): count
        for name, count in candidate.metrics.items()
        if name.startswith(REJECTION_PREFIX)
    }
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(ordered) == 1:
        return f": {ordered[0][0]}"
    return f" ({', '.join(f'{count:,.0f} {reason}' for reason, count in ordered)})" if ordered else ""


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
