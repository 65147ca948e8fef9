"""Where the pass times of a rank come from (spec 01 section 2.1)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from aisimulate.config.base import Millis, StrictModel


class PolynomialTiming(StrictModel):
    """The built-in polynomial; it has no settings."""

    type: Literal["polynomial"] = "polynomial"


class FixedTiming(StrictModel):
    """Every prefill forward takes `prefill_ms`, every decode forward `decode_ms`."""

    type: Literal["fixed"] = "fixed"
    prefill_ms: Millis
    decode_ms: Millis


class LinearTiming(StrictModel):
    """A step model without tables, in ms: what a pass costs, and what each item of it adds.

    `mixed_decode_ms` comes on top of `decode_ms` for each request that decodes in a pass that prefills;
    `context_token_ms` counts for each token of the lengths of those that decode.
    """

    type: Literal["linear"] = "linear"
    constant_ms: Millis
    prefill_token_ms: Millis
    decode_ms: Millis
    context_token_ms: Millis
    mixed_decode_ms: Millis = 0.0


class ExternalTiming(StrictModel):
    """A provider by name; `config` is validated by that provider."""

    type: Literal["external"] = "external"
    provider: str
    config: Any = None

    @field_validator("provider")
    @classmethod
    def _provider_is_named(cls, provider: str) -> str:
        if not provider.strip():
            raise ValueError(f"{provider!r} is blank")
        return provider


TimingConfig = Annotated[
    PolynomialTiming | FixedTiming | LinearTiming | ExternalTiming, Field(discriminator="type")
]
