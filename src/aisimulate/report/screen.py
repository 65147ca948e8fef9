"""The answer of `aisimulate screen` as tables and as data; every figure in it is an estimate."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aisimulate.report.columns import aligned
from aisimulate.report.numbers import number_text
from aisimulate.report.ranking import TARGET_TITLES
from aisimulate.report.shapes import knobs_text, replicas_text, shape_text
from aisimulate.spica.config_goal import OptimizationTarget
from aisimulate.spica.dedupe import digest
from aisimulate.spica.versions import program_versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.screen.answer import ScreenAnswer, ScreenedPoint

FORMAT = "aisimulate.screen"
FORMAT_VERSION = 1

_LEGEND = "!: doubtful (see the last column); replay before you rely on it"


def screen_text(answer: ScreenAnswer) -> str:
    """Lay out the estimates for a terminal."""
    lines = [
        "ESTIMATE by formulas, nothing was replayed. `aisimulate spica` measures the best of these.",
        "",
    ]
    target = answer.plan.config.goal.target
    if answer.best:
        lines += [f"best by estimated {target.value}:", *_table(answer.best), ""]
    names = " and ".join(target.value for target in answer.front_targets)
    hidden = answer.front_size - len(answer.front)
    some = f", {len(answer.front)} of them spread over it (--top N shows N)" if hidden > 0 else ""
    lines += [f"front of estimated {names}: {answer.front_size} points{some}", *_table(answer.front)]
    if any(point.doubts for point in (*answer.best, *answer.front)):
        lines += ["", _LEGEND]
    return "\n".join([*lines, *_closing(answer), ""])


def screen_description(answer: ScreenAnswer) -> dict[str, Any]:
    """Describe the same as JSON-ready data."""
    config = answer.plan.config.model_dump(mode="json")
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "estimate": True,
        "versions": program_versions(),
        "backend_versions": answer.backend_versions,
        "config": config,
        "config_sha256": digest(config),
        "points": answer.points,
        "computed": answer.computed,
        "cannot_run": answer.cannot_run,
        "doubtful": answer.doubtful,
        "best": [asdict(point) for point in answer.best],
        "front_objectives": [target.value for target in answer.front_targets],
        "front_size": answer.front_size,
        "front": [asdict(point) for point in answer.front],
        "notes": answer.notes,
    }


def _table(points: Sequence[ScreenedPoint]) -> list[str]:
    names = list(dict.fromkeys(name for point in points for name in point.values))
    titles = [TARGET_TITLES[OptimizationTarget(name)] for name in names]
    header = ["", "shape", "replicas", "GPUs", "batch tokens/seqs", *titles, ""]
    rows = [_row(point, names) for point in points]
    return aligned([header, *rows], to_right={3, *range(5, 5 + len(names))})


def _row(point: ScreenedPoint, names: Sequence[str]) -> list[str]:
    equal = f" (+{point.equal} equal)" if point.equal else ""
    return [
        "!" if point.doubts else "",
        shape_text(point.config),
        replicas_text(point.config) + _copies(point),
        str(point.used_gpus),
        knobs_text(point.config) + equal,
        *(number_text(point.values[name]) if name in point.values else "-" for name in names),
        "; ".join(point.doubts),
    ]


def _copies(point: ScreenedPoint) -> str:
    """Say in which other sizes the same deployment does the same per GPU."""
    return f" (to x{point.copies[-1]})" if point.copies else ""


def _closing(answer: ScreenAnswer) -> list[str]:
    counts = f"{answer.points:,} deployments, {answer.doubtful:,} of them doubtful"
    if answer.cannot_run:
        counts += f", {answer.cannot_run:,} cannot run"
    return ["", counts]
