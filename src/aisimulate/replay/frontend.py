"""The front end that a spec describes: its preset filled in, and refused where it is not built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.config.frontend import PRESETS
from aisimulate.core.errors import InputError, UnsupportedError
from aisimulate.core.units import clock_ns
from aisimulate.replay.client import Frontend

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.config.frontend import FrontendConfig
    from aisimulate.config.spec import ReplaySpec

PATH = "spec.frontend"
_BY_BACKEND = "inferencex"


def frontend_of(spec: ReplaySpec, ttft_ratio: float = 1.0) -> Frontend | None:
    """Settle the front end of a spec; None if it does nothing.

    A calibration's offset takes the place of that of a preset, and its pass times that of a preset's
    overhead; `ttft_ratio` is the one at the traffic's load. Raises InputError for a preset of another backend
    or a value beside the calibration's own, UnsupportedError where it is not built.
    """
    offset_ms = 0.0 if spec.calibration is None else spec.calibration.ttft_offset_ms
    config = spec.frontend
    if config is None:
        does_something = offset_ms or ttft_ratio != 1.0
        return Frontend(offset_ns=clock_ns(offset_ms), ttft_ratio=ttft_ratio) if does_something else None
    values = _values(config, spec)
    preset = None if config.preset is None else _preset(config.preset, spec)
    frontend = Frontend(
        max(1, int(values.get("stream_interval", 1))),
        clock_ns(values.get("ttft_offset_ms", 0.0)),
        max(1, int(values.get("receive_interval", 1))),
        preset,
        ttft_ratio,
        clock_ns(values.get("step_overhead_ms", 0.0)),
    )
    _require_built(frontend, spec)
    does_nothing = Frontend(preset=preset)
    return None if frontend == does_nothing else frontend


def step_overhead_ns(spec: ReplaySpec) -> int:
    """How much longer than its forwards every pass takes. Raises like `frontend_of`."""
    frontend = frontend_of(spec)
    return 0 if frontend is None else frontend.step_overhead_ns


def _values(config: FrontendConfig, spec: ReplaySpec) -> dict[str, Any]:
    """Collect what is given, what the preset has besides, and what a calibration puts in its place."""
    values: dict[str, Any] = {} if config.preset is None else dict(PRESETS[_preset(config.preset, spec)])
    calibration = spec.calibration
    if calibration is not None:
        offset_ms = calibration.ttft_offset_ms
        _refuse_second("ttft_offset_ms", config.ttft_offset_ms, f"{offset_ms:g}" if offset_ms else "")
        _refuse_second("step_overhead_ms", config.step_overhead_ms, "pass times")
        values |= {"step_overhead_ms": 0.0} | ({"ttft_offset_ms": offset_ms} if offset_ms else {})
    fields = ("stream_interval", "ttft_offset_ms", "receive_interval", "step_overhead_ms")
    return values | {name: given for name in fields if (given := getattr(config, name)) is not None}


def _refuse_second(name: str, given: float | None, calibrated: str) -> None:
    if given is not None and calibrated:
        problem = f"{given:g} beside the calibration's {calibrated}: only one may be given"
        raise InputError(f"{PATH}.{name}: {problem}")


def _preset(given: str, spec: ReplaySpec) -> str:
    """Name the preset, by the backend if it is left to that."""
    backend = spec.engine.role(spec.stages[-1]).rank.backend
    preset = f"{_BY_BACKEND}-{backend}"
    if given not in (_BY_BACKEND, preset):
        problem = f"{given!r} is fitted on another backend than {backend!r}"
        raise InputError(f"{PATH}.preset: {problem}; did you mean {preset!r}?")
    return preset


def _require_built(frontend: Frontend, spec: ReplaySpec) -> None:
    rank = spec.engine.role(spec.stages[-1]).rank
    placement, scaling = spec.adapters.placement.provider, spec.adapters.scaling.provider
    if frontend.stream_interval > 1:
        drafts = (rank.aic_nextn is not None, f"with aic_nextn {rank.aic_nextn}")
        _refuse_beside("stream_interval", frontend.stream_interval, (drafts,))
    if frontend.receive_interval > 1:
        combinations = (
            (spec.topology.kind == "disaggregated", "in a disaggregated topology"),
            (placement != "round_robin", f"with placement {placement!r}"),
            (scaling != "none", f"with scaling {scaling!r}"),
            (rank.native_host_offload is not None, "with native_host_offload"),
            (rank.state_cache is not None, "with state_cache"),
            (rank.prefill_decode_interval > 0, "with prefill_decode_interval above 0"),
        )
        _refuse_beside("receive_interval", frontend.receive_interval, combinations)


def _refuse_beside(name: str, value: int, combinations: Iterable[tuple[bool, str]]) -> None:
    """Refuse a field beside what it is not built for: the first combination that is there."""
    for is_there, beside in combinations:
        if is_there:
            raise UnsupportedError(f"{PATH}.{name}: {value} is not supported yet {beside} (supported: 0, 1)")
