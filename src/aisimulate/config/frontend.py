"""What no table of kernels has: when clients see tokens, engines requests, and what hosts do in between."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from aisimulate.config.base import Millis, StrictModel
from aisimulate.core.limits import MAX_INTERVAL

PresetName = Literal["inferencex", "inferencex-sglang", "inferencex-trtllm", "inferencex-vllm"]
Interval = Annotated[int, Field(ge=0, le=MAX_INTERVAL)]

# Fitted on the clean InferenceX runs of docs/accuracy.md: one number for the first token, tokens of a chunk
# or a constant, by which the model that is missed most is missed least, and host time of each pass by which
# no model gets worse. `make validate` prints the same fits, and tests/validate holds these to its results.
PRESETS: dict[str, dict[str, float]] = {
    "inferencex-sglang": {"ttft_offset_ms": 240.0, "step_overhead_ms": 2.25},
    "inferencex-trtllm": {"stream_interval": 9},
    "inferencex-vllm": {"stream_interval": 5},
}


class FrontendConfig(StrictModel):
    """A front end; what is not given is as its preset has it, or not there (0, or an interval of 1)."""

    preset: PresetName | None = None
    """values fitted on published benchmarks; `inferencex` is that of the backend"""
    stream_interval: Interval | None = None
    """tokens that a client sees together :unit: tokens"""
    ttft_offset_ms: Millis | None = None
    """how much later than the engine a client sees anything"""
    receive_interval: Interval | None = None
    """every how many passes a busy engine looks for new requests :unit: passes"""
    step_overhead_ms: Millis | None = None
    """how much longer every pass takes than its forwards :rule: not beside a calibration"""
