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


TimingConfig = Annotated[PolynomialTiming | FixedTiming | ExternalTiming, Field(discriminator="type")]
