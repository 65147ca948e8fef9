"""The ranking of a search on the terminal: plain lines, or a table and the winning configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from aisimulate.report.attainment import sla_share
from aisimulate.report.confidence import UNKNOWN, candidate_grade
from aisimulate.report.cost import cost_per_million_tokens
from aisimulate.report.folding import Fold, fold
from aisimulate.report.numbers import number_text, share_text
from aisimulate.report.shapes import gpus_text, knobs_text, replicas_text, shape_text, telling_fields
from aisimulate.report.winner import winner_lines
from aisimulate.spica.config import OptimizationTarget
from aisimulate.spica.score import objective_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal


def ranking_lines(goal: OptimizationGoal, candidates: Sequence[Candidate], top: int | None) -> list[str]:
    """Write one line per candidate, best first (spec 05 section 12)."""
    shown = candidates[:top]
    if not goal.is_pareto:
        return [f"{i}: score={item.score} used_gpus={item.used_gpus}" for i, item in enumerate(shown)]
    header = f"pareto front ({len(candidates)} non-dominated):"
    return [header, *(f"{i}: {_front_line(item)}" for i, item in enumerate(shown))]


def _front_line(candidate: Candidate) -> str:
    values = ", ".join(f"{name}={value:.4g}" for name, value in (candidate.objectives or {}).items())
    concurrency = candidate.config.get("concurrency")
    load = "" if concurrency is None else f" concurrency={concurrency}"
    return f"{values}{load} used_gpus={candidate.used_gpus}"


def ranking_text(
    goal: OptimizationGoal,
    candidates: Sequence[Candidate],
    top: int,
    *,
    gpu_hour_price: float | None = None,
    numbers: Mapping[int, int] | None = None,
) -> str:
    """Lay out a table of `top` rows and the configuration of the best candidate, for stdout.

    Candidates that measured exactly the same share a row. A price adds what tokens cost; `numbers` (by
    `id` of the candidate) those of their attempts.
    """
    folds = fold(candidates)
    hidden = len(folds) - top
    more = [f"... and {hidden} more (--top N shows N)"] if hidden > 0 else []
    columns = [*_number_columns(numbers), *_columns(goal, folds[:top]), *_cost_columns(gpu_hour_price)]
    return "\n".join([_drawn(_table(columns, folds[:top])), *more, "", *winner_lines(goal, candidates), ""])


def _drawn(table: Table) -> str:
    console = Console(file=sys.stdout, highlight=False, markup=False)
    # Numbers are never cut: a narrow terminal wraps the lines itself.
    console.width = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    with console.capture() as drawing:
        console.print(table)
    return "\n".join(line.rstrip() for line in drawing.get().splitlines()).strip("\n")


def _table(columns: Sequence[_Column], folds: Sequence[Fold]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right")
    for column in columns:
        table.add_column(column.title, justify=column.justify, no_wrap=True)
    for place, item in enumerate(folds, start=1):
        table.add_row(str(place), *(column.cell(item) for column in columns))
    return table


def _columns(goal: OptimizationGoal, folds: Sequence[Fold]) -> list[_Column]:
    telling = telling_fields(item.candidate for item in folds)
    return [
        *_GENERAL,
        _Column("batch tokens/seqs", partial(_knobs_cell, telling), "left"),
        *_value_columns(goal),
        *_metric_columns(goal),
        *_confidence_columns(folds),
        *_penalty_columns(goal),
    ]


@dataclass(frozen=True, slots=True)
class _Column:
    """One column: its title, and the text of a row in it."""

    title: str
    cell: Callable[[Fold], str]
    justify: Literal["left", "right"] = "right"


def _knobs_cell(telling: Sequence[str], item: Fold) -> str:
    equal = f" (+{item.others} equal)" if item.others else ""
    return knobs_text(item.candidate.config, telling) + equal


_GENERAL = (
    _Column("shape", lambda item: shape_text(item.candidate.config), "left"),
    _Column("replicas", lambda item: replicas_text(item.candidate.config), "left"),
    _Column("GPUs", lambda item: gpus_text(item.candidate)),
)

TARGET_TITLES = {
    OptimizationTarget.THROUGHPUT: "tok/s",
    OptimizationTarget.THROUGHPUT_PER_GPU: "tok/s/GPU",
    OptimizationTarget.THROUGHPUT_PER_USER: "tok/s/user",
    OptimizationTarget.E2E_LATENCY: "mean e2e ms",
    OptimizationTarget.TTFT: "mean TTFT ms",
    OptimizationTarget.ITL: "mean ITL ms",
    OptimizationTarget.MIN_GPUS: "GPUs needed",
    OptimizationTarget.GOODPUT: "goodput tok/s",
    OptimizationTarget.GOODPUT_PER_GPU: "goodput tok/s/GPU",
}


def _value_columns(goal: OptimizationGoal) -> list[_Column]:
    return [_Column(TARGET_TITLES[target], partial(_value, target)) for target in goal.targets]


def _value(target: OptimizationTarget, item: Fold) -> str:
    """Give a candidate's value for `target` in natural units, whatever the sign of its score."""
    return number_text(objective_value(item.candidate.metrics, target))


