"""The candidates of a run as rows of the page, with what tells them apart."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisimulate.report.confidence import UNKNOWN
from aisimulate.report.launch import launch_lines, surrounding_lines
from aisimulate.report.page.importance import importance, varied_fields, varied_knobs
from aisimulate.report.shapes import candidate_text, shape_text, telling_fields
from aisimulate.spica.confidence import config_confidence
from aisimulate.spica.reported import was_short
from aisimulate.spica.score import rank

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.report.figures import Figure
    from aisimulate.spica.config import Candidate
    from aisimulate.spica.ledger import Attempt
    from aisimulate.spica.recorded_run import RecordedRun

_IN_PART = " (replayed in part)"
_NO_KNOBS = ("used_gpus", "backend_version")


@dataclass(frozen=True, slots=True)
class Row:
    """A feasible candidate: `place` in the ranking from 1 (None behind a front), `number` of its attempt.

    `grade` is the confidence in its data, and `reasons` say why it is not higher.
    """

    number: int
    attempt: Attempt
    candidate: Candidate
    place: int | None
    label: str
    grade: str = UNKNOWN
    reasons: tuple[str, ...] = ()


def candidate_rows(run: RecordedRun) -> list[Row]:
    """List the feasible candidates, best first; behind a Pareto front, what it beats.

    Behind both are those that were replayed in part, unless they were then replayed in full.
    """
    found = {id(candidate): attempt for attempt, candidate in run.measured}
    places = {id(candidate): place for place, candidate in enumerate(run.candidates, start=1)}
    others = [candidate for _, candidate in run.measured if id(candidate) not in places]
    behind = _without_doubles(others, run.candidates)
    ordered = [*run.candidates, *sorted(rank(behind), key=was_short)]
    telling = telling_fields(ordered)
    return [
        Row(
            found[id(candidate)].number,
            found[id(candidate)],
            candidate,
            places.get(id(candidate)),
            candidate_text(candidate, telling) + _IN_PART * was_short(candidate),
            *_confidence(candidate),
        )
        for candidate in ordered
    ]


def _confidence(candidate: Candidate) -> tuple[str, tuple[str, ...]]:
    found = config_confidence(candidate.config)
    return (UNKNOWN, ()) if found is None else (found.grade, found.reasons)


def _without_doubles(others: Sequence[Candidate], ranked: Sequence[Candidate]) -> list[Candidate]:
    """Leave out what was replayed in part and then in full."""
    whole = {_config_key(candidate) for candidate in (*ranked, *others) if not was_short(candidate)}
    return [other for other in others if not was_short(other) or _config_key(other) not in whole]


def _config_key(candidate: Candidate) -> str:
    return json.dumps(candidate.config, sort_keys=True)


def knobs(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the fields that were chosen differently; what follows from others is none."""
    return [name for name in varied_knobs(configs) if not _is_derived(name, configs)]


def _is_derived(name: str, configs: Sequence[Mapping[str, Any]]) -> bool:
    load_is_relative = any(config.get("kv_load_ratio") is not None for config in configs)
    return name in _NO_KNOBS or "capacity" in name or (name == "concurrency" and load_is_relative)


@dataclass(frozen=True, slots=True)
class Importance:
    """A knob, how many values of it were tried, and its share per figure."""

    knob: str
    values: int
    shares: dict[str, float]


def importances(rows: Sequence[Row], figures: Sequence[Figure]) -> list[Importance]:
    """Rate every knob for every figure, by the first figure; the whole shape is rated as a knob too."""
    configs = [_with_shape(row.candidate.config) for row in rows]
    results = {figure.name: [figure.value(row.candidate) for row in rows] for figure in figures}
    rated = []
    for knob in knobs(configs):
        values = [config.get(knob) for config in configs]
        shares = {name: _share(values, result) for name, result in results.items()}
        rated.append(Importance(knob, len({str(value) for value in values}), shares))
    return sorted(rated, key=lambda item: (-item.shares[figures[0].name], item.knob))


def _with_shape(config: Mapping[str, Any]) -> dict[str, Any]:
    return {"shape": shape_text(config), **config}


def _share(values: Sequence[Any], results: Sequence[float | None]) -> float:
    known = [(value, result) for value, result in zip(values, results, strict=True) if result is not None]
    return importance([value for value, _ in known], [result for _, result in known])


def candidates_data(rows: Sequence[Row], figures: Sequence[Figure]) -> dict[str, Any]:
    """Give all rows to the page's script: names once, values per row, and what all have alike once."""
    configs = [row.candidate.config for row in rows]
    varied = varied_fields(configs)
    metrics = list(dict.fromkeys(name for row in rows for name in row.candidate.metrics))
    launches: dict[str, int] = {}
    return {
        "config_names": varied,
        "config_same": {
            name: value for name, value in (configs[0] if configs else {}).items() if name not in varied
        },
        "metric_names": metrics,
        "rows": [
            {
                "number": row.number,
                "branch": row.attempt.branch,
                "round": row.attempt.round,
                "place": row.place,
                "label": row.label,
                "shape": shape_text(row.candidate.config),
                "figures": [figure.value(row.candidate) for figure in figures],
                "config": [row.candidate.config.get(name) for name in varied],
                "metrics": [row.candidate.metrics.get(name) for name in metrics],
                "launch": launches.setdefault(_launch(row.candidate.config), len(launches)),
            }
            for row in rows
        ],
        "launches": list(launches),
    }


def _launch(config: Mapping[str, Any]) -> str:
    return "\n".join([*launch_lines(config), *surrounding_lines(config)])
