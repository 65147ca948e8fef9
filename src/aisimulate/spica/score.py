"""From a replay report to a score, a ranking and a Pareto front (spec 05 section 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisimulate.core.shown import show_python
from aisimulate.spica.config import Candidate
from aisimulate.spica.config_goal import OptimizationTarget
from aisimulate.spica.numeric import as_float, numeric_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aisimulate.spica.config_goal import OptimizationGoal

MS_PER_HOUR = 3_600_000.0
GOODPUT_KEY = "goodput_output_throughput_tok_s"
GOODPUT_RPS_KEY = "goodput_request_throughput_rps"

# The parts of `avg_gpu`.
_AVERAGE_GPU_KEYS = ("gpu_hours", "duration_ms")


def avg_gpu(report: Mapping[str, float]) -> float:
    """Time average of provisioned GPUs over the run; 0.0 when its parts are missing or not positive."""
    gpu_hours, duration_ms = (report.get(key, 0.0) for key in _AVERAGE_GPU_KEYS)
    if gpu_hours <= 0 or duration_ms <= 0:
        return 0.0
    return gpu_hours / (duration_ms / MS_PER_HOUR)


@dataclass(frozen=True, slots=True)
class _Source:
    """What a target's value is made of: a report key, divided by the average number of GPUs or not."""

    key: str
    per_gpu: bool = False


_SOURCES = {
    OptimizationTarget.THROUGHPUT: _Source("output_throughput_tok_s"),
    OptimizationTarget.THROUGHPUT_PER_GPU: _Source("output_throughput_tok_s", per_gpu=True),
    OptimizationTarget.THROUGHPUT_PER_USER: _Source("mean_output_token_throughput_per_user"),
    OptimizationTarget.E2E_LATENCY: _Source("mean_e2e_latency_ms"),
    OptimizationTarget.TTFT: _Source("mean_ttft_ms"),
    OptimizationTarget.ITL: _Source("mean_itl_ms"),
    OptimizationTarget.GOODPUT: _Source(GOODPUT_KEY),
    OptimizationTarget.GOODPUT_PER_GPU: _Source(GOODPUT_KEY, per_gpu=True),
}


def report_keys(target: OptimizationTarget) -> tuple[str, ...]:
    """List the report keys that a target other than pareto is computed from (spec 05 section 2)."""
    if target is OptimizationTarget.MIN_GPUS:
        return (GOODPUT_RPS_KEY, *_AVERAGE_GPU_KEYS)
    source = _SOURCES[target]
    return (source.key, *_AVERAGE_GPU_KEYS) if source.per_gpu else (source.key,)


def objective_value(report: Mapping[str, float], target: OptimizationTarget | str) -> float:
    """Return the target's raw value in its own unit (tok/s, tok/s/GPU, tok/s/user, ms or GPUs).

    Raises ValueError for pareto (multi-objective) and for an unknown target.
    """
    known = _target(target)
    if known is OptimizationTarget.PARETO:
        raise ValueError("pareto is multi-objective: use objective_vector")
    if known is OptimizationTarget.MIN_GPUS:
        # Of a fleet that does not scale: a whole number but for rounding noise.
        return round(avg_gpu(report), 6) or math.inf
    source = _SOURCES[known]
    value = report.get(source.key, 0.0 if known.maximize else math.inf)
    if source.per_gpu:
        gpus = avg_gpu(report)
        value = value / gpus if gpus > 0 else 0.0
    return float(value)


def score_report(report: Mapping[str, float], target: OptimizationTarget | str) -> float:
    """Return the signed score, more is better: the raw value, negated for what is minimised."""
    value = objective_value(report, target)
    return value if _target(target).maximize else -value


def objective_vector(
    report: Mapping[str, float], objectives: Iterable[OptimizationTarget | str]
) -> dict[str, float]:
    """Return `{target: raw value}`, unsigned, in the order of `objectives`."""
    return {_target(target).value: objective_value(report, target) for target in objectives}


def is_feasible(used_gpus: int, gpu_budget: int) -> bool:
    """Whether a deployment fits the budget. SLAs are no gate: they live inside goodput."""
    return used_gpus <= gpu_budget


