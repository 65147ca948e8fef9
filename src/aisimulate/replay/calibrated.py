"""Applies a calibration to a rank: only to the engine that it was made for (spec 07 section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisimulate.config.calibration import CalibrationKey
from aisimulate.config.calibration_file import factors_at
from aisimulate.config.spec import Aggregated
from aisimulate.config.timing import ExternalTiming, LinearTiming
from aisimulate.core.errors import InputError
from aisimulate.core.shown import show
from aisimulate.replay.capacity import aic_engine_key
from aisimulate.timing.aic.names import model_facts
from aisimulate.timing.aic.quant import resolve_modes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.config.aic import AicConfig
    from aisimulate.config.calibration import Calibration
    from aisimulate.config.engine import RoleConfig
    from aisimulate.config.payload import Execution
    from aisimulate.config.rank import RankConfig

_WHERE = "spec.calibration"
_SCALES = ("prefill_scale", "decode_scale")


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A rank with a calibration's pass times, what of it the report has to say, and notes."""

    rank: RankConfig
    provenance: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def engine_of(role: RoleConfig, aic: AicConfig | None) -> CalibrationKey:
    """Name the engine of a role as far as its settings tell. Raises like `aic_engine_key`."""
    if aic is None:
        return CalibrationKey(
            backend=role.rank.backend,
            tp=role.tensor_parallel_size,
            attention_dp=role.dp_size,
            aic_nextn=role.rank.aic_nextn or 0,
        )
    key = aic_engine_key(aic)
    modes = resolve_modes(key).effective
    has_experts = model_facts(aic.model, aic.allow_model_download).is_moe
    return CalibrationKey(
        backend=role.rank.backend,
        model=aic.model,
        system=aic.system,
        backend_version=key.backend_version,
        weights=modes.get("gemm_dtype"),
        experts=modes.get("moe_dtype") if has_experts else None,
        kv_cache=modes.get("kv_cache_dtype"),
        tp=aic.tp,
        pp=aic.pp,
        attention_dp=aic.attention_dp,
        moe_tp=aic.moe_tp_size if has_experts else None,
        moe_ep=aic.moe_ep_size if has_experts else None,
        aic_nextn=role.rank.aic_nextn or 0,
    )


def calibrated(
    execution: Execution, role: RoleConfig, rank: RankConfig, aic: AicConfig | None, path: str
) -> Calibrated:
    """Put the calibration of a payload, if there is one, into the rank of `role`; `path` is that of the rank.

    `rank` is the role's with its capacity settled. Raises `InputError`, one line, when the calibration is
    for another engine (naming the field that differs), when its loads are not those of the traffic, or when
    the rank has pass times of its own.
    """
    calibration = execution.spec.calibration
    if calibration is None:
        return Calibrated(rank)
    unknown = _check_engine(calibration.key, engine_of(role, aic), path)
    changes = _changes(calibration, role.rank, path, fuses=len(execution.spec.stages) == 1)
    step_scale, ttft_ratio = factors_at(calibration, load_of(execution, calibration))
    for name in _SCALES:
        changes[name] = getattr(calibration, name) * step_scale
    notes = []
    if unknown:
        notes.append(f"{_WHERE}: {' and '.join(unknown)} not checked: {path} does not tell")
    fitted_with, own = calibration.scheduling_look_ahead, role.rank.scheduling_look_ahead
    if fitted_with not in (None, own):
        notes.append(f"{_WHERE}: fitted with scheduling_look_ahead {fitted_with}, but {path} has {own}")
    told = _told(calibration, changes, ttft_ratio)
    return Calibrated(rank.model_copy(update=changes), {"calibration": told}, notes)


def ttft_ratio_of(execution: Execution) -> float:
    """Give the factor of a calibration on the TTFT at the traffic's load. Raises like `load_of`."""
    calibration = execution.spec.calibration
    return 1.0 if calibration is None else factors_at(calibration, load_of(execution, calibration))[1]


