"""What the config models share: strict bases, bounded number types and errors that name a field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from aisimulate.core.limits import MAX_BLOCK_TOKENS, MAX_LENGTH_TOKENS, MAX_REQUESTS

U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1
# Counts are machine words in the payload format; half of the range keeps sums and products of a few exact.
COUNT_MAX = 2**62

Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
PositiveCount = Annotated[int, Field(gt=0, le=COUNT_MAX)]
Tokens = Annotated[int, Field(ge=0, le=U32_MAX)]
PositiveTokens = Annotated[int, Field(gt=0, le=U32_MAX)]
U32 = Annotated[int, Field(ge=0, le=U32_MAX)]
Requests = Annotated[int, Field(gt=0, le=MAX_REQUESTS)]
LengthTokens = Annotated[int, Field(gt=0, le=MAX_LENGTH_TOKENS)]
BlockTokens = Annotated[int, Field(gt=0, le=MAX_BLOCK_TOKENS)]
U64 = Annotated[int, Field(ge=0, le=U64_MAX)]
# 64-bit nanoseconds last about 292 years; no instant or duration may leave that range.
Millis = Annotated[float, Field(ge=0, le=9e12, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class FieldError(ValueError):
    """A validator's complaint about one field of its model; `field` may be a dotted path."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


class StrictModel(BaseModel):
    """Immutable; unknown keys are errors; no value is coerced (`"8"`, `8.7` and `true` are not integers).

    `field_aliases` maps other names of fields to their own; giving a field by both is an error.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    field_aliases: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _fold_aliases(cls, data: object) -> object:
        if not cls.field_aliases or not isinstance(data, Mapping):
            return data
        folded: dict[Any, Any] = {}
        for key, value in data.items():
            name = cls.field_aliases.get(key, key)
            if name in folded:
                raise FieldError(str(name), "duplicate field: given by its name and by its alias")
            folded[name] = value
        return folded


class TolerantModel(BaseModel):
    """Like `StrictModel`, but unknown keys are ignored (spec 02 section 1.2: the spec level)."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


def null_is_default(value: object) -> object:
    """Let an explicit null stand for an object whose every field has a default."""
    return {} if value is None else value
