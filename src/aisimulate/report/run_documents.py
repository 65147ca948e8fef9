"""What `aisimulate runs` tells, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.report.json_text import json_text
from aisimulate.report.runs import comparison_rows
from aisimulate.spica.score import objective_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.report.again import Again, Spread
    from aisimulate.spica.config import Candidate, OptimizationGoal
    from aisimulate.spica.recorded_run import RecordedRun

_VERSION = 1


def list_json(runs: Sequence[RecordedRun]) -> str:
    """List runs, the oldest first."""
    return _text("list", {"runs": [_head(run) for run in runs]})


def show_json(run: RecordedRun, top: int) -> str:
    """Give the best `top` of the ranking or front, with the numbers of their attempts."""
    numbers = {id(candidate): attempt.number for attempt, candidate in run.measured}
    ranked = [
        {"candidate": numbers[id(candidate)], **_candidate(run.config.goal, candidate)}
        for candidate in run.candidates[:top]
    ]
    return _text("ranking", {**_head(run), "ranked": ranked})


def comparison_json(left: RecordedRun, right: RecordedRun) -> str:
    """Set two runs side by side: what was asked differently, the best of both, their fronts; as texts."""
    rows = {name: list(values) for name, *values in comparison_rows(left, right)[1:]}
    return _text("comparison", {"runs": [_head(left), _head(right)], "rows": rows})


def again_json(goal: OptimizationGoal, repeats: Sequence[Again], spreads: Sequence[Spread]) -> str:
    """Say of each candidate what it measured now, and which figures are not those of the record."""
    drawn = {spread.number: spread.values for spread in spreads}
    found = [
        {
            "candidate": again.number,
            "objectives": _objectives(goal, again.metrics),
            "differences": again.differences,
            **({"other_seeds": drawn[again.number]} if again.number in drawn else {}),
        }
        for again in repeats
    ]
    return _text("replays", {"replays": found})


def _text(kind: str, document: dict[str, Any]) -> str:
    return json_text({"format": f"aisimulate.runs.{kind}", "format_version": _VERSION, **document})


def _head(run: RecordedRun) -> dict[str, Any]:
    space, goal = run.config.search_space, run.config.goal
    return {
        "run": run.name,
        "file": str(run.path),
        "status": run.status,
        "model_name": space.model_name,
        "hardware_sku": space.hardware_sku,
        "target": goal.target.value,
        "attempts": len(run.attempts),
        "candidates": len(run.candidates),
        "best": _objectives(goal, run.candidates[0].metrics) if run.candidates else None,
    }


def _objectives(goal: OptimizationGoal, metrics: Mapping[str, float]) -> dict[str, float]:
    return {target.value: objective_value(metrics, target) for target in goal.targets}


def _candidate(goal: OptimizationGoal, candidate: Candidate) -> dict[str, Any]:
    return {
        "objectives": _objectives(goal, candidate.metrics),
        "used_gpus": candidate.used_gpus,
        "config": candidate.config,
        "metrics": candidate.metrics,
    }
