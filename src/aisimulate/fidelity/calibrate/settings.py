"""The engine that a log was taken on: a payload, or only its engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aisimulate.config.document_file import read_document
from aisimulate.config.engine import RoleConfig
from aisimulate.config.payload import parse_payload
from aisimulate.config.rank import RankConfig
from aisimulate.config.spec import Aggregated
from aisimulate.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from aisimulate.config.payload import Execution

_ONE_WORKER = {"kind": "aggregated", "workers": {"initial_workers": 1}}
# Stands for the requests of the log, so that the checks have something to check.
_STAND_IN = {"id": "0", "arrival_time_ms": 0.0, "input_tokens": 1, "output_tokens": 1}
_TIMES = ("prefill_scale", "decode_scale")


def read_settings(path: Path, *, table_free: bool = False) -> Execution:
    """Read the engine settings of a calibration, as JSON or YAML.

    A payload of `simulate`, a bare spec, or a mapping with `engine` alone, which then is one worker. Its
    traffic is left out: the log is the traffic. `table_free` lets pass times be missing. Raises `InputError`.
    """
    name = f"engine settings {str(path)!r}"
    value = read_document(path, name)
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: expected an object with spec, or with engine")
    spec = value.get("spec", value)
    if not isinstance(spec, Mapping) or "engine" not in spec:
        raise InputError(f"{name}: engine is missing (required){_meant(spec)}")
    return settings_of(spec, table_free=table_free)


def _meant(spec: object) -> str:
    """Say where settings belong that stand at the top."""
    given = [name for name in spec if isinstance(name, str)] if isinstance(spec, Mapping) else []
    for fields, place in ((RoleConfig, "engine"), (RankConfig, "engine.rank")):
        if found := [name for name in given if name in fields.model_fields]:
            return f"; {found[0]} belongs into {place}"
    return ""


def settings_of(spec: Mapping[str, Any], *, table_free: bool = False) -> Execution:
    """Check the same, given as the `spec` half of a payload."""
    if spec.get("calibration") is not None:
        raise InputError("spec.calibration: may not be given: it is what is to be made")
    ours = {"topology": _ONE_WORKER, **spec, "requests": [_STAND_IN], "record_per_request": True}
    execution = parse_payload({"spec": _without_empty_model(ours) if table_free else ours})
    _check(execution, table_free=table_free)
    return execution


def _without_empty_model(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let `timing_model: {type: linear}` without coefficients stand for those that are to be found."""
    engine = spec["engine"]
    rank = engine.get("rank") if isinstance(engine, Mapping) else None
    if not isinstance(rank, Mapping) or rank.get("timing_model") != {"type": "linear"}:
        return spec
    kept = {name: value for name, value in rank.items() if name != "timing_model"}
    return {**spec, "engine": {**engine, "rank": kept}}


def _check(execution: Execution, *, table_free: bool) -> None:
    spec = execution.spec
    rank = spec.engine.rank
    if not isinstance(spec.topology, Aggregated):
        raise InputError("spec.topology: a pair of pools cannot be calibrated; take a log of one pool")
    if spec.max_in_flight is not None:
        raise InputError(f"spec.max_in_flight: {spec.max_in_flight} would delay the arrivals of the log")
    if spec.max_sim_time_ms is not None:
        raise InputError(f"spec.max_sim_time_ms: {spec.max_sim_time_ms:g} would cut the log short")
    if spec.frontend is not None:
        raise InputError("spec.frontend: may not be given: what is before the engine is found as an offset")
    for name in _TIMES:
        if getattr(rank, name) != 1.0:
            raise InputError(f"spec.engine.rank.{name}: may not be given: it is what is to be found")
    if not table_free and rank.timing_model.type == "polynomial":
        raise InputError(
            "spec.engine.rank.timing_model: needed to be corrected; --table-free finds a step model instead"
        )
