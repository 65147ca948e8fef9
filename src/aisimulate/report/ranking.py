"""The ranking of a search on the terminal: plain lines, or a table and the winning configuration."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from aisimulate.report.folding import Fold, fold
from aisimulate.report.launch import launch_lines
from aisimulate.report.shapes import knobs_text, replicas_text, shape_text
from aisimulate.spica.score import avg_gpu
from aisimulate.spica.summary import headline_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal

# A pipe has no width of its own; wide enough for every column.
_PIPE_WIDTH = 150


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


def print_ranking(goal: OptimizationGoal, candidates: Sequence[Candidate], top: int) -> None:
    """Print a table of `top` rows and the configuration of the best candidate to stdout.

    Candidates that measured exactly the same share a row.
    """
    console = Console(
        file=sys.stdout, width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False, markup=False
    )
    folds = fold(candidates)
    console.print(_table(goal, folds[:top]))
    hidden = len(folds) - top
    if hidden > 0:
        console.print(f"... and {hidden} more (--top N shows N)")
    for line in _winner_lines(goal, candidates):
        console.print(line, soft_wrap=True)


def _table(goal: OptimizationGoal, folds: Sequence[Fold]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right")
    for name in ("shape", "replicas"):
        table.add_column(name)
    table.add_column("GPUs", justify="right")
    table.add_column("batch tokens/seqs")
    for name in (*_value_names(goal), *_METRICS):
        table.add_column(name, justify="right")
    for place, item in enumerate(folds, start=1):
        table.add_row(str(place), *_row(goal, item))
    return table


def _row(goal: OptimizationGoal, item: Fold) -> list[str]:
    candidate, config = item.candidate, item.candidate.config
    equal = f" (+{item.others} equal)" if item.others else ""
    return [
        shape_text(config),
        replicas_text(config),
        str(candidate.used_gpus),
        knobs_text(config) + equal,
        *(f"{value:,.4g}" for value in _values(goal, candidate)),
        *_metric_cells(candidate),
    ]


def _value_names(goal: OptimizationGoal) -> list[str]:
    targets = goal.resolved_pareto_objectives if goal.is_pareto else [goal.target]
    return [target.value if target.maximize else f"{target.value} (ms)" for target in targets]


def _values(goal: OptimizationGoal, candidate: Candidate) -> list[float]:
    if candidate.objectives is not None:
        return list(candidate.objectives.values())
    return [candidate.score if goal.target.maximize else -candidate.score]


_METRICS = ("tok/s/GPU", "in SLA", "TTFT ms mean/p99", "ITL ms mean/p99", "reuse")


def _metric_cells(candidate: Candidate) -> list[str]:
    metrics = candidate.metrics
    gpus = avg_gpu(metrics)
    throughput = metrics.get("output_throughput_tok_s", 0.0)
    reuse = metrics.get("prefix_cache_reused_ratio")
    return [
        f"{throughput / gpus:,.1f}" if gpus > 0 else "-",
        _share(metrics.get("goodput_completed_requests"), metrics.get("num_requests")),
        _pair(candidate, "ttft"),
        _pair(candidate, "itl"),
        _share(reuse, 1.0),
    ]


def _share(part: float | None, whole: float | None) -> str:
    return "-" if part is None or not whole else f"{part / whole:.1%}"


def _pair(candidate: Candidate, name: str) -> str:
    values = [candidate.metrics.get(f"{statistic}_{name}_ms") for statistic in ("mean", "p99")]
    return " / ".join("-" if value is None else f"{value:,.1f}" for value in values)


def _winner_lines(goal: OptimizationGoal, candidates: Sequence[Candidate]) -> list[str]:
    target = headline_target(goal)
    winner = candidates[0]
    if goal.is_pareto:
        sign = 1 if target.maximize else -1
        winner = max(candidates, key=lambda item: sign * (item.objectives or {})[target.value])
    title = f"best {target.value} of the front" if goal.is_pareto else "winning configuration"
    chosen = {key: value for key, value in winner.config.items() if value is not None}
    lines = [f"{title}:", *_indented(yaml.safe_dump(chosen, sort_keys=False)), _served_text(winner)]
    launch = launch_lines(winner.config)
    if launch:
        lines += ["launch:", *_indented("\n".join(launch))]
    return lines


def _served_text(candidate: Candidate) -> str:
    """Say how many requests the numbers stand for: a fleet that rejects work may look fast."""
    metrics = candidate.metrics
    completed, arrived = metrics.get("completed_requests"), metrics.get("num_requests")
    if completed is None or arrived is None:
        return "requests: not reported"
    good = metrics.get("goodput_completed_requests")
    sla = "" if good is None else f", {good:,.0f} within the SLA"
    return f"requests: {completed:,.0f} of {arrived:,.0f} completed{sla}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
