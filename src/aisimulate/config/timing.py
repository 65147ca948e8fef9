"""Where the pass times of a rank come from (spec 01 section 2.1)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from aisimulate.config.base import Millis, StrictModel


class PolynomialTiming(StrictModel):
    """The built-in polynomial; it has no settings."""

    type: Literal["polynomial"] = "polynomial"
    """a built-in formula of tokens and context, for tests of scheduling"""


class FixedTiming(StrictModel):
    """Every prefill forward takes `prefill_ms`, every decode forward `decode_ms`."""

    type: Literal["fixed"] = "fixed"
    """the same time for every pass"""
    prefill_ms: Millis
    """of a prefill pass"""
    decode_ms: Millis
    """of a decode pass"""


class LinearTiming(StrictModel):
    """A step model without tables, in ms: what a pass costs, and what each item of it adds."""

    type: Literal["linear"] = "linear"
    """a constant, and so much for each item of a pass"""
    constant_ms: Millis
    """of every pass"""
    prefill_token_ms: Millis
    """for each prompt token that is computed"""
    decode_ms: Millis
    """for each request that decodes"""
    context_token_ms: Millis
    """for each token of the lengths of those"""
    mixed_decode_ms: Millis = 0.0
    """for each request that decodes in a pass that also prefills, on top"""


class ExternalTiming(StrictModel):
    """A provider by name; `config` is validated by that provider."""

    type: Literal["external"] = "external"
    """times from a provider"""
    provider: str
    """measured kernel times of AI Configurator :rule: `aic`"""
    config: Any = None
    """its settings :rule: an object; see [below](#aic)"""

    @field_validator("provider")
    @classmethod
    def _provider_is_named(cls, provider: str) -> str:
        if not provider.strip():
            raise ValueError(f"{provider!r} is blank")
        return provider


TimingConfig = Annotated[
    PolynomialTiming | FixedTiming | LinearTiming | ExternalTiming, Field(discriminator="type")
]
