"""What was asked, and what the answer rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from aisimulate.report.calibration import calibration_line
from aisimulate.report.confidence import candidate_confidence_text
from aisimulate.report.evidence import (
    TIMING_MODES,
    frontend_text,
    has_other_results,
    nothing_near_text,
    rivals,
    timing_mode_of,
)
from aisimulate.spica.config import Workload
from aisimulate.spica.outcome import Status
from aisimulate.spica.reported import reported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.report.figures import Figure
    from aisimulate.report.page.candidates import Row
    from aisimulate.report.page.scrub import Scrubber
    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.recorded_run import RecordedRun


def asked_yaml(run: RecordedRun, scrubber: Scrubber) -> str:
    """Give the search as a YAML file that asks the same again; the trace by its name alone."""
    return yaml.safe_dump(scrubber.value(run.facts.get("asked", {})), sort_keys=False, allow_unicode=True)


def evidence(run: RecordedRun) -> dict[str, str]:
    """List what the numbers rest on, by title."""
    facts, space = run.facts, run.config.search_space
    versions = [f"{name} {version}" for name, version in facts.get("versions", {}).items()]
    engines = [f"{name} {version}" for name, version in facts.get("backend_versions", {}).items()]
    digest, mode = facts.get("trace_sha256"), timing_mode_of(run.config)
    return {
        "Programs": ", ".join(versions) or "not recorded",
        "Pass times and memory": f"aiconfigurator-core's measurements of {', '.join(engines) or 'unknown'} "
        f"on {space.hardware_sku}; between measured points they are interpolated, beyond them extrapolated",
        "Time of a mixed pass": f"{mode}: {TIMING_MODES[mode]}",
        **_calibration(run.config),
        **_settings(run.config),
        **_confidence(run),
        **_notes(run),
        "Seed": str(facts.get("seed", "not recorded")),
        "Traffic": f"SHA-256 {digest}" if digest else "synthetic, drawn from the seed",
        "Search": f"SHA-256 {facts.get('config_sha256', 'not recorded')} of its configuration",
    }


def _calibration(config: SmartSearchConfig) -> dict[str, str]:
    calibration = config.calibration
    return {} if calibration is None else {"Calibration": calibration_line(calibration)}


def _settings(config: SmartSearchConfig) -> dict[str, str]:
    """Name a look-ahead and a front end, where there is one."""
    found: dict[str, str] = {}
    if config.search_space.scheduling_look_ahead:
        found["Scheduling"] = "one pass ahead, as asynchronous schedulers do"
    if text := frontend_text(config):
        found["Front end"] = text
    return found


def _notes(run: RecordedRun) -> dict[str, str]:
    notes = run.facts.get("notes")
    return {"Notes of the search": "; ".join(notes)} if notes else {}


def _confidence(run: RecordedRun) -> dict[str, str]:
    text = candidate_confidence_text(run.candidates[0]) if run.candidates else ""
    return {"Confidence in the data of the first": text} if text else {}


def counts(run: RecordedRun) -> dict[str, int]:
    """Count the attempts by how they ended; repeated ones are told apart."""
    fresh = [attempt for attempt in run.attempts if not attempt.cached]
    found = {status.value: sum(a.outcome.status is status for a in fresh) for status in Status}
    return {
        **{name: count for name, count in found.items() if count},
        "repeated": len(run.attempts) - len(fresh),
    }


@dataclass(frozen=True, slots=True)
class NumberedRival:
    """A close candidate as the page shows it."""

    number: int
    label: str
    gap: str
    metric: str


def numbered_rivals(rows: Sequence[Row], shown: Sequence[Figure]) -> list[NumberedRival]:
    """Name what to measure on hardware before believing the order."""
    by_candidate = {id(row.candidate): row for row in rows}
    found = []
    for rival in rivals(reported([row.candidate for row in rows]), shown):
        row = by_candidate[id(rival.candidate)]
        found.append(NumberedRival(row.number, row.label, rival.gap, rival.metric))
    return found


def stands_alone(rows: Sequence[Row], shown: Sequence[Figure]) -> str:
    """Say so where other results were measured and none comes near the first; else empty."""
    ranked = reported([row.candidate for row in rows])
    is_alone = has_other_results(ranked) and not rivals(ranked, shown)
    return nothing_near_text(shown[0].title) if is_alone else ""


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
