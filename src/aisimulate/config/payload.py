"""From the JSON payload of a replay to checked models (spec 02 section 1.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aisimulate.config.aic import aic_config
from aisimulate.config.calibrated_ranks import planned_as_calibrated
from aisimulate.config.calibration_file import read_calibration
from aisimulate.config.inert import unused_settings
from aisimulate.config.json_text import read_json
from aisimulate.config.messages import label, parse_model, show
from aisimulate.config.scaling import scaling_config, scaling_notes
from aisimulate.config.sla_doubts import sla_doubts
from aisimulate.config.spec import ReplayRequest, ReplaySpec
from aisimulate.config.traffic import RuntimeTraffic
from aisimulate.core.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Execution:
    """A checked payload.

    `traffic` is None when the requests are authored in the spec. `engine` is the engine object as
    authored, which tells explicit settings from defaults. `notes` name settings that cannot act.
    """

    spec: ReplaySpec
    traffic: RuntimeTraffic | None
    engine: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def parse_payload(payload: str | Mapping[str, Any]) -> Execution:
    """Read `{"spec": .., "traffic": ..}`, `{"spec": ..}` or a bare spec, as JSON text or as its value.

    Raises `InputError`: one line with field path, value and rule.
    """
    document = _document(payload)
    raw_spec, raw_traffic = _halves(document)
    raw_spec = _with_calibration(raw_spec)
    spec = planned_as_calibrated(parse_model(ReplaySpec, raw_spec, "spec"))
    traffic = None if raw_traffic is None else parse_model(RuntimeTraffic, raw_traffic, "traffic")
    other_notes = [*_check_external_timing(spec), *scaling_notes(spec, scaling_config(spec))]
    if traffic is None:
        _check_requests(raw_spec)
    else:
        _check_limits(spec, traffic)
    engine = raw_spec.get("engine") or {}
    other_notes += sla_doubts(spec.sla.model_dump(), "spec.sla")
    notes = (*_unknown(document, raw_spec), *unused_settings(spec, traffic), *other_notes)
    return Execution(spec, traffic, engine, notes)


def _document(payload: object) -> Mapping[str, Any]:
    value = read_json(payload, "payload") if isinstance(payload, str) else payload
    if not isinstance(value, Mapping):
        raise InputError(f"payload: {show(value)} is not an object")
    return value


def _with_calibration(raw_spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the calibration that a spec names by its file; one written out in the spec stays as it is."""
    named = raw_spec.get("calibration")
    if not isinstance(named, str):
        return raw_spec
    return {**raw_spec, "calibration": read_calibration(Path(named))}


def _halves(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], object]:
    """Tell the two forms apart by their keys, so that an error in one half is reported as itself."""
    if "spec" not in document and "traffic" not in document:
        return document, None
    if "spec" not in document:
        raise InputError("spec: missing (required beside traffic)")
    spec = document["spec"]
    if not isinstance(spec, Mapping):
        raise InputError(f"spec: {show(spec)} is not an object")
    return spec, document.get("traffic")


def _check_external_timing(spec: ReplaySpec) -> list[str]:
    """Check the AIC settings of the roles in use; name those that cannot act."""
    notes: list[str] = []
    for stage in spec.stages:
        path = spec.engine.rank_path(stage)
        aic = aic_config(spec.engine.role(stage).rank, path)
        unused = () if aic is None else aic.unused_fractions
        notes += [f"{path}.timing_model.config.{name}: no effect on this backend" for name in unused]
    return notes


def _check_requests(raw_spec: Mapping[str, Any]) -> None:
    if "requests" not in raw_spec:
        raise InputError("spec.requests: missing (required without traffic)")
    if not raw_spec["requests"]:
        raise InputError("spec.requests: empty, and there is no traffic")


def _check_limits(spec: ReplaySpec, traffic: RuntimeTraffic) -> None:
    """The same limit may be given in both halves; it must then be the same."""
    time_ms = traffic.max_sim_time_ms
    if time_ms is not None and time_ms != spec.max_sim_time_ms:
        other = "not set" if spec.max_sim_time_ms is None else f"{spec.max_sim_time_ms:g}"
        raise InputError(
            f"traffic.max_sim_time_ms: {time_ms:g} must equal spec.max_sim_time_ms, which is {other}"
        )
    if traffic.load_type == "kv_capacity_fraction" and spec.max_in_flight is not None:
        raise InputError(
            f"spec.max_in_flight: {spec.max_in_flight} has no effect with load_type 'kv_capacity_fraction'"
        )
    cap = traffic.replay_concurrency if traffic.source_type == "trace" else traffic.concurrency
    if cap is not None and spec.max_in_flight not in (None, cap):
        raise InputError(f"spec.max_in_flight: {spec.max_in_flight} contradicts the traffic's cap {cap}")


def _unknown(document: Mapping[str, Any], raw_spec: Mapping[str, Any]) -> Iterator[str]:
    if document is not raw_spec:
        for key in document:
            if key not in ("spec", "traffic"):
                yield f"payload.{label(str(key))}: unknown field, ignored"
    legal = tuple(ReplaySpec.model_fields)
    for key in raw_spec:
        if key not in legal:
            yield f"spec.{label(str(key))}: unknown field, ignored{nearest(str(key), legal)}"
    legal = tuple(ReplayRequest.model_fields)
    for key in dict.fromkeys(key for request in raw_spec.get("requests") or () for key in request):
        if key not in legal:
            hint = nearest(str(key), legal)
            yield f"spec.requests[].{label(str(key))}: unknown field, ignored{hint}"
