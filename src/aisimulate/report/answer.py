"""A whole answer on the terminal: the ranking, the front as a plot, what to verify, and the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.report.confidence import candidate_confidence_text
from aisimulate.report.evidence import evidence_line, verify_lines
from aisimulate.report.front_plot import front_plot_lines
from aisimulate.report.inside import fullness_text, is_short, look_inside, origins_text
from aisimulate.report.ranking import ranking_text
from aisimulate.spica.versions import program_versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal
    from aisimulate.spica.recorded_run import RecordedRun
    from aisimulate.spica.search import SearchResult


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found: the ranking or front, everything that was measured, and its evidence.

    `numbers` are those of the attempts, by `id` of the candidate; None where nothing was recorded.
    `notes` tell what was left out, or is hardly meant.
    """

    goal: OptimizationGoal
    ranked: Sequence[Candidate]
    measured: Sequence[Candidate]
    evidence: str
    numbers: Mapping[int, int] | None = None
    notes: Sequence[str] = ()


def answer_of_search(
    result: SearchResult, origins: str = "", ranked: Sequence[Candidate] | None = None
) -> Answer:
    """Gather the answer of a search that just ended.

    `origins` are those of `first_origins`; `ranked` is the ranking, or a part of it.
    """
    plan = result.plan
    measured = [outcome.candidate for outcome in result.outcomes if outcome.candidate is not None]
    evidence = evidence_line(
        plan.config,
        program_versions(),
        result.backend_versions,
        plan.trace_digest,
        origins,
        _first_confidence(result.candidates),
    )
    shown = result.candidates if ranked is None else ranked
    return Answer(plan.config.goal, shown, measured, evidence, notes=plan.notes)


def _first_confidence(candidates: Sequence[Candidate]) -> str:
    return candidate_confidence_text(candidates[0]) if candidates else ""


def first_origins(result: SearchResult) -> str:
    """Say where the pass times of the first candidate came from, and whether its KV cache was nearly full.

    Empty where replaying it takes long.
    """
    if result.interrupted or not result.candidates or not is_short(result.candidates[0]):
        return ""
    inside = look_inside(result.plan.config, result.candidates[0])
    parts = (origins_text(inside.origins, inside.beyond), fullness_text(inside))
    return "; ".join(part for part in parts if part)


def answer_of_run(run: RecordedRun) -> Answer:
    """Gather the answer of a recorded search."""
    numbers = {id(candidate): attempt.number for attempt, candidate in run.measured}
    measured = [candidate for _, candidate in run.measured]
    facts = run.facts
    evidence = evidence_line(
        run.config,
        facts.get("versions", {}),
        facts.get("backend_versions", {}),
        facts.get("trace_sha256"),
        str(facts.get("first_origins", "")),
        _first_confidence(run.candidates),
    )
    return Answer(run.config.goal, run.candidates, measured, evidence, numbers, facts.get("notes", ()))


def answer_text(answer: Answer, top: int, gpu_hour_price: float | None = None) -> str:
    """Write an answer that has a candidate."""
    ranking = ranking_text(
        answer.goal, answer.ranked, top, gpu_hour_price=gpu_hour_price, numbers=answer.numbers
    )
    lines = front_plot_lines(answer.goal, answer.ranked, answer.measured)
    lines += verify_lines(answer.goal, answer.ranked)
    lines += [f"note: {note}" for note in answer.notes]
    return ranking + "\n".join([*lines, answer.evidence, ""])
