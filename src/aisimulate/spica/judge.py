"""From an evaluator's report to an outcome: refuses what would be a made-up score (spec 05 D17)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aisimulate.spica.bounds import missed_bounds
from aisimulate.spica.numeric import is_number
from aisimulate.spica.outcome import Outcome, Reason, Status
from aisimulate.spica.score import make_candidate, report_keys

if TYPE_CHECKING:
    from aisimulate.spica.config import Candidate, OptimizationGoal


def judge(config: dict[str, Any], report: object, goal: OptimizationGoal) -> Outcome:
    """Score the report of one evaluation.

    It is a failure when it is no mapping, lacks a key the goal is computed from, holds something else than a
    finite number there, or when no request completed. A measured 0 is a result. Other keys whose value is
    no number are ignored.
    """
    if not isinstance(report, Mapping):
        return _broken_contract(config, f"the evaluator returned {_kind(report)}, not a mapping of metrics")
    if report.get("completed_requests", 1) == 0:
        return _rejected(config, Reason.NO_SAMPLES, "no request completed, so nothing was measured")
    needed = needed_metrics(goal)
    missing = [name for name in needed if name not in report]
    if missing:
        return _broken_contract(config, f"the report has no {', '.join(missing)}, which the goal needs")
    wrong = [f"{name} is {_kind(report[name])}" for name in needed if not is_number(report[name])]
    if wrong:
        return _rejected(config, Reason.INVALID_METRICS, f"not a number: {', '.join(wrong)}")
    return _scored(config, report, goal)


def needed_metrics(goal: OptimizationGoal) -> list[str]:
    """List the report keys that a goal is computed from, each once."""
    return list(dict.fromkeys(key for target in goal.targets for key in report_keys(target)))


def _scored(config: dict[str, Any], report: Mapping[Any, Any], goal: OptimizationGoal) -> Outcome:
    named = {name: value for name, value in report.items() if isinstance(name, str)}
    candidate = make_candidate(config, named, goal.target, pareto_objectives=goal.targets)
    broken = _non_finite(candidate)
    if broken:
        return _rejected(config, Reason.INVALID_METRICS, f"not a finite number: {', '.join(broken)}")
    misses = missed_bounds(goal, candidate.metrics)
    if misses:
        return Outcome(
            Status.INFEASIBLE,
            config,
            category=Reason.SLA_CONSTRAINT,
            reason=f"SLA missed: {', '.join(miss.text for miss in misses)}",
            missed={miss.bound: miss.share for miss in misses if math.isfinite(miss.share)},
        )
    return Outcome(Status.FEASIBLE, config, candidate=candidate)


def _non_finite(candidate: Candidate) -> list[str]:
    numbers = {**candidate.metrics, **(candidate.objectives or {}), "score": candidate.score}
    return [f"{name}={value}" for name, value in numbers.items() if not math.isfinite(value)]


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _broken_contract(config: dict[str, Any], reason: str) -> Outcome:
    return _rejected(config, Reason.RUNNER_CONTRACT, reason)


def _rejected(config: dict[str, Any], category: Reason, reason: str) -> Outcome:
    return Outcome(Status.FAILED, config, category=category, reason=f"replay failed: {reason}")
