"""What a search would do, as text and as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.spica.finite_space import finite_size
from aisimulate.spica.plan import UNLIMITED_ROUNDS

if TYPE_CHECKING:
    from aisimulate.spica.plan import SearchPlan
    from aisimulate.spica.search_space import BranchSpace

FORMAT = "aisimulate.spica.plan"
FORMAT_VERSION = 1


def plan_lines(plan: SearchPlan) -> list[str]:
    """Describe branches, pools, dimensions, sizes and notes, one fact per line."""
    lines: list[str] = []
    for branch in plan.branches:
        lines += _branch_lines(branch, plan.policies[branch.deployment_mode])
    budget = plan.budget
    effort = f"{budget.max_rounds} rounds x {budget.per_round} per branch"
    if budget.max_rounds == UNLIMITED_ROUNDS:
        effort = f"as many rounds x {budget.per_round} as it takes"
    if budget.max_trials is not None:
        effort = f"{budget.max_trials} trials in all, {budget.per_round} per round"
    lines.append(f"budget: {effort}, at most {plan.total_measurements} measurements")
    return [*lines, *(f"note: {note}" for note in plan.notes)]


def plan_description(plan: SearchPlan) -> dict[str, Any]:
    """Describe the same as JSON-ready data."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "branches": [
            {
                "deployment_mode": branch.deployment_mode,
                "parallel_configs": len(branch.parallel_configs),
                "knobs": dict(branch.knob_choices),
                "ranges": {name: list(bounds) for name, bounds in branch.float_ranges.items()},
                "finite_size": finite_size(branch),
                "sampler": plan.policies[branch.deployment_mode],
            }
            for branch in plan.branches
        ],
        "max_measurements": plan.total_measurements,
        "notes": plan.notes,
    }


def _branch_lines(branch: BranchSpace, policy: str) -> list[str]:
    size = finite_size(branch)
    points = "a continuous space" if size is None else f"{size} points"
    lines = [
        f"branch {branch.deployment_mode}: {len(branch.parallel_configs)} parallel configs, {points}, "
        f"sampler {policy}"
    ]
    for name, choices in branch.knob_choices.items():
        verb = "pinned to" if len(choices) == 1 else "one of"
        lines.append(f"  {name}: {verb} {', '.join(map(str, choices))}")
    for name, (low, high) in branch.float_ranges.items():
        lines.append(f"  {name}: {low} to {high}")
    return lines
