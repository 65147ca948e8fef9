"""Samplers of Optuna: TPE and NSGA-II (the extra `optuna`)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from aisimulate.core.seeds import named_seed
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.samplers.latent_space import LatentParameter, LatentSpace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.spica.search_space import BranchSpace

# Optuna's seeds are 32 bits wide.
_SEED_MASK = 0xFFFFFFFF


class OptunaSampler:
    """Asks an Optuna study in memory; numbers are encoded by their place in the sorted list."""

    overlaps = True

    def __init__(
        self,
        branch: BranchSpace,
        *,
        seed: int,
        objectives: Sequence[tuple[str, bool]] | None = None,
        algorithm: str = "tpe",
    ) -> None:
        self.branch = branch
        self._optuna = importlib.import_module("optuna")
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)
        self._objectives = list(objectives) if objectives else [("objective", True)]
        self._space = LatentSpace(branch)
        self._distributions = {
            parameter.name: self._distribution(parameter) for parameter in self._space.parameters
        }
        self._study = self._optuna.create_study(
            directions=["maximize" if maximise else "minimize" for _, maximise in self._objectives],
            sampler=self._sampler(
                algorithm, named_seed(seed, "sampler", branch.deployment_mode) & _SEED_MASK
            ),
        )

    def suggest(self, count: int) -> list[Suggestion]:
        """Ask for `count` trials; a finite space is never exhausted."""
        trials = [self._study.ask(self._distributions) for _ in range(count)]
        return [self._space.suggestion(self._values(trial.params), trial) for trial in trials]

    def observe(self, suggestion: Suggestion, metrics: Mapping[str, float]) -> None:
        """Complete the trial."""
        self._study.tell(suggestion.handle, [metrics[name] for name, _ in self._objectives])

    def observe_infeasible(self, suggestion: Suggestion, reason: str) -> None:
        """Fail the trial."""
        self._study.tell(suggestion.handle, state=self._optuna.trial.TrialState.FAIL)

    def _sampler(self, algorithm: str, seed: int) -> Any:  # noqa: ANN401 - of a library that may be missing
        if algorithm == "nsga2":
            return self._optuna.samplers.NSGAIISampler(seed=seed)
        # Trials under way count as bad, so that those of one round lie apart.
        return self._optuna.samplers.TPESampler(seed=seed, constant_liar=True)

    def _distribution(self, parameter: LatentParameter) -> Any:  # noqa: ANN401
        distributions = self._optuna.distributions
        if parameter.kind == "float":
            return distributions.FloatDistribution(*parameter.bounds)
        if parameter.kind == "discrete":
            return distributions.IntDistribution(0, len(parameter.values) - 1)
        return distributions.CategoricalDistribution(parameter.values)

    def _values(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {
            parameter.name: (
                parameter.values[params[parameter.name]]
                if parameter.kind == "discrete"
                else params[parameter.name]
            )
            for parameter in self._space.parameters
        }