def make_candidate(
    config: Mapping[str, Any],
    report: Mapping[str, Any],
    target: OptimizationTarget | str,
    *,
    pareto_objectives: Sequence[OptimizationTarget | str] | None = None,
) -> Candidate:
    """Score one measured deployment; every numeric key of the report is kept as a metric (D15).

    Raises ValueError when `target` is pareto and `pareto_objectives` is missing, and for a report whose
    keys are not texts.
    """
    metrics = _numeric(report)
    objectives = None
    if _target(target) is OptimizationTarget.PARETO:
        if not pareto_objectives:
            raise ValueError("a pareto candidate needs pareto_objectives")
        objectives = objective_vector(metrics, pareto_objectives)
        score = next(iter(objectives.values()))
    else:
        score = score_report(metrics, target)
    return Candidate(
        config=dict(config),
        used_gpus=config.get("used_gpus") or 0,
        score=score,
        metrics=metrics,
        objectives=objectives,
    )


def discounted(candidate: Candidate, goal: OptimizationGoal, share: float) -> Candidate:
    """Let a candidate's score and objectives count by `share`: less where more is better, else more.

    Its metrics stay what was measured.
    """
    values = {_target(name): value for name, value in (candidate.objectives or {}).items()}
    objectives = {target.value: _discounted(value, target, share) for target, value in values.items()}
    if objectives:
        score = next(iter(objectives.values()))
    else:
        sign = 1 if goal.target.maximize else -1
        score = sign * _discounted(sign * candidate.score, goal.target, share)
    return candidate.model_copy(update={"score": score, "objectives": objectives or None})


def _discounted(value: float, target: OptimizationTarget, share: float) -> float:
    return value * share if target.maximize else value / share


def rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Order best first: score, then fewer GPUs, then the given (evaluation) order (D16)."""
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.used_gpus))


def pareto_front(
    candidates: Iterable[Candidate], objectives: Sequence[OptimizationTarget | str]
) -> list[Candidate]:
    """Return the candidates no other one dominates, by the last objective ascending.

    Equal vectors are all kept. Ties go by the other objectives (later ones first), then fewer GPUs,
    then the given order. Candidates without an objectives vector are ignored.
    """
    targets = [_target(target) for target in objectives]
    pool = [candidate for candidate in candidates if candidate.objectives is not None]
    gains = [_gains(candidate, targets) for candidate in pool]
    front = [
        candidate
        for candidate, own in zip(pool, gains, strict=True)
        if not any(_dominates(other, own) for other in gains)
    ]
    return sorted(front, key=lambda candidate: (_reversed_values(candidate, targets), candidate.used_gpus))


def epsilon_front(front: Sequence[Candidate], epsilon: float) -> list[Candidate]:
    """Thin out a front: each point left out is within a share of `epsilon`, in all objectives, of one kept.

    The ends come first, so that they stay unless they are equal; the order is kept (D30).
    """
    kept: list[Candidate] = []
    for candidate in (*front[:1], *front[-1:], *front):
        if not any(_is_covered(candidate, other, epsilon) for other in kept):
            kept.append(candidate)
    return [candidate for candidate in front if any(candidate is other for other in kept)]


def _is_covered(candidate: Candidate, other: Candidate, epsilon: float) -> bool:
    """Whether `other` is at most a share of `epsilon` worse in every objective."""
    others = other.objectives or {}
    for name, value in (candidate.objectives or {}).items():
        slack = epsilon * abs(value)
        if _target(name).maximize:
            if others[name] < value - slack:
                return False
        elif others[name] > value + slack:
            return False
    return True


def _target(target: OptimizationTarget | str) -> OptimizationTarget:
    try:
        return OptimizationTarget(target)
    except ValueError:
        raise ValueError(f"unknown optimization target {target!r}") from None


def _numeric(report: Mapping[str, Any]) -> dict[str, float]:
    unnamed = [key for key in report if not isinstance(key, str)]
    if unnamed:
        raise ValueError(f"the keys of a report must be texts, got {show_python(unnamed[0])}")
    return {key: as_float(value) for key, value in numeric_entries(report).items()}


def _gains(candidate: Candidate, targets: Sequence[OptimizationTarget]) -> tuple[float, ...]:
    values = candidate.objectives or {}
    return tuple(values[target.value] * (1 if target.maximize else -1) for target in targets)


def _dominates(other: tuple[float, ...], own: tuple[float, ...]) -> bool:
    return other != own and all(a >= b for a, b in zip(other, own, strict=True))


def _reversed_values(candidate: Candidate, targets: Sequence[OptimizationTarget]) -> tuple[float, ...]:
    values = candidate.objectives or {}
    return tuple(values[target.value] for target in reversed(targets))
