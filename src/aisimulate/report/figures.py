"""What candidates are compared by: figures with a title, a unit and a direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Literal

from aisimulate.report.attainment import sla_share
from aisimulate.report.cost import cost_per_million_tokens
from aisimulate.report.numbers import number_text, share_text
from aisimulate.spica.config import OptimizationTarget
from aisimulate.spica.score import avg_gpu, objective_value

if TYPE_CHECKING:
    from aisimulate.spica.config import Candidate, OptimizationGoal

Better = Literal["max", "min"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a candidate; `value` is None where its report does not hold it."""

    name: str
    title: str
    unit: str
    better: Better
    value: Callable[[Candidate], float | None]

    def text(self, candidate: Candidate) -> str:
        """Write its value of a candidate, a share in per cent; `-` where there is none."""
        value = self.value(candidate)
        if value is None:
            return "-"
        return share_text(value) if self.unit == "share" else number_text(value)


_TARGETS = (
    (OptimizationTarget.THROUGHPUT_PER_GPU, "Output token throughput per GPU", "tok/s/GPU"),
    (OptimizationTarget.THROUGHPUT_PER_USER, "Output token throughput per user", "tok/s/user"),
    (OptimizationTarget.THROUGHPUT, "Output token throughput", "tok/s"),
    (OptimizationTarget.GOODPUT_PER_GPU, "Goodput per GPU", "tok/s/GPU"),
    (OptimizationTarget.GOODPUT, "Goodput", "tok/s"),
    (OptimizationTarget.E2E_LATENCY, "Request latency, mean", "ms"),
)
_METRICS = (
    ("median_ttft_ms", "Time to first token, p50", "ms"),
    ("p99_ttft_ms", "Time to first token, p99", "ms"),
    ("mean_tpot_ms", "Inter-token latency per request, mean", "ms"),
    ("p99_tpot_ms", "Inter-token latency per request, p99", "ms"),
    ("p99_itl_ms", "Inter-token latency per gap, p99", "ms"),
    ("max_itl_ms", "Inter-token latency per gap, longest", "ms"),
    ("p99_e2e_latency_ms", "Request latency, p99", "ms"),
)
_REUSE = "prefix_cache_reused_ratio"


def figures(goal: OptimizationGoal, gpu_hour_price: float | None = None) -> list[Figure]:
    """List the figures of a goal, its own targets first; goodput and its share need an SLA, cost a price."""
    targets = sorted(_TARGETS, key=lambda row: row[0] not in goal.targets)
    found = [_target(*row) for row in targets if goal.sla is not None or not row[0].needs_sla]
    if goal.sla is not None:
        found.append(Figure("sla_share", "Requests within the SLA", "share", "max", sla_share))
    if gpu_hour_price is not None:
        cost = partial(cost_per_million_tokens, gpu_hour_price=gpu_hour_price)
        found.append(
            Figure(
                "cost", "Cost per million output tokens", f"at {gpu_hour_price:g} per GPU hour", "min", cost
            )
        )
    found += [Figure(name, title, unit, "min", partial(_metric, name)) for name, title, unit in _METRICS]
    return [
        *found,
        Figure(_REUSE, "Prompt tokens reused", "share", "max", partial(_metric, _REUSE)),
        Figure("gpus", "GPUs, average", "GPUs", "min", _gpus),
    ]


def _target(target: OptimizationTarget, title: str, unit: str) -> Figure:
    better: Better = "max" if target.maximize else "min"
    return Figure(target.value, title, unit, better, partial(_objective, target))


def _objective(target: OptimizationTarget, candidate: Candidate) -> float | None:
    value = objective_value(candidate.metrics, target)
    return value if isfinite(value) else None


def _metric(name: str, candidate: Candidate) -> float | None:
    return candidate.metrics.get(name)


def _gpus(candidate: Candidate) -> float | None:
    return avg_gpu(candidate.metrics) or float(candidate.used_gpus)
