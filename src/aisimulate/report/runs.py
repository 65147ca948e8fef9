"""Recorded searches as tables for people and as files for programs."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from aisimulate.report.answer import answer_of_run, answer_text
from aisimulate.report.columns import aligned
from aisimulate.report.fronts import front_rows
from aisimulate.report.near_misses import near_miss_lines
from aisimulate.report.numbers import number_text
from aisimulate.report.outcome_document import outcome_document
from aisimulate.report.shapes import knobs_text, workers_text
from aisimulate.spica.bounds import near_misses
from aisimulate.spica.score import objective_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate, OptimizationTarget
    from aisimulate.spica.ledger import Attempt
    from aisimulate.spica.recorded_run import RecordedRun

FORMAT = "aisimulate.spica.run"
FORMAT_VERSION = 1


def list_text(runs: Sequence[RecordedRun]) -> str:
    """List runs, one per line."""
    rows = [("run", "status", "model", "hardware", "goal", "attempts", "best")]
    for run in runs:
        space = run.config.search_space
        goal = run.config.goal
        best = f"{number_text(_first_value(run))} {goal.targets[0].value}" if run.candidates else "-"
        facts = (run.name, run.status, space.model_name, space.hardware_sku, goal.target.value)
        rows.append((*facts, str(len(run.attempts)), best))
    return "\n".join([*aligned(rows), ""]) if runs else "no runs\n"


def show_text(run: RecordedRun, top: int, gpu_hour_price: float | None = None) -> str:
    """Show the ranking of a run, with the numbers of its candidates, and its best candidate."""
    head = f"{run.name}: {run.status}, {len(run.attempts)} attempts, {len(run.candidates)} ranked\n"
    if not run.candidates:
        near = near_misses((attempt.outcome for attempt in run.attempts if not attempt.cached), top)
        return "\n".join([head.rstrip(), *near_miss_lines(near), ""])
    return head + answer_text(answer_of_run(run), top, gpu_hour_price)


def export_json(run: RecordedRun) -> str:
    """Write a run without loss."""
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **run.facts,
        "attempts": [_attempt(attempt) for attempt in run.attempts],
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def export_csv(run: RecordedRun) -> str:
    """Write one line per attempt; nested values are JSON."""
    rows = [_flat(attempt) for attempt in run.attempts]
    names = list(dict.fromkeys(name for row in rows for name in row))
    target = io.StringIO()
    writer = csv.DictWriter(target, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return target.getvalue()


def comparison_text(left: RecordedRun, right: RecordedRun) -> str:
    """Set two runs side by side: what was asked differently, their best candidates, and their fronts."""
    return "\n".join([*aligned(comparison_rows(left, right)), ""])


def comparison_rows(left: RecordedRun, right: RecordedRun) -> list[tuple[str, ...]]:
    """Give the same as rows of a name and two texts; the first row names the runs."""
    rows: list[tuple[str, ...]] = [("", left.name, right.name)]
    rows += [(name, *values) for name, values in _asked(left, right).items()]
    best = [run.candidates[0] if run.candidates else None for run in (left, right)]
    rows += [("best", *(_layout(candidate) for candidate in best))]
    for target in dict.fromkeys((*left.config.goal.targets, *right.config.goal.targets)):
        values = (
            _target_text(run, candidate, target) for run, candidate in zip((left, right), best, strict=True)
        )
        rows.append((target.value, *values))
    rows.append(("attempts", *(str(len(run.attempts)) for run in (left, right))))
    goals = [run.config.goal for run in (left, right)]
    if all(goal.is_pareto for goal in goals) and goals[0].targets == goals[1].targets:
        rows += front_rows(goals[0].targets, (left.candidates, right.candidates))
    return rows


def _target_text(run: RecordedRun, candidate: Candidate | None, target: OptimizationTarget) -> str:
    """Give a value of the best candidate; goodput is not known to a run without an SLA."""
    if candidate is None or (target.needs_sla and run.config.goal.sla is None):
        return "-"
    return number_text(objective_value(candidate.metrics, target))


def _first_value(run: RecordedRun) -> float:
    return objective_value(run.candidates[0].metrics, run.config.goal.targets[0])


def _asked(left: RecordedRun, right: RecordedRun) -> dict[str, tuple[str, str]]:
    """Find the fields of the configurations that differ, by dotted path."""
    mine, theirs = (_leaves(run.config.model_dump(mode="json")) for run in (left, right))
    names = dict.fromkeys((*mine, *theirs))
    return {
        name: (json.dumps(mine.get(name)), json.dumps(theirs.get(name)))
        for name in names
        if mine.get(name) != theirs.get(name)
    }


def _leaves(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, item in value.items():
        path = f"{prefix}{name}"
        leaves |= _leaves(item, f"{path}.") if isinstance(item, dict) else {path: item}
    return leaves


def _layout(candidate: Candidate | None) -> str:
    if candidate is None:
        return "-"
    config = candidate.config
    return f"{workers_text(config)}, {knobs_text(config)}"


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "branch": attempt.branch,
        "round": attempt.round,
        "key": attempt.key,
        "cached": attempt.cached,
        **outcome_document(attempt.outcome),
    }


def _flat(attempt: Attempt) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in _attempt(attempt).items():
        if isinstance(value, dict):
            row |= {f"{name}.{key}": _cell(item) for key, item in value.items()}
        else:
            row[name] = value
    return row


def _cell(value: object) -> object:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
