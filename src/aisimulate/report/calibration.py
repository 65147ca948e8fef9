"""The outcome of a calibration on the terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aisimulate.core.shown import visible
from aisimulate.report.columns import aligned
from aisimulate.report.numbers import percent_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aisimulate.config.calibration import CalibrationKey
    from aisimulate.fidelity.calibrate.calibration import Outcome
    from aisimulate.fidelity.calibrate.loss import Errors

_TITLES = {"ttft": "TTFT mean", "tpot": "ITL per request mean", "e2e": "request latency mean"}
_TITLES |= {"throughput": "output throughput"}
_MISSING = "-"


def outcome_table(outcome: Outcome) -> str:
    """Lay out what was fitted, and the errors (simulated / measured - 1) before and after it."""
    lines = [*_head(outcome), "", *_errors(outcome), ""]
    lines += [f"warning: {note}" for note in outcome.calibration.notes]
    return "\n".join(lines).rstrip("\n") + "\n"


def outcome_json(outcome: Outcome) -> str:
    """Write the same as JSON, with the calibration."""
    document = {
        "calibration": outcome.calibration.model_dump(mode="json", exclude_none=True),
        "fitted_requests": outcome.fitted,
        "held_out_requests": outcome.held_out,
        "replays": outcome.replays,
        "training_losses": dict(outcome.losses),
        "errors": {name: _part(*pair) for name, pair in _stages(outcome)},
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def applied_text(calibration: Mapping[str, Any]) -> str:
    """Say on one line that a calibration was applied, and how well it fits what it was made from.

    `calibration` is what the provenance of a report says of it.
    """
    factors = f"prefill x {calibration['prefill_scale']:.3f}, decode x {calibration['decode_scale']:.3f}"
    return _applied(calibration, factors, calibration.get("ttft_ratio", 1.0))


def calibration_line(calibration: Mapping[str, Any]) -> str:
    """Say the same of what is in a calibration file, before any load is known."""
    told = {**calibration, **calibration["source"], "step_model": "step_model" in calibration}
    factors = "prefill x {prefill_scale:.3f}, decode x {decode_scale:.3f}".format(**told)
    if points := calibration.get("points"):
        by = "rate_rps" if "rate_rps" in points[0] else "concurrency"
        has_own = told["prefill_scale"] != 1.0 or told["decode_scale"] != 1.0
        by_load = f"by {by} pass times {_range(points, 'step_scale')}, TTFT {_range(points, 'ttft_ratio')}"
        factors = f"{factors}, {by_load}" if has_own else by_load
    return _applied({"training_error": {}, **told}, factors, 1.0)


def engine_line(key: CalibrationKey) -> str:
    """Say which engine a calibration is for, as far as it is known."""
    told = key.model_dump(exclude_none=True)
    return "engine: " + ", ".join(f"{name} {value}" for name, value in told.items())


def _range(points: Sequence[Mapping[str, Any]], name: str) -> str:
    """Give the range of a factor at the measured loads; the outermost points only say where it has faded."""
    values = [point[name] for point in (points[1:-1] or points)]
    low, high = min(values), max(values)
    return f"x {low:.3f}" if low == high else f"x {low:.3f} to x {high:.3f}"


def _applied(calibration: Mapping[str, Any], factors: str, ttft_ratio: float) -> str:
    parts = ["a step model"] if calibration["step_model"] else []
    parts.append(factors)
    if ttft_ratio != 1.0:
        parts.append(f"TTFT x {ttft_ratio:.3f}")
    if offset_ms := calibration.get("ttft_offset_ms"):
        parts.append(f"all {offset_ms:g} ms later")
    size = next((f", {calibration[name]} {name}" for name in ("requests", "rows") if name in calibration), "")
    errors = f"training error: {_error_list(calibration['training_error']) or 'not told'}"
    if held_out := _error_list(calibration.get("held_out_error") or {}):
        errors += f"; held-out error: {held_out}"
    doubts = len(calibration.get("notes") or ())
    ending = f"; {doubts} {'doubt' if doubts == 1 else 'doubts'} in its notes" if doubts else ""
    line = f"calibrated by {calibration['file']}{size}: {', '.join(parts)}; {errors}{ending}"
    return visible(line)


def _error_list(errors: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {percent_text(value, 1)}" for name, value in errors.items())


def _head(outcome: Outcome) -> Iterator[str]:
    calibration = outcome.calibration
    yield engine_line(calibration.key)
    source = calibration.source
    yield (
        f"log: {source.file} ({source.format}), fitted on the first {outcome.fitted} requests, "
        f"{outcome.held_out} held out, {outcome.replays} replays"
    )
    if calibration.ttft_offset_ms:
        yield f"clients see everything {calibration.ttft_offset_ms:g} ms later (ttft_offset_ms)"
    if calibration.scheduling_look_ahead:
        yield "passes are planned one ahead (scheduling_look_ahead 1)"
    if calibration.step_model is not None:
        terms = calibration.step_model.model_dump()
        yield "step model: " + ", ".join(f"{name} {value:.6g}" for name, value in terms.items())
        return
    yield f"prefill_scale {calibration.prefill_scale:.4f}, decode_scale {calibration.decode_scale:.4f}"
    losses = ", ".join(f"{name} {loss:.4f}" for name, loss in outcome.losses)
    yield f"mixed passes: {calibration.timing_mode or 'none'} (training loss: {losses})"


def _errors(outcome: Outcome) -> list[str]:
    rows = [["error of the mean"]]
    columns: list[Errors | None] = []
    for name, (training, held_out) in _stages(outcome):
        rows[0] += [f"{name}, fitted", f"{name}, held out"]
        columns += [training, held_out]
    for field, title in _TITLES.items():
        values = (None if item is None else getattr(item, field) for item in columns)
        rows.append([title, *(_MISSING if value is None else percent_text(value, 2) for value in values)])
    return aligned(rows)


def _stages(outcome: Outcome) -> list[tuple[str, tuple[Errors, Errors | None]]]:
    before = [] if outcome.before is None else [("before", outcome.before)]
    return [*before, ("after", outcome.after)]


def _part(training: Errors, held_out: Errors | None) -> dict[str, Any]:
    return {"fitted": asdict(training), "held_out": None if held_out is None else asdict(held_out)}
