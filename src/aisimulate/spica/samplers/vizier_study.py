"""A study of Vizier (the extra `vizier`), as it lives in a process of its own.

Vizier brings JAX and takes seconds to load, so nothing here is imported before a study is opened.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import random
import sys
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from aisimulate.spica.samplers.latent_space import LatentParameter

METADATA_KEY = "spica_projection"
_OWNER = "spica"
_CLIENTS = "vizier.service.clients"
_CUDA_PLUGIN = "jax_cuda12_plugin"


@dataclass(frozen=True, slots=True)
class ToldTrial:
    """A trial with its outcome: values of all parameters, and metrics or the reason why there are none."""

    values: Mapping[str, Any]
    metrics: Mapping[str, float] | None
    reason: str
    metadata: str | None


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """What a study is to be; picklable. `store` holds the user's own settings of Vizier's client, if any."""

    study_id: str
    parameters: tuple[LatentParameter, ...]
    metrics: tuple[tuple[str, bool], ...]
    algorithm: str
    seed: int
    store: Mapping[str, Any] = field(default_factory=dict)


def user_store() -> dict[str, Any]:
    """Return the server or database that the user's program has set up for Vizier; empty if none."""
    clients = sys.modules.get(_CLIENTS)
    if clients is None:
        return {}
    settings = clients.environment_variables
    return {"server_endpoint": settings.server_endpoint, "servicer_kwargs": dict(settings.servicer_kwargs)}


def set_up_jax(environment: MutableMapping[str, str], *, has_cuda: bool | None = None) -> None:
    """Keep JAX to the CPU, unless the user chose a platform or has installed the CUDA plug-in."""
    if has_cuda is None:
        has_cuda = importlib.util.find_spec(_CUDA_PLUGIN) is not None
    if not has_cuda:
        environment.setdefault("JAX_PLATFORMS", "cpu")


class VizierStudy:
    """Opens a study, in memory unless the user configured a store, and tells it what was tried before."""

    def __init__(self, request: StudyRequest, history: list[ToldTrial]) -> None:
        set_up_jax(os.environ)
        warnings.simplefilter("ignore")
        importlib.import_module("absl.logging").set_verbosity("fatal")
        random.seed(request.seed)  # the designers of Vizier draw their seeds from it
        self._vz = importlib.import_module("vizier.service.pyvizier")
        clients = importlib.import_module(_CLIENTS)
        settings = clients.environment_variables
        for name, value in request.store.items():
            setattr(settings, name, value)
        settings.servicer_kwargs.setdefault("database_url", None)
        if settings.server_endpoint == "NO_ENDPOINT":
            _seed_policies(request.seed)
        self._study = clients.Study.from_study_config(
            self._config(request), owner=_OWNER, study_id=request.study_id
        )
        self._trials: dict[int, Any] = {}
        for told in history:
            self.add(told)

    def suggest(self, count: int) -> list[tuple[int, dict[str, Any]]]:
        """Return up to `count` trials: their ids and the values of their parameters."""
        trials = self._study.suggest(count=count)
        self._trials |= {trial.id: trial for trial in trials}
        return [(trial.id, dict(trial.parameters)) for trial in trials]

    def complete(self, trial_id: int, told: ToldTrial) -> None:
        """Tell the outcome of a suggested trial."""
        trial = self._trials.pop(trial_id)
        if told.metadata is not None:
            trial.update_metadata(self._vz.Metadata({METADATA_KEY: told.metadata}))
        if told.metrics is None:
            trial.complete(self._vz.Measurement(), infeasible_reason=told.reason or "unknown")
        else:
            trial.complete(self._vz.Measurement(metrics=dict(told.metrics)))

    def add(self, told: ToldTrial) -> None:
        """Tell a trial that this study did not suggest itself."""
        trial = self._vz.Trial(parameters=dict(told.values))
        if told.metrics is None:
            trial.complete(self._vz.Measurement(), infeasibility_reason=told.reason or "unknown")
        else:
            trial.complete(self._vz.Measurement(metrics=dict(told.metrics)))
        self._study.add_trial(trial)

    def _config(self, request: StudyRequest) -> Any:  # noqa: ANN401 - of a library that may be missing
        problem = self._vz.ProblemStatement()
        for parameter in request.parameters:
            self._add_parameter(problem.search_space.root, parameter)
        goals = self._vz.ObjectiveMetricGoal
        for name, maximise in request.metrics:
            goal = goals.MAXIMIZE if maximise else goals.MINIMIZE
            problem.metric_information.append(self._vz.MetricInformation(name, goal=goal))
        config = self._vz.StudyConfig.from_problem(problem)
        config.algorithm = request.algorithm
        return config

    def _add_parameter(self, root: Any, parameter: LatentParameter) -> None:  # noqa: ANN401
        if parameter.kind == "float":
            root.add_float_param(parameter.name, *parameter.bounds, default_value=parameter.default)
        elif parameter.kind == "discrete":
            scales = self._vz.ScaleType
            scale = scales.LOG if parameter.log_scale else scales.LINEAR
            root.add_discrete_param(
                parameter.name, parameter.values, scale_type=scale, default_value=parameter.default
            )
        else:
            root.add_categorical_param(parameter.name, parameter.values, default_value=parameter.default)


def _seed_policies(seed: int) -> None:
    """Let Vizier's own service make those designers seeded that would otherwise draw from the clock."""
    client = importlib.import_module("vizier._src.service.vizier_client")
    pythia = importlib.import_module("vizier._src.service.pythia_service")
    factories = importlib.import_module("vizier._src.service.policy_factory")
    servicer = client._create_local_vizier_servicer()
    policies = importlib.import_module("vizier._src.algorithms.policies.designer_policy")
    default = factories.DefaultPolicyFactory()
    made: dict[str, Any] = {}

    def make(problem: Any, algorithm: str, supporter: Any, study_name: str) -> Any:  # noqa: ANN401
        if algorithm not in _DESIGNERS:
            return default(problem, algorithm, supporter, study_name)
        if study_name not in made:  # Vizier asks for a policy each time, and these designers go on
            module, name = _DESIGNERS[algorithm]
            maker: Any = functools.reduce(getattr, name.split("."), importlib.import_module(module))
            made[study_name] = policies.InRamDesignerPolicy(problem, supporter, maker, seed=seed)
        return made[study_name]

    servicer.default_pythia_service = pythia.PythiaServicer(servicer, make)


# What Vizier seeds with the clock, or not at all: the designer's module and its maker.
_DESIGNERS = {
    "RANDOM_SEARCH": ("vizier._src.algorithms.designers.random", "RandomDesigner.from_problem"),
    "QUASI_RANDOM_SEARCH": (
        "vizier._src.algorithms.designers.quasi_random",
        "QuasiRandomDesigner.from_problem",
    ),
    "SHUFFLED_GRID_SEARCH": ("vizier._src.algorithms.designers.grid", "GridSearchDesigner.from_problem"),
    "NSGA2": ("vizier._src.algorithms.evolution.nsga2", "NSGA2Designer"),
}
