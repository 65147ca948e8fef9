"""`OptimizationGoal`: what a sweep optimises, and by which SLA (spec 05 section 1.7)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, model_validator

from aisimulate.core.errors import nearest
from aisimulate.core.shown import show_python
from aisimulate.spica.field_types import PositiveNumber, SpicaModel


class OptimizationTarget(StrEnum):
    """A quantity to optimise, or `pareto` for the trade-off between several."""

    THROUGHPUT = "throughput"
    THROUGHPUT_PER_GPU = "throughput_per_gpu"
    THROUGHPUT_PER_USER = "throughput_per_user"
    E2E_LATENCY = "e2e_latency"
    GOODPUT = "goodput"
    GOODPUT_PER_GPU = "goodput_per_gpu"
    PARETO = "pareto"

    @property
    def maximize(self) -> bool:
        """Whether more is better. Raises ValueError for `pareto`, which has no one direction."""
        if self is OptimizationTarget.PARETO:
            raise ValueError("pareto has no scalar direction; ask its objectives")
        return self is not OptimizationTarget.E2E_LATENCY

    @property
    def planner_optimization_target(self) -> str:
        """Name what an autoscaling planner optimises under this target: sla, latency or throughput."""
        if self.needs_sla:
            return "sla"
        return "latency" if self is OptimizationTarget.E2E_LATENCY else "throughput"

    @property
    def needs_sla(self) -> bool:
        """Whether the value counts only requests that meet an SLA."""
        return self in (OptimizationTarget.GOODPUT, OptimizationTarget.GOODPUT_PER_GPU)


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
    """Bounds (ms, inclusive) a request must meet to count as good: `e2e_ms`, or `ttft_ms` and `itl_ms`."""

    ttft_ms: PositiveNumber | None = None
    itl_ms: PositiveNumber | None = None
    e2e_ms: PositiveNumber | None = None

    @model_validator(mode="after")
    def _check_exclusive(self) -> SLATarget:
        others = [name for name in ("ttft_ms", "itl_ms") if getattr(self, name) is not None]
        if self.e2e_ms is not None and others:
            raise ValueError(f"e2e_ms cannot be combined with {' and '.join(others)}; set one or the other")
        return self

    @property
    def is_sufficient(self) -> bool:
        """Whether goodput can be counted: e2e, or both TTFT and ITL."""
        return self.e2e_ms is not None or self.has_token_bounds

    @property
    def has_token_bounds(self) -> bool:
        """Whether both TTFT and ITL are bounded, as a planner needs."""
        return self.ttft_ms is not None and self.itl_ms is not None


class OptimizationGoal(SpicaModel):
    """The target, its SLA, and the objectives of a pareto target."""

    target: Target = OptimizationTarget.THROUGHPUT
    sla: SLATarget | None = None
    pareto_objectives: list[Target] | None = None

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
        if len(given) < 2:
            raise ValueError(f"pareto_objectives needs at least 2 objectives, got {names}")
        if len(set(given)) < len(given):
            raise ValueError(f"pareto_objectives must be distinct, got {names}")
        return self

    @model_validator(mode="after")
    def _check_sla(self) -> OptimizationGoal:
        needing = [target.value for target in self.targets if target.needs_sla]
        if needing and not (self.sla is not None and self.sla.is_sufficient):
            raise ValueError(
                f"targets like {' and '.join(needing)} require an SLA: set sla.e2e_ms, or both sla.ttft_ms "
                "and sla.itl_ms"
            )
        return self