def load_of(execution: Execution, calibration: Calibration) -> float:
    """Find the load at which the points of a calibration are read, that of one worker; 1 where it has none.

    Raises `InputError` when the traffic does not fix that kind of load.
    """
    if not calibration.points:
        return 1.0
    by_rate = calibration.points[0].rate_rps is not None
    load = _rate(execution) if by_rate else _concurrency(execution)
    if load is None and by_rate:
        raise InputError(f"{_WHERE}: its points are by rate_rps, but the traffic has no request rate")
    if load is None:
        raise InputError(f"{_WHERE}: its points are by concurrency, but the traffic has no fixed concurrency")
    return load / workers_of(execution)


def workers_of(execution: Execution) -> int:
    """Count the workers that share a load at the start: those that decode."""
    topology = execution.spec.topology
    pool = topology.workers if isinstance(topology, Aggregated) else topology.decode
    return pool.initial_workers


def _rate(execution: Execution) -> float | None:
    traffic = execution.traffic
    if traffic is None:
        return None
    if traffic.request_rate is None and traffic.arrival_interval_ms:
        return 1000.0 / traffic.arrival_interval_ms
    return traffic.request_rate


def _concurrency(execution: Execution) -> float | None:
    traffic = execution.traffic
    caps = [execution.spec.max_in_flight]
    if traffic is not None:
        caps += [traffic.concurrency, traffic.replay_concurrency]
    return next((float(cap) for cap in caps if cap is not None), None)


def _check_engine(made_for: CalibrationKey, own: CalibrationKey, path: str) -> list[str]:
    """Refuse another engine; list what only one of the two tells."""
    unknown = []
    for name in CalibrationKey.model_fields:
        theirs, ours = getattr(made_for, name), getattr(own, name)
        if theirs == ours:
            continue
        if theirs is None or ours is None:
            unknown.append(name)
            continue
        raise InputError(f"{_WHERE}: made for {name} {show(theirs)}, but {path} has {show(ours)}")
    return unknown


def _changes(calibration: Calibration, rank: RankConfig, path: str, *, fuses: bool) -> dict[str, Any]:
    """Collect what a calibration changes besides the factors; refuse what would contradict it."""
    for name in _SCALES:
        if getattr(rank, name) != 1.0:
            raise InputError(f"{path}.{name}: may not be given beside a calibration, which has its own")
    changes: dict[str, Any] = {}
    if calibration.step_model is not None:
        # Settings of `aic` still tell the engine, and its KV capacity.
        if "timing_model" in rank.model_fields_set and not isinstance(rank.timing_model, ExternalTiming):
            raise InputError(f"{path}.timing_model: contradicts the calibration, which has a step model")
        changes["timing_model"] = LinearTiming(**calibration.step_model.model_dump())
    mode = calibration.timing_mode
    if mode is None or not fuses or rank.backend == "sglang":
        return changes
    if "timing_mode" in rank.model_fields_set and rank.timing_mode != mode:
        raise InputError(f"{path}.timing_mode: {rank.timing_mode!r} contradicts the calibration ({mode!r})")
    return {**changes, "timing_mode": mode}


def _told(calibration: Calibration, changes: Mapping[str, Any], ttft_ratio: float) -> dict[str, object]:
    """Say in the report what was applied."""
    offset_ms = calibration.ttft_offset_ms
    held_out = calibration.held_out_error.model_dump(exclude_none=True)
    clients = {"ttft_offset_ms": offset_ms} if offset_ms else {}
    clients |= {"ttft_ratio": ttft_ratio} if ttft_ratio != 1.0 else {}
    return {
        **calibration.source.model_dump(exclude_none=True),
        "training_error": calibration.training_error.model_dump(exclude_none=True),
        **({"held_out_error": held_out} if held_out else {}),
        **{name: changes[name] for name in (*_SCALES, "timing_mode") if name in changes},
        **clients,
        "step_model": calibration.step_model is not None,
        "notes": list(calibration.notes),
    }
