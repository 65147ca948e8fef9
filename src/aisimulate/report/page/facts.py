"""What was asked, and what the answer rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from aisimulate.report.numbers import number_text
from aisimulate.spica.config import Workload
from aisimulate.spica.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aisimulate.report.page.candidates import Row
    from aisimulate.report.page.figures import Figure
    from aisimulate.report.page.scrub import Scrubber
    from aisimulate.spica.recorded_run import RecordedRun

_RIVALS = 3


def asked_yaml(run: RecordedRun, scrubber: Scrubber) -> str:
    """Give the search as a YAML file that asks the same again; the trace by its name alone."""
    return yaml.safe_dump(scrubber.value(run.facts.get("asked", {})), sort_keys=False, allow_unicode=True)


def evidence(run: RecordedRun) -> dict[str, str]:
    """List what the numbers rest on, by title."""
    facts, space = run.facts, run.config.search_space
    versions = [f"{name} {version}" for name, version in facts.get("versions", {}).items()]
    engines = [f"{name} {version}" for name, version in facts.get("backend_versions", {}).items()]
    digest = facts.get("trace_sha256")
    return {
        "Programs": ", ".join(versions) or "not recorded",
        "Pass times and memory": f"aiconfigurator-core's measurements of {', '.join(engines) or 'unknown'} "
        f"on {space.hardware_sku}; between measured points they are interpolated, beyond them extrapolated",
        "Time of a mixed pass": f"{space.timing_mode}: {_TIMING[space.timing_mode]}",
        "Seed": str(facts.get("seed", "not recorded")),
        "Traffic": f"SHA-256 {digest}" if digest else "synthetic, drawn from the seed",
        "Search": f"SHA-256 {facts.get('config_sha256', 'not recorded')} of its configuration",
    }


_TIMING = {
    "additive": "the time of its prefill plus that of its decode",
    "fused": "the time of one forward over all its tokens",
}


def counts(run: RecordedRun) -> dict[str, int]:
    """Count the attempts by how they ended; repeated ones are told apart."""
    fresh = [attempt for attempt in run.attempts if not attempt.cached]
    found = {status.value: sum(a.outcome.status is status for a in fresh) for status in Status}
    return {
        **{name: count for name, count in found.items() if count},
        "repeated": len(run.attempts) - len(fresh),
    }


@dataclass(frozen=True, slots=True)
class Rival:
    """A candidate close to the best: how far its goal is behind, and the figure in which they differ most."""

    number: int
    label: str
    gap: str
    metric: str


def rivals(rows: Sequence[Row], figures: Sequence[Figure]) -> list[Rival]:
    """Name what to measure on hardware before believing the order: the closest ones of other results."""
    if not rows:
        return []
    best, goal = rows[0].candidate, figures[0]
    found: list[Rival] = []
    seen = [best.metrics]
    for row in rows[1:]:
        if row.candidate.metrics in seen:
            continue  # a setting that never mattered
        seen.append(row.candidate.metrics)
        name, own, other = _most_different(figures, rows[0], row)
        found.append(
            Rival(
                row.number,
                row.label,
                _gap_text(goal.value(best), goal.value(row.candidate)),
                f"{name}: {number_text(own)} of the best, {number_text(other)} of this one",
            )
        )
        if len(found) == _RIVALS:
            break
    return found


def _gap_text(best: float | None, other: float | None) -> str:
    if not best or other is None:
        return "-"
    return f"{(other - best) / best:+.1%}"


def _most_different(figures: Sequence[Figure], best: Row, row: Row) -> tuple[str, float, float]:
    pairs = (
        (figure.title, figure.value(best.candidate) or 0.0, figure.value(row.candidate) or 0.0)
        for figure in figures
    )
    return max(pairs, key=lambda pair: _distance(pair[1:]))


def _distance(pair: Iterable[float]) -> float:
    own, other = pair
    size = max(abs(own), abs(other))
    return abs(own - other) / size if size else 0.0


def question(config: Mapping[str, Any], scrubber: Scrubber) -> dict[str, str]:
    """Sum up what was asked: model, hardware, traffic, goal and SLA."""
    space, workload, goal = config["search_space"], config["workload"], config["goal"]
    defaults = Workload.model_fields
    asked = {name: value for name, value in workload.items() if value != defaults[name].default}
    sla = {name: value for name, value in (goal.get("sla") or {}).items() if value is not None}
    return {
        "Model": scrubber.text(space["model_name"]),
        "GPUs": f"up to {space['gpu_budget']} x {scrubber.text(space['hardware_sku'])}",
        "Traffic": scrubber.text(", ".join(f"{name} {value}" for name, value in asked.items())),
        "Goal": goal["target"],
        "SLA": ", ".join(f"{name} {value:g}" for name, value in sla.items()) or "none",
    }