def _metric_columns(goal: OptimizationGoal) -> list[_Column]:
    always = (OptimizationTarget.THROUGHPUT_PER_GPU, OptimizationTarget.THROUGHPUT_PER_USER)
    columns = [
        _Column(TARGET_TITLES[target], partial(_value, target))
        for target in always
        if target not in goal.targets
    ]
    if goal.sla is not None:
        columns.append(_Column("in SLA", _sla_share))
    return [
        *columns,
        _Column("TTFT ms p50/p99", partial(_latencies, "ttft", ("median", "p99"))),
        _Column("ITL ms p50/p99/max", partial(_latencies, "itl", ("median", "p99", "max"))),
        _Column("reuse", lambda item: _share(item.candidate.metrics.get("prefix_cache_reused_ratio"))),
    ]


def _number_columns(numbers: Mapping[int, int] | None) -> list[_Column]:
    if numbers is None:
        return []
    return [_Column("candidate", lambda item: str(numbers.get(id(item.candidate), "-")))]


def _confidence_columns(folds: Sequence[Fold]) -> list[_Column]:
    """Show how far the data can be trusted where that is not the same, and fully, for all."""
    grades = {id(item): candidate_grade(item.candidate) for item in folds}
    if set(grades.values()) <= {"high", UNKNOWN}:
        return []
    return [_Column("data", lambda item: grades[id(item)], "left")]


def _penalty_columns(goal: OptimizationGoal) -> list[_Column]:
    """Show what a candidate counts for where doubtful data cost something."""
    if not goal.confidence_penalty:
        return []
    if not goal.is_pareto:
        sign = 1 if goal.target.maximize else -1
        return [_Column("counts as", lambda item: number_text(sign * item.candidate.score))]
    return [_Column("counts as", _discounted_objectives)]


def _discounted_objectives(item: Fold) -> str:
    return " / ".join(number_text(value) for value in (item.candidate.objectives or {}).values())


def _cost_columns(gpu_hour_price: float | None) -> list[_Column]:
    if gpu_hour_price is None:
        return []
    return [_Column("cost per M tokens out", partial(_cost, gpu_hour_price))]


def _cost(gpu_hour_price: float, item: Fold) -> str:
    cost = cost_per_million_tokens(item.candidate, gpu_hour_price)
    return "-" if cost is None else number_text(cost)


def _sla_share(item: Fold) -> str:
    return _share(sla_share(item.candidate))


def _share(share: float | None) -> str:
    return "-" if share is None else share_text(share)


def _latencies(name: str, statistics: Sequence[str], item: Fold) -> str:
    values = [item.candidate.metrics.get(f"{statistic}_{name}_ms") for statistic in statistics]
    return " / ".join("-" if value is None else f"{value:,.1f}" for value in values)
