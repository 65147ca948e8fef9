"""What a calibration says: how far pass times of one engine are from measured ones (spec 07 section 4.2)."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from aisimulate.config.base import U32, Count, FieldError, Millis, Positive, StrictModel

VERSION = 1

Scale = Annotated[float, Field(ge=0.05, le=20, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
PositiveU32 = Annotated[U32, Field(gt=0)]
TimingMode = Literal["additive", "fused", "half"]


class CalibrationKey(StrictModel):
    """The one engine that a calibration holds for; what is null was not known when it was made.

    `backend_version` is that of the performance data whose times are scaled. `weights`, `experts` and
    `kv_cache` are data types by the names of the `aic` timing, as they came to be used.
    """

    backend: Literal["vllm", "sglang", "trtllm"]
    model: str | None = None
    system: str | None = None
    backend_version: str | None = None
    weights: str | None = None
    experts: str | None = None
    kv_cache: str | None = None
    tp: PositiveU32 = 1
    pp: PositiveU32 = 1
    attention_dp: PositiveU32 = 1
    moe_tp: PositiveU32 | None = None
    moe_ep: PositiveU32 | None = None
    aic_nextn: U32 = 0


class StepModel(StrictModel):
    """A pass that needs no tables, in ms: a constant and what each token, request and context token adds.

    `mixed_decode_ms` comes on top of `decode_ms` for each request that decodes in a pass that prefills.
    """

    constant_ms: Millis
    prefill_token_ms: Millis
    decode_ms: Millis
    context_token_ms: Millis
    mixed_decode_ms: Millis = 0.0

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        if not any(self.model_dump().values()):
            raise FieldError("constant_ms", "a step of no time at all cannot have been measured")
        return self


class CalibrationPoint(StrictModel):
    """Factors measured at one load: on every pass time, and on the reported TTFT.

    The load is a `concurrency` (requests in flight) or a `rate_rps` (requests per second).
    """

    concurrency: Positive | None = None
    rate_rps: Positive | None = None
    step_scale: Scale = 1.0
    ttft_ratio: Annotated[float, Field(ge=0.01, le=1000, allow_inf_nan=False)] = 1.0

    @property
    def load(self) -> float:
        """The concurrency or the rate, whichever is given."""
        return self.concurrency or self.rate_rps or 0.0

    @model_validator(mode="after")
    def _one_load(self) -> Self:
        if (self.concurrency is None) == (self.rate_rps is None):
            raise FieldError("concurrency", "exactly one of concurrency and rate_rps is needed")
        return self


class CalibrationError(StrictModel):
    """How far the calibrated replay is from what was measured: simulated / measured - 1 of the means."""

    ttft: Finite | None = None
    tpot: Finite | None = None
    e2e: Finite | None = None
    throughput: Finite | None = None


class CalibrationSource(StrictModel):
    """What a calibration was made from: file, its SHA-256, and how much of it was used."""

    file: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    format: str
    requests: Count | None = None
    rows: Count | None = None
    engine_version: str | None = None


class Calibration(StrictModel):
    """A calibration file.

    `prefill_scale` multiplies passes that hold prefill tokens, `decode_scale` those that only decode. With
    `points`, both are multiplied by the step scale of the load. `step_model` takes the place of the timing
    provider. `ttft_offset_ms` is added to every TTFT. `timing_mode` says how mixed passes are timed; null
    leaves it to the engine's settings. `scheduling_look_ahead` is what it was fitted with, and what engines
    take whose settings do not say. `notes` say what the data did not identify.
    """

    version: int
    key: CalibrationKey
    prefill_scale: Scale = 1.0
    decode_scale: Scale = 1.0
    ttft_offset_ms: Millis = 0.0
    timing_mode: TimingMode | None = None
    scheduling_look_ahead: Annotated[int, Field(ge=0, le=1)] | None = None
    step_model: StepModel | None = None
    points: Annotated[tuple[CalibrationPoint, ...], Field(strict=False)] = ()
    training_error: CalibrationError = CalibrationError()
    source: CalibrationSource
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _known_version(self) -> Self:
        if self.version != VERSION:
            raise FieldError("version", f"{self.version} is not {VERSION} (the only version)")
        return self

    @model_validator(mode="after")
    def _points_are_a_scale(self) -> Self:
        loads = [point.load for point in self.points]
        if any(low >= high for low, high in pairwise(loads)):
            raise FieldError("points", "loads must increase from point to point")
        if len({point.concurrency is None for point in self.points}) > 1:
            raise FieldError("points", "concurrency and rate_rps may not be mixed")
        return self
