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

    Data types have the names of the `aic` timing.
    """

    backend: Literal["vllm", "sglang", "trtllm"]
    """the serving engine"""
    model: str | None = None
    """the model :rule: as in the settings of `aic`"""
    system: str | None = None
    """the kind of GPU :rule: as in the settings of `aic`"""
    backend_version: str | None = None
    """version of the timing data that are corrected :rule: a literal version"""
    weights: str | None = None
    """data type of the weights, as it came to be used"""
    experts: str | None = None
    """data type of the experts"""
    kv_cache: str | None = None
    """data type of the KV cache"""
    tp: PositiveU32 = 1
    """tensor parallelism :unit: GPUs"""
    pp: PositiveU32 = 1
    """pipeline stages :unit: GPUs"""
    attention_dp: PositiveU32 = 1
    """attention data parallelism :unit: GPUs"""
    moe_tp: PositiveU32 | None = None
    """ways each expert is split :unit: GPUs"""
    moe_ep: PositiveU32 | None = None
    """ways the experts are spread :unit: GPUs"""
    aic_nextn: U32 = 0
    """drafted tokens, which change what a pass computes :unit: tokens :rule: only that of the [rank](#rank)
    """


class StepModel(StrictModel):
    """A pass that needs no tables, in ms: a constant and what each token, request and context token adds."""

    constant_ms: Millis
    """as in [linear](#linear)"""
    prefill_token_ms: Millis
    """the same"""
    decode_ms: Millis
    """the same"""
    context_token_ms: Millis
    """the same"""
    mixed_decode_ms: Millis = 0.0
    """the same"""

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        if not any(self.model_dump().values()):
            raise FieldError("constant_ms", "a step of no time at all cannot have been measured")
        return self


class CalibrationPoint(StrictModel):
    """Factors measured at one load: on every pass time, and on the reported TTFT."""

    concurrency: Positive | None = None
    """the load of one worker at the start, as requests in flight :unit: requests :rule: this or `rate_rps`"""
    rate_rps: Positive | None = None
    """the load of one worker at the start, as a rate :unit: requests/s"""
    step_scale: Scale = 1.0
    """multiplies every pass"""
    ttft_ratio: Annotated[float, Field(ge=0.01, le=1000, allow_inf_nan=False)] = 1.0
    """multiplies the TTFT that clients see"""

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
    """of the mean time to first token"""
    tpot: Finite | None = None
    """of the mean time per output token"""
    e2e: Finite | None = None
    """of the mean request latency"""
    throughput: Finite | None = None
    """of output tokens per time"""


class CalibrationSource(StrictModel):
    """What a calibration was made from: file, its SHA-256, and how much of it was used."""

    file: str
    """its name, without folders"""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """its content :rule: 64 hexadecimal digits"""
    format: str
    """what wrote it"""
    requests: Count | None = None
    """requests it was fitted to :unit: requests"""
    rows: Count | None = None
    """rows of a table it was fitted to :unit: rows"""
    engine_version: str | None = None
    """version of the engine that was measured"""


class Calibration(StrictModel):
    """A calibration file."""

    version: int
    """version of the file format :rule: 1"""
    key: CalibrationKey
    """the engine that it is for :rule: that of the engine"""
    prefill_scale: Scale = 1.0
    """multiplies passes that compute prompt tokens"""
    decode_scale: Scale = 1.0
    """multiplies passes that only decode"""
    ttft_offset_ms: Millis = 0.0
    """how much later than the engine has it a client sees everything"""
    timing_mode: TimingMode | None = None
    """how a pass is timed that prefills and decodes; null is the rank's. Without effect where no pass does
    both :rule: equal to that of the rank, if one is given"""
    scheduling_look_ahead: Annotated[int, Field(ge=0, le=1)] | None = None
    """what it was fitted with, and what ranks take whose settings do not say; a note tells of those that say
    otherwise :unit: passes :rule: 0 or 1"""
    step_model: StepModel | None = None
    """takes the place of measured times :rule: not beside other times than those of `aic`"""
    points: Annotated[tuple[CalibrationPoint, ...], Field(strict=False)] = ()
    """factors by load, on top of the two; between points along logarithms, beyond them those of the
    outermost :rule: loads increase; by `concurrency` or by `rate_rps`, and the traffic has that load"""
    training_error: CalibrationError = CalibrationError()
    """how far the calibrated replay is from its data; for the report"""
    held_out_error: CalibrationError = CalibrationError()
    """how far it is from the requests that were not fitted; for the report"""
    source: CalibrationSource
    """what it was made from; for the report"""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """what the data did not tell; for the report"""

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
