"""The one input of a sweep, `SmartSearchConfig`, and its result row, `Candidate` (spec 05 section 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from aisimulate.spica.choices import COMPOSITE_DICT_KEYS, COMPOSITE_REQUIRED_KEYS, SEARCH_CHOICES
from aisimulate.spica.config_goal import OptimizationGoal, OptimizationTarget, SLATarget
from aisimulate.spica.config_space import SearchSpace
from aisimulate.spica.config_workload import LOAD_FIELDS, Workload
from aisimulate.spica.field_types import CountInt, NaturalInt, PositiveNumber, SpicaModel
from aisimulate.spica.yaml_file import load_yaml

__all__ = [
    "COMPOSITE_DICT_KEYS",
    "COMPOSITE_REQUIRED_KEYS",
    "Candidate",
    "OptimizationGoal",
    "OptimizationTarget",
    "SEARCH_CHOICES",
    "SLATarget",
    "SearchSpace",
    "SmartSearchConfig",
    "SweepConfig",
    "Workload",
]


class SweepConfig(SpicaModel):
    """How long and how wide to search. `max_eval_seconds` caps one replay; None means no cap."""

    max_rounds: CountInt = 20
    parallel_evals: CountInt = 16
    candidates_per_round: CountInt | None = None
    random_seed: NaturalInt = 1
    max_eval_seconds: PositiveNumber | None = 600.0
    sampler: Literal["auto", "pool-gp", "random", "grid"] = "auto"
    screen: Literal["auto", "off"] = "auto"

    @property
    def per_round(self) -> int:
        """Candidates asked for per round and branch."""
        return self.parallel_evals if self.candidates_per_round is None else self.candidates_per_round


class Candidate(SpicaModel):
    """One measured deployment: its flat configuration, GPUs, signed score, metrics and raw objectives.

    `objectives` is None for a scalar goal. Scores may be infinite (a report without a latency).
    """

    model_config = ConfigDict(allow_inf_nan=True)

    config: dict[str, Any]
    used_gpus: int
    score: float
    metrics: dict[str, float]
    objectives: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a config was read from; equal configs may come from different places."""

    folder: Path | None = field(default=None, compare=False)


class SmartSearchConfig(SpicaModel):
    """A whole sweep: the deployments, the traffic, the goal and the effort."""

    search_space: SearchSpace
    workload: Workload
    goal: OptimizationGoal = Field(default_factory=OptimizationGoal)
    sweep: SweepConfig = Field(default_factory=SweepConfig)

    _source: _Source = PrivateAttr(default_factory=lambda: _Source())

    @classmethod
    def from_yaml(cls, path: str | Path) -> SmartSearchConfig:
        """Read one YAML document and validate it.

        Raises OSError (unreadable file), yaml.YAMLError (syntax, unsafe tag, repeated key) or
        pydantic.ValidationError.
        """
        return cls.from_document(load_yaml(Path(path)), Path(path).parent)

    @classmethod
    def from_document(cls, document: object, folder: Path) -> SmartSearchConfig:
        """Validate what a file in `folder` holds. Raises pydantic.ValidationError."""
        config = cls.model_validate(document)
        config._source = _Source(folder)
        return config

    @property
    def folder(self) -> Path | None:
        """The folder of the file that the config was read from, if any; its paths are not relative to it."""
        return self._source.folder

    @model_validator(mode="before")
    @classmethod
    def _refuse_nothing(cls, data: object) -> object:
        if data is None:
            raise ValueError("the file is empty: it must be a mapping with search_space and workload")
        return data

    @model_validator(mode="before")
    @classmethod
    def _default_pareto_load(cls, data: object) -> object:
        """Give a synthetic pareto sweep without a load the whole KV-load range."""
        if not isinstance(data, dict) or not _targets_pareto(data.get("goal")):
            return data
        workload = data.get("workload")
        if not isinstance(workload, dict) or workload.get("trace_path") is not None:
            return data
        if any(workload.get(name) is not None for name in LOAD_FIELDS):
            return data
        return {**data, "workload": {**workload, "kv_load_ratio": [0.0, 1.0]}}

    @model_validator(mode="after")
    def _check_ranged_load(self) -> SmartSearchConfig:
        if self.workload.kv_load_ratio_range is not None and not self.goal.is_pareto:
            raise ValueError(
                "a ranged workload.kv_load_ratio is only valid for the pareto target, got target "
                f"{self.goal.target.value!r}; give one scalar kv_load_ratio instead"
            )
        return self


def _targets_pareto(goal: object) -> bool:
    """Tell whether a goal, validated or still a mapping, asks for pareto (D1: any type of target)."""
    target = goal.get("target") if isinstance(goal, dict) else getattr(goal, "target", None)
    return isinstance(target, str) and target == OptimizationTarget.PARETO
