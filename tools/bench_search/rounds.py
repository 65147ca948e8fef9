"""The round loop of a search, over a problem instead of replays (spec 05 section 11.2).

A round asks until eight new feasible deployments were measured, at most 11 x 8 times. What was measured
before is told again and does not count.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.samplers.base import BranchSampler, Suggestion
    from tools.bench_search.problem import Measured, Problem

PER_ROUND = 8
MOST_ASKS = 11
MARKS = (40, 80, 160, 320, 640)


@dataclass(slots=True)
class Trail:
    """What a search did. `shares` and `suggest_s` (CPU seconds of a batch) by number of measurements."""

    shares: dict[int, float] = field(default_factory=dict)
    suggest_s: dict[int, float] = field(default_factory=dict)
    measured: int = 0
    infeasible: int = 0
    duplicates: int = 0


def search(problem: Problem, sampler: BranchSampler, evaluations: int, best: float) -> Trail:
    """Run rounds until `evaluations` deployments were measured, or a round stays short."""
    trail, loop = Trail(), _Loop(problem, sampler)
    while trail.measured < evaluations:
        began = trail.measured
        loop.round(trail)
        trail.measured = len(loop.found)
        if trail.measured in MARKS:
            trail.shares[trail.measured] = problem.score(loop.found) / best
            trail.suggest_s[trail.measured] = loop.suggest_s
        if trail.measured - began < PER_ROUND:
            break
    return trail


class _Loop:
    def __init__(self, problem: Problem, sampler: BranchSampler) -> None:
        self.found: list[Measured] = []
        self.suggest_s = 0.0
        self._problem, self._sampler = problem, sampler
        self._names = [name for name, _ in problem.objectives or [("objective", True)]]
        self._known: dict[tuple[str, ParallelConfig], Measured | None] = {}

    def round(self, trail: Trail) -> None:
        """Measure eight new feasible deployments. `suggest_s` is what asking for a whole batch cost."""
        new = asked = 0
        while new < PER_ROUND and asked < MOST_ASKS * PER_ROUND:
            suggestions = self._ask(min(PER_ROUND - new, MOST_ASKS * PER_ROUND - asked))
            if not suggestions:
                return
            asked += len(suggestions)
            new += sum(self._tell(suggestion, trail) for suggestion in suggestions)

    def _ask(self, count: int) -> Sequence[Suggestion]:
        began = time.process_time()
        suggestions = self._sampler.suggest(count)
        if count == PER_ROUND:
            self.suggest_s = time.process_time() - began
        return suggestions

    def _tell(self, suggestion: Suggestion, trail: Trail) -> bool:
        """Measure a suggestion and tell the sampler; return whether it counts."""
        key = (repr(suggestion.selection), suggestion.parallel_config)
        is_new = key not in self._known
        if is_new:
            outcome = self._problem.measure(suggestion.selection, suggestion.parallel_config)
            self._known[key] = outcome
        outcome = self._known[key]
        trail.duplicates += not is_new
        if outcome is None:
            trail.infeasible += is_new
            self._sampler.observe_infeasible(suggestion, "cannot run")
            return False
        self._sampler.observe(suggestion, dict(zip(self._names, outcome.observed, strict=True)))
        if is_new:
            self.found.append(outcome)
        return is_new
