"""What forecasters cost: one deployment of each branch is replayed with every candidate (spec 03 section E2).

The deployment is the smallest one, with the first choice of every knob and the first policy that forecasts
at the interval: the planner grows it from there, within the GPU budget.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from aisimulate.spica.evaluate import Prepared, prepare
from aisimulate.spica.finite_space import branch_backends
from aisimulate.spica.load_predictor_sweep import LoadPredictorResult, ReplayCost
from aisimulate.spica.outcome import Outcome
from aisimulate.spica.planner import throughput_intervals
from aisimulate.spica.samplers.base import Suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisimulate.spica.evaluate import EvaluationContext
    from aisimulate.spica.executor import EvaluationPool
    from aisimulate.spica.planner import CompositeEntry
    from aisimulate.spica.search_space import BranchSpace

_NEEDED = ("gpu_hours", "num_requests", "goodput_completed_requests")


class PredictorReplays:
    """Replays the traffic with candidate forecasters, on the workers of `pool`."""

    def __init__(
        self, branches: Iterable[BranchSpace], context: EvaluationContext, pool: EvaluationPool
    ) -> None:
        self._branches = list(branches)
        self._context = context
        self._pool = pool

    def __call__(
        self, interval_s: float, entries: Mapping[str, CompositeEntry]
    ) -> dict[str, ReplayCost | str]:
        """Give what each candidate costs at an interval (s), over all branches; or why that is not known."""
        tried = {label: self._prepared(interval_s, entry) for label, entry in entries.items()}
        measured = self._pool.run([one for row in tried.values() for one in row if isinstance(one, Prepared)])
        outcomes = {
            label: [next(measured) if isinstance(one, Prepared) else one for one in row]
            for label, row in tried.items()
        }
        return {label: _cost(row) for label, row in outcomes.items()}

    def _prepared(self, interval_s: float, entry: CompositeEntry) -> list[Prepared | Outcome]:
        winner = LoadPredictorResult(best_by_interval={interval_s: entry})
        context = dataclasses.replace(self._context, load_predictor=winner)
        return [prepare(_smallest(branch, interval_s), context) for branch in self._branches]


def _smallest(branch: BranchSpace, interval_s: float) -> Suggestion:
    """Choose the deployment of a branch that forecasters are tried on."""
    config = min(branch.parallel_configs, key=lambda one: one.total_gpus)
    backends = branch.supported_backends[config]
    selection: dict[str, Any] = {"deployment_mode": branch.deployment_mode}
    selection |= {knob: choices[0] for knob, choices in branch.knob_choices.items()}
    selection |= {name: low for name, (low, _) in branch.float_ranges.items()}
    selection["backend"] = next(name for name in branch_backends(branch) if name in backends)
    policies = branch.knob_choices["planner_scaling_policy"]
    selection["planner_scaling_policy"] = next(
        policy for policy in policies if interval_s in throughput_intervals([policy])
    )
    return Suggestion(selection, config)


def _cost(outcomes: list[Outcome]) -> ReplayCost | str:
    """Add up the branches. A request that was not served within the SLA is a violation."""
    total = ReplayCost(0.0, 0.0)
    for outcome in outcomes:
        if outcome.candidate is None:
            return outcome.reason
        metrics = outcome.candidate.metrics
        missing = [name for name in _NEEDED if name not in metrics]
        if missing:
            return f"the report has no {', '.join(missing)}"
        missed = metrics["num_requests"] - metrics["goodput_completed_requests"]
        total = ReplayCost(total.gpu_hours + metrics["gpu_hours"], total.sla_violations + missed)
    return total
