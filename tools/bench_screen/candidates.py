"""Random deployments of small searches, and what replays say of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.evaluate import Prepared, measure, prepare
from aisimulate.spica.plan import plan_search
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.samplers.random_sampler import RandomSampler
from aisimulate.spica.screen.branch_screen import BranchScreen
from aisimulate.spica.screen.columns import unknown
from aisimulate.spica.search import _context

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aisimulate.spica.evaluate import EvaluationContext
    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.plan import SearchPlan
    from aisimulate.spica.screen.columns import EstimateColumns
    from aisimulate.spica.search_space import BranchSpace


@dataclass(frozen=True, slots=True)
class Problem:
    """One search: its plan, what measures its candidates, and its screen."""

    name: str
    plan: SearchPlan
    context: EvaluationContext
    screen: BranchScreen


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate and what its replay reported, in how many CPU seconds."""

    selection: Mapping[str, Any]
    parallel_config: ParallelConfig
    metrics: Mapping[str, float]
    cpu_s: float
    prepared: Prepared


def problem(
    name: str, space: dict[str, Any], workload: dict[str, Any], goal: dict[str, Any] | None = None
) -> Problem:
    """Set up a search of fixed fleets; what the space does not say is as in any search."""
    fixed = {"router_mode": ["round_robin"], "planner_scaling_policy": ["disabled"]}
    config = SmartSearchConfig(
        search_space=fixed | space,
        workload=workload,
        goal=goal or {"target": "pareto"},
        sweep={"early_stop": "off"},
    )
    plan = plan_search(config)
    context = _context(plan, None, check=False)
    screen = BranchScreen(plan.config, context.backend_versions, plan.model_context_tokens)
    return Problem(name, plan, context, screen)


def random_points(branch: BranchSpace, seed: int) -> Iterator[Suggestion]:
    """Draw deployments; loads half evenly over their range, half by factors."""
    sampler, rng = RandomSampler(branch, seed=seed), np.random.default_rng(seed)
    while suggestions := sampler.suggest(1):
        (suggestion,) = suggestions
        selection = dict(suggestion.selection)
        for name, (low, high) in branch.float_ranges.items():
            by_factors = high * (max(low, 0.002) / high) ** rng.random()
            selection[name] = by_factors if rng.random() < 0.5 else selection[name]
        yield Suggestion(selection, suggestion.parallel_config)


def measured(asked: Problem, each: int, seed: int) -> list[Measured]:
    """Replay `each` random candidates of every deployment mode that can run."""
    found: list[Measured] = []
    for branch in asked.plan.branches:
        replays = (replayed(asked, point) for point in random_points(branch, seed))
        found += islice(filter(None, replays), each)
    return found


def estimated(asked: Problem, done: Sequence[Measured]) -> EstimateColumns:
    """Estimate candidates without their replays, all of one deployment mode at a time."""
    found = unknown(np.zeros(len(done), dtype=np.int64))
    modes = np.array([each.selection["deployment_mode"] for each in done])
    for mode in dict.fromkeys(modes.tolist()):
        rows = np.flatnonzero(modes == mode)
        points = [(done[row].selection, done[row].parallel_config) for row in rows.tolist()]
        found.put(rows, asked.screen.estimate(points))
    return found


def replayed(asked: Problem, point: Suggestion, *, short: bool = False) -> Measured | None:
    """Replay one candidate, in part if that is enough; None when it cannot run."""
    prepared = prepare(point, asked.context)
    if not isinstance(prepared, Prepared):
        return None
    prepared = replace(prepared, short=short)
    started_s = time.process_time()
    candidate = measure(prepared, asked.context).candidate
    used_s = time.process_time() - started_s
    if candidate is None:
        return None
    return Measured(point.selection, point.parallel_config, candidate.metrics, used_s, prepared)
