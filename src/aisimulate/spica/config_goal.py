"""`OptimizationGoal`: what a sweep optimises, and by which SLA (spec 05 section 1.7)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, model_validator

from aisimulate.core.errors import nearest
from aisimulate.core.shown import show_python
from aisimulate.spica.field_types import PositiveNumber, ProperShare, SpicaModel


class OptimizationTarget(StrEnum):
    """A quantity to optimise, or `pareto` for the trade-off between several."""

    THROUGHPUT = "throughput"
    THROUGHPUT_PER_GPU = "throughput_per_gpu"
    THROUGHPUT_PER_USER = "throughput_per_user"
    E2E_LATENCY = "e2e_latency"
    TTFT = "ttft"
    ITL = "itl"
    GOODPUT = "goodput"
    GOODPUT_PER_GPU = "goodput_per_gpu"
    MIN_GPUS = "min_gpus"
    PARETO = "pareto"

    @property
    def maximize(self) -> bool:
        """Whether more is better. Raises ValueError for `pareto`, which has no one direction."""
        if self is OptimizationTarget.PARETO:
            raise ValueError("pareto has no scalar direction; ask its objectives")
        return not self.is_latency and self is not OptimizationTarget.MIN_GPUS

    @property
    def is_latency(self) -> bool:
        """Whether it is a mean time."""
        return self in (OptimizationTarget.E2E_LATENCY, OptimizationTarget.TTFT, OptimizationTarget.ITL)

    @property
    def planner_optimization_target(self) -> str:
        """Name what an autoscaling planner optimises under this target: sla, latency or throughput."""
        if self.needs_sla:
            return "sla"
        return "latency" if self.is_latency else "throughput"

    @property
    def needs_sla(self) -> bool:
        """Whether the value counts only requests that meet an SLA."""
        counting = (
            OptimizationTarget.GOODPUT,
            OptimizationTarget.GOODPUT_PER_GPU,
            OptimizationTarget.MIN_GPUS,
        )
        return self in counting


def _parse_target(value: object) -> object:
    """Look a name up before pydantic does: any type of value gets an error with a path (D1)."""
    names = [target.value for target in OptimizationTarget]
    if isinstance(value, str) and value in names:
        return OptimizationTarget(value)
    hint = nearest(value, names) if isinstance(value, str) else ""
    raise ValueError(f"unknown optimization target {show_python(value)}; allowed: {names}{hint}")


Target = Annotated[OptimizationTarget, BeforeValidator(_parse_target)]
DEFAULT_PARETO = (OptimizationTarget.THROUGHPUT_PER_GPU, OptimizationTarget.THROUGHPUT_PER_USER)


class SLATarget(SpicaModel):
    """Bounds (ms, inclusive) a request must meet to count as good: `e2e_ms`, or `ttft_ms` and `itl_ms`.

    One of the latter alone is for fleets that do not scale (`SmartSearchConfig` checks that).
    """

    ttft_ms: PositiveNumber | None = None
    """bound of the time to the first token"""
    itl_ms: PositiveNumber | None = None
    """bound of the request's mean time between tokens"""
    e2e_ms: PositiveNumber | None = None
    """bound of the time to the last token :rule: not beside the others"""

    @model_validator(mode="after")
    def _check_exclusive(self) -> SLATarget:
        others = [name for name in ("ttft_ms", "itl_ms") if getattr(self, name) is not None]
        if self.e2e_ms is not None and others:
            raise ValueError(f"e2e_ms cannot be combined with {' and '.join(others)}; set one or the other")
        return self

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds that are set, by field."""
        fields = ("ttft_ms", "itl_ms", "e2e_ms")
        return {name: getattr(self, name) for name in fields if getattr(self, name) is not None}

    @property
    def has_one_token_bound(self) -> bool:
        """Whether TTFT or ITL is bounded, but not both."""
        return (self.ttft_ms is None) is not (self.itl_ms is None)

    @property
    def has_token_bounds(self) -> bool:
        """Whether both TTFT and ITL are bounded, as a planner needs."""
        return self.ttft_ms is not None and self.itl_ms is not None


class OptimizationGoal(SpicaModel):
    """The target, its SLA, and the objectives of a pareto target."""

    target: Target = OptimizationTarget.THROUGHPUT
    """what to optimise (latencies are means, and minimised); `min_gpus` finds the fewest GPUs of a fleet
    that does not scale; `pareto` keeps every deployment that no other beats in all objectives"""
    sla: SLATarget | None = None
    """bounds of a good request :rule: required by targets that count goodput"""
    strict_sla: bool = False
    """a candidate whose means (TTFT, time between tokens, end to end) miss a bound is infeasible. When all
    are, the nearest three are shown with what they miss and by how much :rule: needs `sla`"""
    min_confidence: Literal["low", "medium", "high"] = "low"
    """a candidate whose data are trusted less ([confidence](perf.md#confidence)) is infeasible, and counted
    as `low_confidence`"""
    confidence_penalty: ProperShare = 0.0
    """for each grade that its data are below `high` (`medium` one, `low` two), a candidate's score and
    objectives count as worse by this share; its metrics stay what was measured, and the table says what it
    `counts as`. What [screening](screen.md) estimates knows nothing of it"""
    min_goodput_rps: PositiveNumber | None = None
    """requests that meet the SLA per second, which a deployment must reach; nothing is extrapolated :unit:
    requests/s :rule: with `min_gpus` only, which needs it and `workload.request_rate`"""
    pareto_objectives: list[Target] | None = None
    """the objectives of the front; null is throughput_per_gpu and throughput_per_user :rule: at least two
    different targets; only with `pareto`"""

    @property
    def is_pareto(self) -> bool:
        """Whether the result is a front instead of a ranking."""
        return self.target is OptimizationTarget.PARETO

    @property
    def resolved_pareto_objectives(self) -> list[OptimizationTarget]:
        """List the given objectives, or the default pair when none were given."""
        return list(DEFAULT_PARETO) if self.pareto_objectives is None else self.pareto_objectives

    @property
    def targets(self) -> list[OptimizationTarget]:
        """List the quantities that candidates are compared by: the target, or its pareto objectives."""
        return self.resolved_pareto_objectives if self.is_pareto else [self.target]

    @property
    def planner_optimization_target(self) -> str:
        """Name what an autoscaling planner optimises under this goal.

        The target's own, except that a front of goodput objectives with TTFT and ITL bounds scales for
        that SLA (D13).
        """
        all_goodput = all(target.needs_sla for target in self.targets)
        if all_goodput and self.sla is not None and self.sla.has_token_bounds:
            return "sla"
        return self.target.planner_optimization_target

    @model_validator(mode="after")
    def _check_objectives(self) -> OptimizationGoal:
        given = self.pareto_objectives
        if given is None:
            return self
        names = [target.value for target in given]
        if not self.is_pareto:
            raise ValueError(
                f"pareto_objectives are only valid when target is 'pareto', got {self.target.value!r}"
            )
        if OptimizationTarget.PARETO in given:
            raise ValueError(f"pareto_objectives cannot contain 'pareto', got {names}")
        if OptimizationTarget.MIN_GPUS in given:
            raise ValueError(f"pareto_objectives cannot contain 'min_gpus', got {names}")
        if len(given) < 2:
            raise ValueError(f"pareto_objectives needs at least 2 objectives, got {names}")
        if len(set(given)) < len(given):
            raise ValueError(f"pareto_objectives must be distinct, got {names}")
        return self

    @model_validator(mode="after")
    def _check_sla(self) -> OptimizationGoal:
        needing = [target.value for target in self.targets if target.needs_sla]
        if needing and not (self.sla is not None and self.sla.bounds):
            raise ValueError(
                f"targets like {' and '.join(needing)} require an SLA: set sla.e2e_ms, or both sla.ttft_ms "
                "and sla.itl_ms"
            )
        if self.strict_sla and not (self.sla is not None and self.sla.bounds):
            raise ValueError("strict_sla requires an SLA: set a bound in sla")
        return self

    @model_validator(mode="after")
    def _check_sizing(self) -> OptimizationGoal:
        is_sizing = self.target is OptimizationTarget.MIN_GPUS
        if is_sizing and self.min_goodput_rps is None:
            raise ValueError("the target min_gpus requires min_goodput_rps: the load that must meet the SLA")
        if self.min_goodput_rps is not None and not is_sizing:
            raise ValueError(
                f"min_goodput_rps is only valid for the target min_gpus, got {self.target.value!r}"
            )
        return self
