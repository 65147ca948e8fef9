"""A search as one JSON document: same input, same bytes (spec 05 section 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.report.json_text import json_text
from aisimulate.report.outcome_document import outcome_document
from aisimulate.spica.dedupe import digest
from aisimulate.spica.outcome import Status
from aisimulate.spica.score import epsilon_front
from aisimulate.spica.versions import program_versions

if TYPE_CHECKING:
    from aisimulate.spica.loop import BranchReport
    from aisimulate.spica.outcome import Outcome
    from aisimulate.spica.search import SearchResult
    from aisimulate.spica.summary import Tally

FORMAT = "aisimulate.spica.result"
FORMAT_VERSION = 1


def search_envelope(
    result: SearchResult, *, top: int | None = None, epsilon: float | None = None
) -> dict[str, Any]:
    """Describe a finished or interrupted search: provenance, counts, every attempt, and the ranking.

    `ranking` (or `pareto_front`) refers to `attempts` by id; `top` shortens it. With `epsilon` there is an
    `epsilon_front` beside the exact one. Nothing in it depends on real time.
    """
    plan = result.plan
    config = plan.config.model_dump(mode="json")
    ids = [f"candidate-{number:06d}" for number in range(1, len(result.outcomes) + 1)]
    by_candidate = {id(outcome.candidate): name for name, outcome in zip(ids, result.outcomes, strict=True)}
    view = "pareto_front" if plan.config.goal.is_pareto else "ranking"
    views = {view: [by_candidate[id(candidate)] for candidate in result.candidates[:top]]}
    if epsilon is not None:
        thinned = epsilon_front(result.candidates, epsilon)
        views["epsilon_front"] = [by_candidate[id(candidate)] for candidate in thinned]
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": program_versions(),
        "backend_versions": result.backend_versions,
        "config": config,
        "config_sha256": digest(config),
        "trace_sha256": plan.trace_digest,
        "seed": plan.config.sweep.random_seed,
        "status": result.status,
        "notes": plan.notes,
        "branches": [_branch(report, plan.policies) for report in result.branches],
        "counts": _counts(result.progress.tally),
        "attempts": [_attempt(name, outcome) for name, outcome in zip(ids, result.outcomes, strict=True)],
        "nearest": [ids[result.outcomes.index(near)] for near in result.near_misses],
        **views,
    }


def envelope_text(envelope: dict[str, Any]) -> str:
    """Write an envelope as JSON."""
    return json_text(envelope)


def _branch(report: BranchReport, policies: dict[str, str]) -> dict[str, Any]:
    return {
        "deployment_mode": report.deployment_mode,
        "sampler": policies[report.deployment_mode],
        "finite_size": report.finite_size,
        "rounds": report.rounds,
        "suggestions": report.attempts,
        "tried_points": report.tried_points,
        "feasible": report.feasible,
        "complete": report.is_complete,
        "stop_reason": report.stop.value,
    }


def _counts(tally: Tally) -> dict[str, int]:
    counts = {status.value: tally.count(status) for status in Status}
    return {**counts, "evaluated": tally.evaluated, "cache_hits": tally.cache_hits}


def _attempt(name: str, outcome: Outcome) -> dict[str, Any]:
    return {
        "id": name,
        **outcome_document(outcome),
        "used_gpus": outcome.used_gpus,
        "missed": outcome.missed or None,
    }
