"""What an answer rests on, and what to measure on hardware before believing its order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.report.calibration import calibration_line
from aisimulate.report.figures import figures
from aisimulate.report.missed_sla import is_sla_missed
from aisimulate.report.numbers import percent_text
from aisimulate.report.shapes import candidate_text, telling_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.report.figures import Figure
    from aisimulate.spica.config import Candidate, OptimizationGoal, SmartSearchConfig

_RIVALS = 3
NEAR = 0.2
"""A candidate is close to the first where its goal is this share of it apart at most."""

_DIGEST_DIGITS = 12
TIMING_MODES = {
    "additive": "the time of its prefill plus that of its decode",
    "fused": "the time of one forward over all its tokens",
    "half": "the mean of the two, prefill plus decode and one forward",
}


@dataclass(frozen=True, slots=True)
class Rival:
    """A candidate close to the best: how far its goal is behind, and the figure in which they differ most."""

    candidate: Candidate
    gap: str
    metric: str


def evidence_line(
    config: SmartSearchConfig,
    versions: Mapping[str, str],
    backend_versions: Mapping[str, str],
    trace_digest: str | None,
    origins: str = "",
    confidence: str = "",
) -> str:
    """Say on one line what the numbers were made with.

    `origins`: those of the first candidate's forwards; `confidence`: that in its data.
    """
    space = config.search_space
    engines = ", ".join(f"{name} {version}" for name, version in backend_versions.items())
    programs = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    parts = [
        f"evidence: simulated with {programs}",
        f"measurements of {engines} on {space.hardware_sku}",
        f"{timing_mode_of(config)} pass times",
        *_settings(config),
        f"seed {config.sweep.random_seed}",
    ]
    if config.calibration is not None:
        parts.append(calibration_line(config.calibration))
    if trace_digest is not None:
        parts.append(f"trace {trace_digest[:_DIGEST_DIGITS]}")
    if origins:
        parts.append(f"forwards of the first: {origins}")
    if confidence:
        parts.append(f"confidence in the data of the first: {confidence}")
    return "; ".join(parts)


def _settings(config: SmartSearchConfig) -> list[str]:
    """Name what was put between clients and engines, and a look-ahead."""
    found = ["passes planned one ahead"] if config.search_space.scheduling_look_ahead else []
    if text := frontend_text(config):
        found.append(f"front end {text}")
    return found


def frontend_text(config: SmartSearchConfig) -> str:
    """Say what a front end was told to be; empty where there is none."""
    if config.workload.frontend is None:
        return ""
    given = config.workload.frontend.model_dump(exclude_none=True).items()
    return ", ".join(f"{name} {value}" for name, value in given) or "without effect"


def timing_mode_of(config: SmartSearchConfig) -> str:
    """Name how mixed passes of aggregated workers were timed: as a calibration says, or the search."""
    calibrated = (config.calibration or {}).get("timing_mode")
    return str(calibrated or config.search_space.timing_mode)


def verify_lines(goal: OptimizationGoal, ranked: Sequence[Candidate]) -> list[str]:
    """Name the closest candidates of other results, or say that none comes near, for the terminal.

    Nothing when all measured the same, or no request met the SLA, so that there is no winner.
    """
    if is_sla_missed(goal, ranked):
        return []
    found = rivals(ranked, figures(goal))
    if not found and has_other_results(ranked):
        return ["verify on hardware: " + nothing_near_text(goal.targets[0].value)]
    telling = telling_fields(ranked)
    target = goal.targets[0].value
    lines = [
        f"  {candidate_text(rival.candidate, telling)}: {target} {rival.gap}; {rival.metric}"
        for rival in found
    ]
    return ["verify on hardware against the closest others:", *lines] if lines else []


def has_other_results(ranked: Sequence[Candidate]) -> bool:
    """Whether any candidate measured differently from the first."""
    return any(candidate.metrics != ranked[0].metrics for candidate in ranked[1:])


def nothing_near_text(figure: str) -> str:
    """Say that the first stands alone in a figure."""
    return f"no other result is within {NEAR:.0%} of the first in {figure}"


def rivals(ranked: Sequence[Candidate], shown: Sequence[Figure]) -> list[Rival]:
    """Find the candidates behind the first, near it, that measured differently from it and each other."""
    found: list[Rival] = []
    seen = [candidate.metrics for candidate in ranked[:1]]
    for candidate in ranked[1:]:
        best, other = shown[0].value(ranked[0]), shown[0].value(candidate)
        if not _is_near(best, other) or candidate.metrics in seen:
            continue  # far off, or a setting that never mattered
        seen.append(candidate.metrics)
        figure = _most_different(shown, ranked[0], candidate)
        gap = _gap_text(best, other)
        metric = f"{figure.title} {figure.text(ranked[0])} against {figure.text(candidate)}"
        found.append(Rival(candidate, gap, metric))
        if len(found) == _RIVALS:
            break
    return found


def _is_near(best: float | None, other: float | None) -> bool:
    if best is None or other is None:
        return best is other
    return abs(other - best) <= NEAR * abs(best)


def _gap_text(best: float | None, other: float | None) -> str:
    if not best or other is None:
        return "-"
    return percent_text((other - best) / best, 1)


def _most_different(shown: Sequence[Figure], best: Candidate, other: Candidate) -> Figure:
    return max(shown, key=lambda figure: _distance(figure.value(best) or 0.0, figure.value(other) or 0.0))


def _distance(own: float, other: float) -> float:
    """Tell how far apart two values are, as a share of the larger one."""
    size = max(abs(own), abs(other))
    return abs(own - other) / size if size else 0.0
