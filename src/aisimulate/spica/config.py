"""The one input of a sweep, `SmartSearchConfig`, and its result row, `Candidate` (spec 05 section 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, ValidationInfo, model_validator

from aisimulate.config.yaml_file import load_yaml
from aisimulate.spica.calibrated import WrittenOut
from aisimulate.spica.choices import COMPOSITE_DICT_KEYS, COMPOSITE_REQUIRED_KEYS, SEARCH_CHOICES
from aisimulate.spica.config_goal import OptimizationGoal, OptimizationTarget, SLATarget
from aisimulate.spica.config_space import SearchSpace
from aisimulate.spica.config_workload import LOAD_FIELDS, Workload
from aisimulate.spica.field_types import CountInt, NaturalInt, PositiveNumber, SpicaModel
from aisimulate.spica.planner import enables_scaling
from aisimulate.spica.sampler_names import check_sampler_algorithm, checked_sampler_name

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


# The context of a validation that reads what an earlier search was asked, whatever is installed now.
RECORDED = {"recorded": True}


def _known_sampler(name: str, info: ValidationInfo) -> str:
    return name if info.context == RECORDED else checked_sampler_name(name)


SamplerName = Annotated[str, AfterValidator(_known_sampler)]

# What one ask of a sampler may take, where it is asked in a process of its own.
_ASK_LIMITS = ("max_suggest_seconds", "max_suggest_mb")


class SweepConfig(SpicaModel):
    """How long and how wide to search."""

    max_rounds: CountInt = 20
    """rounds of suggestions per deployment mode :unit: rounds"""
    max_trials: CountInt | None = None
    """the most suggestions of the whole search, repeated ones too; deployment modes share them. `max_rounds`
    then limits the search only where it is given :unit: suggestions"""
    max_seconds: PositiveNumber | None = None
    """real time of the search, from its first question to a sampler on: no candidate is begun later, running
    ones end, and the result says so; `--resume` goes on for as long again"""
    parallel_evals: CountInt = 16
    """replays at a time, never more processes than cores :unit: replays"""
    candidates_per_round: CountInt | None = None
    """suggestions per round; null is the value of `parallel_evals` :unit: candidates"""
    random_seed: NaturalInt = 1
    """seed of the samplers that draw; same config, seed and versions give the same result"""
    max_eval_seconds: PositiveNumber | None = 600.0
    """real time one replay may take :rule: or null for no cap"""
    max_worker_mb: CountInt | None = None
    """resident memory that a worker process may take; a candidate that needs more is tried in a fresh
    process, then fails alone :unit: MB (2^20 bytes) :rule: Linux"""
    executor: Literal["local", "ray"] = "local"
    """where replays run: processes here, or workers (one CPU each) of a Ray cluster (`pip install
    'aisimulate[ray]'`): the one that `RAY_ADDRESS` names, or one that is started here. Results are the
    same; every node needs this package and the trace file"""
    asks: Literal["rounds", "pipelined"] = "rounds"
    """`pipelined` asks for new suggestions while others are still replayed, so that no worker waits for the
    end of a round; a learning sampler then knows a little less when it is asked. Both are deterministic.
    A sampler that must know everything first (`focused`) is asked in rounds, with a note"""
    mode_order: Literal["one_by_one", "interleaved"] = "one_by_one"
    """deployment modes one after the other, or a round of each in turn, so that a search that ends early has
    seen all of them; rounds that a mode does not need then go to the others :rule: `interleaved` only with
    asks `rounds`"""
    policy: Literal["rapid", "thorough", "focused"] = "rapid"
    """`rapid` searches by `sampler`; `thorough` tries every point of a finite space, so that the best found
    is the best there is; `focused` climbs one goal by hand-made stages (shapes that fill the budget,
    numbers of workers, router, other settings) and ends after a few dozen replays. The last two end by
    themselves, and by `max_rounds` only where it is given"""
    sampler: SamplerName = "auto"
    """`grid` tries the points in order, `random` draws them, `quasi-random` spreads them evenly, `pool-gp`
    learns from each replay where the next is worth most; `auto` takes the grid when it fits max_rounds x
    candidates_per_round, else `pool-gp`. [Samplers of other libraries](#samplers-of-other-libraries)
    :rule: `auto`, `pool-gp`, `random`, `quasi-random`, `grid`, `focused`, `optuna`, `vizier`, or an
    installed one"""
    sampler_algorithm: str | None = None
    """which of their algorithms; null is the first that is listed [below](#samplers-of-other-libraries)
    :rule: only with `optuna` or `vizier`"""
    max_suggest_seconds: PositiveNumber = 120.0
    """real time that one ask for suggestions may take; a later answer is not waited for :rule: with `vizier`
    only"""
    max_suggest_mb: CountInt = 4096
    """resident memory that Vizier's process may take :unit: MB (2^20 bytes) :rule: with `vizier` only"""
    screen: Literal["auto", "off"] = "auto"
    """before the first replay, `pool-gp` estimates candidates without a replay where the traffic allows that
    (a fixed number of equal requests in flight, a request rate, a trace of single requests; fixed
    fleets), starts from the best of them and learns the difference; `off` searches without. `aisimulate
    screen FILE` prints these estimates alone ([more](screen.md))"""
    early_stop: Literal["auto", "rough", "off"] = "auto"
    """`auto` replays candidates in part where that is enough to compare them: a closed loop of equal
    requests ends when two waves in a row, or two and the two before, agree within 0.5 % in their
    end-to-end time and 1 % in their time per token (goals of throughput and end-to-end latency, 4 waves
    or more; of one pool, 262,144 requests at most), of a trace of more than 3,750 sessions the first
    3,000 are served; not where pools scale, with `strict_sla`, nor with attention-DP ranks of SGLang in a
    closed loop. The best 16 or tenth of them, or the front (of equal ones one; of a front of more than 48
    points so many, or that tenth, far apart), are then replayed in full, and only those are reported;
    metrics of the others have `early_stop_completed_requests` or `first_sessions_only`. `rough` stops
    those ranks of SGLang too: in pairs of pools their figures come out up to 3 % too low, for less than
    half of the time; what is reported is replayed in full all the same. `off` replays all in full"""
    load_predictor_choice: Literal["forecast_error", "replay"] = "forecast_error"
    """where policies scale by throughput over a trace: choose among `load_predictor_candidates` by how far
    each is off, or replay the smallest deployment with each (fewest requests outside the SLA, then fewest
    GPU-hours; [docs/forecasting.md](forecasting.md#the-loss))"""

    @property
    def per_round(self) -> int:
        """Candidates asked for per round and branch."""
        return self.parallel_evals if self.candidates_per_round is None else self.candidates_per_round

    @property
    def chosen_sampler(self) -> str:
        """The sampler of the policy, if it has one of its own, else the one that is asked for."""
        return {"thorough": "grid", "focused": "focused"}.get(self.policy, self.sampler)

    @model_validator(mode="after")
    def _check_policy(self) -> SweepConfig:
        own = self.chosen_sampler
        if self.sampler not in ("auto", own):
            raise ValueError(f"policy {self.policy} chooses the sampler {own} itself, got {self.sampler}")
        return self

    @model_validator(mode="after")
    def _check_order(self) -> SweepConfig:
        if self.mode_order == "interleaved" and self.asks != "rounds":
            raise ValueError(f"mode_order: interleaved needs asks rounds, got {self.asks}")
        return self

    @model_validator(mode="after")
    def _check_sampler(self) -> SweepConfig:
        check_sampler_algorithm(self.sampler, self.sampler_algorithm)
        given = [name for name in _ASK_LIMITS if getattr(self, name) != type(self).model_fields[name].default]
        if given and self.sampler != "vizier":
            raise ValueError(f"{given[0]}: only the sampler vizier is limited, not {self.sampler}")
        return self


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
    """the deployments to choose from"""
    workload: Workload
    """the traffic they must serve"""
    goal: OptimizationGoal = Field(default_factory=OptimizationGoal)
    """what makes one better than another"""
    sweep: SweepConfig = Field(default_factory=SweepConfig)
    """how long and how wide to search"""
    calibration: WrittenOut = None
    """corrects pass times by what was [measured](calibration.md). Candidates of another engine or shape are
    refused, and estimates (`sweep.screen`) are off :rule: the path of a file, or [what is in
    one](#calibration); made for an engine that is searched"""

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
    def _check_sla(self) -> SmartSearchConfig:
        goal, policies = self.goal, self.search_space.planner_scaling_policy
        if goal.target is OptimizationTarget.MIN_GPUS and self.workload.request_rate is None:
            raise ValueError(
                "the target min_gpus requires workload.request_rate: it sizes for a rate of requests"
            )
        counting = [target.value for target in goal.targets if target.needs_sla]
        scaling = [policy for policy in policies if enables_scaling(policy)]
        one_bound = goal.sla is not None and goal.sla.has_one_token_bound
        if one_bound and counting and scaling and goal.target is not OptimizationTarget.MIN_GPUS:
            raise ValueError(
                f"targets like {' and '.join(counting)} require an SLA that planners can scale for: set both "
                "goal.sla.ttft_ms and goal.sla.itl_ms, or search_space.planner_scaling_policy to [disabled]"
            )
        return self

    @model_validator(mode="after")
    def _check_preset(self) -> SmartSearchConfig:
        frontend = self.workload.frontend
        if frontend is None or frontend.preset in (None, "inferencex"):
            return self
        others = [name for name in self.search_space.backend if frontend.preset != f"inferencex-{name}"]
        if others:
            problem = f"{frontend.preset!r} is fitted on another backend than {others[0]!r}"
            raise ValueError(f"workload.frontend.preset: {problem}; did you mean 'inferencex'?")
        return self

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
