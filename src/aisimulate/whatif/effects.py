"""What each changed assumption does to the goal and to the usual figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, ReplayError, TimingError
from aisimulate.spica.config_goal import OptimizationGoal, OptimizationTarget, SLATarget
from aisimulate.spica.score import MS_PER_HOUR, avg_gpu, objective_value
from aisimulate.whatif.base import base_of, unrecorded
from aisimulate.whatif.payloads import get
from aisimulate.whatif.replays import Task, run_replays
from aisimulate.whatif.variants import skipped, variants_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from aisimulate.whatif.base import Base
    from aisimulate.whatif.replays import OnEnd, Result
    from aisimulate.whatif.variants import Makers, Variant

# Figures beside the goal: key of the report, how they are called.
FIGURES = {
    "mean_ttft_ms": "TTFT ms mean",
    "p99_ttft_ms": "TTFT ms p99",
    "mean_tpot_ms": "ITL ms mean",
    "output_throughput_tok_s": "tok/s",
}
SLA_SHARE = "sla_share"
_GOOD_KEY = "goodput_completed_requests"


@dataclass(frozen=True, slots=True)
class Effect:
    """What one variant did.

    `value` is the goal's, None where the replay failed, whose reason is in `failure`. `change` is relative to
    the base, None where that is 0.
    """

    name: str
    title: str
    value: float | None
    change: float | None
    figures: Mapping[str, float]
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One deployment under all variants: `effects` are those replayed, the greatest first."""

    label: str
    target: OptimizationTarget
    value: float
    figures: Mapping[str, float]
    effects: Sequence[Effect]
    skipped: Sequence[Variant]

    def effect(self, name: str) -> Effect | None:
        """Find an effect by the name of its variant."""
        return next((effect for effect in self.effects if effect.name == name), None)


@dataclass(frozen=True, slots=True)
class Subject:
    """A deployment to be varied, and how it is called."""

    label: str
    payload: Mapping[str, Any]


def goal_of_payload(payload: Mapping[str, Any], target: str | None = None) -> OptimizationGoal:
    """Choose what a payload is judged by: `target`, else goodput per GPU with an SLA.

    Without an SLA it is throughput per GPU where a number of requests is kept in flight, and else the mean
    request latency, since the rate of arrival then fixes the throughput. Raises InputError for a target that
    needs an SLA where there is none.
    """
    whole = unrecorded(payload)
    sla = {name: value for name, value in (get(whole, ("spec", "sla")) or {}).items() if value is not None}
    if target is None:
        capped = any(
            get(whole, path) is not None
            for path in (
                ("traffic", "concurrency"),
                ("traffic", "replay_concurrency"),
                ("traffic", "kv_load_ratio"),
                ("spec", "max_in_flight"),
            )
        )
        target = "goodput_per_gpu" if sla else "throughput_per_gpu" if capped else "e2e_latency"
    if OptimizationTarget(target).needs_sla and not sla:
        raise InputError(f"--goal {target}: needs an SLA in the payload (spec.sla)")
    return OptimizationGoal(target=OptimizationTarget(target), sla=SLATarget(**sla) if sla else None)


def sensitivities(
    subjects: Sequence[Subject],
    target: OptimizationTarget,
    makers: Makers,
    *,
    only: Sequence[str] = (),
    jobs: int = 1,
    on_end: OnEnd | None = None,
) -> list[Sensitivity]:
    """Replay each subject as it is and under every variant that it has.

    The number of processes (`jobs`) does not change any result. Raises InputError, TimingError or ReplayError
    when a subject cannot be replayed as it is, or serves no request.
    """
    payloads = [unrecorded(subject.payload) for subject in subjects]
    labels = [f"{subject.label}: as it is" for subject in subjects]
    first = [Task(label, payload) for label, payload in zip(labels, payloads, strict=True)]
    reports = run_replays(first, jobs, on_end)
    bases = [_base(task, result) for task, result in zip(first, reports, strict=True)]
    variants = [variants_of(base, makers, only) for base in bases]
    tasks = [
        Task(f"{subject.label}: {variant.title}", variant.payload, variant.prompts, variant.outputs)
        for subject, listed in zip(subjects, variants, strict=True)
        for variant in listed
        if variant.payload is not None
    ]
    results = iter(run_replays(tasks, jobs, on_end))
    return [
        _sensitivity(subject.label, base, listed, target, results)
        for subject, base, listed in zip(subjects, bases, variants, strict=True)
    ]


def _base(task: Task, result: Result) -> Base:
    if result.report is not None:
        if not result.report.get("completed_requests"):
            raise InputError(f"{task.label}: no request completed{_why(result.report)}: nothing to vary")
        return base_of(task.payload, result.report)
    problem = f"{task.label}: {result.failure}"
    if result.lacks_data:
        raise TimingError(problem)
    raise InputError(problem) if result.is_input else ReplayError(problem)


def _why(report: Mapping[str, Any]) -> str:
    """Name the reasons of rejections, in brackets."""
    reasons = ", ".join(report.get("rejection_reasons") or ())
    return f" ({reasons})" if reasons else ""


def _sensitivity(
    label: str,
    base: Base,
    variants: Sequence[Variant],
    target: OptimizationTarget,
    results: Iterator[Result],
) -> Sensitivity:
    value = objective_value(base.report, target)
    effects, missing = [], []
    for variant in variants:
        if variant.payload is None:
            missing.append(variant)
            continue
        result = next(results)
        if result.lacks_data or result.is_input:  # there are no such data, or no such replay
            missing.append(skipped(variant.name, variant.title, result.failure))
        else:
            effects.append(_effect(variant, result, value, target, base))
    ordered = sorted(effects, key=_size, reverse=True)  # stable: equal ones stay in the order of the groups
    return Sensitivity(label, target, value, _figures(base.report), ordered, missing)


def _effect(
    variant: Variant, result: Result, before: float, target: OptimizationTarget, base: Base
) -> Effect:
    if result.report is None:
        return Effect(variant.name, variant.title, None, None, {}, result.failure)
    report = _paid(result.report, base) if variant.keeps_gpus else result.report
    if not report.get("completed_requests"):
        return Effect(variant.name, variant.title, None, None, {}, "no request completed")
    value = objective_value(report, target)
    change = value / before - 1.0 if before else None
    return Effect(variant.name, variant.title, value, change, _figures(report))


def _paid(report: Mapping[str, Any], base: Base) -> dict[str, Any]:
    """Charge for the GPUs of the base all the time: a worker that failed costs as much as one that works."""
    hours = base.gpus * float(report["duration_ms"]) / MS_PER_HOUR
    return {**report, "gpu_hours": hours, "avg_gpu": base.gpus}


def _figures(report: Mapping[str, Any]) -> dict[str, float]:
    found = {name: float(report[name]) for name in FIGURES if name in report}
    if _GOOD_KEY in report and report.get("num_requests"):
        found[SLA_SHARE] = report[_GOOD_KEY] / report["num_requests"]
    found["gpus"] = avg_gpu(report)
    return found


def _size(effect: Effect) -> float:
    """How far an effect goes; one that failed goes furthest, one of no known size comes last."""
    if effect.failure:
        return float("inf")
    return -1.0 if effect.change is None else abs(effect.change)
