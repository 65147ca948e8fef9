"""Optuna's TPE and NSGA-II on the same problems, through latent features and their projection.

Given a screen, they start from the first points of our sampler (it has twice as many), told as trials of
their own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from aisimulate.spica.finite_space import branch_backends
from aisimulate.spica.parallel_projection import ParallelConfigProjector
from aisimulate.spica.pool_gp.optimizer import FIRST_POINTS
from aisimulate.spica.samplers.base import Suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.samplers.base import BranchSampler
    from aisimulate.spica.search_space import BranchSpace
    from tools.bench_search.problem import Problem

_POPULATION = 32
START = object()  # the handle of what our sampler chose


class OptunaSide:
    """A `BranchSampler` around a study in memory."""

    def __init__(self, problem: Problem, algorithm: str, seed: int, start: BranchSampler | None) -> None:
        self.branch: BranchSpace = problem.branch
        self._optuna = importlib.import_module("optuna")
        self._optuna.logging.set_verbosity(self._optuna.logging.ERROR)
        self._objectives = list(problem.objectives or [("objective", True)])
        self._projector = ParallelConfigProjector(self.branch)
        backends = branch_backends(self.branch)
        choices = {**self.branch.knob_choices, "backend": backends}
        self._constants = {name: values[0] for name, values in choices.items() if len(values) == 1}
        self._knobs = {name: values for name, values in choices.items() if len(values) > 1}
        self._distributions = self._made_distributions()
        self._study = self._optuna.create_study(
            directions=["maximize"] * len(self._objectives), sampler=self._sampler(algorithm, seed)
        )
        self._start = start.suggest(FIRST_POINTS) if start else []

    def suggest(self, count: int) -> list[Suggestion]:
        """Give the start first, then ask."""
        given, self._start = self._start[:count], self._start[count:]
        started = [Suggestion(one.selection, one.parallel_config, START) for one in given]
        trials = [self._study.ask(self._distributions) for _ in range(count - len(started))]
        return started + [self._suggestion(trial) for trial in trials]

    def observe(self, suggestion: Suggestion, metrics: Mapping[str, float]) -> None:
        """Complete the trial."""
        values = [metrics[name] for name, _ in self._objectives]
        if suggestion.handle is START:
            self._add(suggestion, values=values)
        else:
            self._study.tell(suggestion.handle, values)

    def observe_infeasible(self, suggestion: Suggestion, reason: str) -> None:
        """Fail the trial."""
        failed = self._optuna.trial.TrialState.FAIL
        if suggestion.handle is START:
            self._add(suggestion, state=failed)
        else:
            self._study.tell(suggestion.handle, state=failed)

    def _sampler(self, algorithm: str, seed: int) -> Any:
        if algorithm == "nsga2":
            return self._optuna.samplers.NSGAIISampler(seed=seed, population_size=_POPULATION)
        return self._optuna.samplers.TPESampler(
            seed=seed, multivariate=True, group=True, constant_liar=True, warn_independent_sampling=False
        )

    def _made_distributions(self) -> dict[str, Any]:
        kinds = self._optuna.distributions
        made: dict[str, Any] = {}
        for feature in self._projector.parameters:
            if feature.kind == "float":
                made[feature.name] = kinds.FloatDistribution(feature.minimum, feature.maximum)
            else:
                made[feature.name] = kinds.CategoricalDistribution(feature.values)
        for name, (low, high) in self.branch.float_ranges.items():
            made[name] = kinds.FloatDistribution(low, high)
        for name, values in self._knobs.items():
            made[name] = kinds.CategoricalDistribution(values)
        return made

    def _suggestion(self, trial: Any) -> Suggestion:
        searched = {name: trial.params[name] for name in (*self.branch.float_ranges, *self._knobs)}
        # Loads in thousandths, as our sampler's.
        searched |= {name: round(searched[name], 3) for name in self.branch.float_ranges}
        selection = {"deployment_mode": self.branch.deployment_mode, **self._constants, **searched}
        selection = _canonical({name: selection[name] for name in self._order()})
        config = self._projector.project(trial.params, selection["backend"]).config
        return Suggestion(selection, config, trial)

    def _order(self) -> list[str]:
        names = ["deployment_mode", *self.branch.knob_choices]
        return [*dict.fromkeys([*names, "backend"]), *self.branch.float_ranges]

    def _add(self, suggestion: Suggestion, **outcome: Any) -> None:
        params: dict[str, Any] = dict(self._projector.features(suggestion.parallel_config))
        params |= {name: suggestion.selection[name] for name in self._distributions if name not in params}
        self._study.add_trial(
            self._optuna.trial.create_trial(params=params, distributions=self._distributions, **outcome)
        )


def _canonical(selection: dict[str, Any]) -> dict[str, Any]:
    """Give knobs that nothing reads one value, so that equal deployments are equal."""
    if selection["router_mode"] == "round_robin":
        inert = {"overlap_score_credit": 0.0, "prefill_load_scale": 0, "router_temperature": 0.0}
        selection |= {name: value for name, value in inert.items() if name in selection}
    if selection["planner_scaling_policy"] == "disabled":
        details = {"planner_fpm_sampling": "small", "planner_load_sensitivity": "aggressive"}
        selection |= {name: value for name, value in details.items() if name in selection}
    return selection
