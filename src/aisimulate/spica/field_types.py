"""Field types of the Spica models: numbers with the rule in the message, no booleans posing as numbers."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationInfo

from aisimulate.config.base import U32_MAX
from aisimulate.core.limits import MAX_LENGTH_TOKENS


class SpicaModel(BaseModel):
    """Base of the Spica models: immutable, no unknown keys, no infinite or NaN numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _refuse_boolean(value: object) -> object:
    # Python would silently count true as 1.
    if isinstance(value, bool):
        raise ValueError(f"must be a number, got the boolean {value}")
    return value


def _positive(value: float, info: ValidationInfo) -> float:
    if value <= 0:
        raise ValueError(f"{info.field_name} must be positive, got {value}")
    return value


def _proper_share(value: float, info: ValidationInfo) -> float:
    if not 0 <= value < 1:
        raise ValueError(f"{info.field_name} must be from 0 to less than 1, got {value}")
    return value


def _not_negative(value: float, info: ValidationInfo) -> float:
    if value < 0:
        raise ValueError(f"{info.field_name} must not be negative, got {value}")
    return value


def _simulable(value: int, info: ValidationInfo) -> int:
    if value > MAX_LENGTH_TOKENS:
        raise ValueError(f"{info.field_name} must be at most {MAX_LENGTH_TOKENS} tokens, got {value}")
    return value


def _fits_payload(value: int, info: ValidationInfo) -> int:
    if value > U32_MAX:
        raise ValueError(f"{info.field_name} must be at most {U32_MAX} tokens, got {value}")
    return value


def _at_least_one(value: int, info: ValidationInfo) -> int:
    if value < 1:
        raise ValueError(f"{info.field_name} must be at least 1, got {value}")
    return value


def _ratio(value: float, info: ValidationInfo) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{info.field_name} must be within 0..1, got {value}")
    return value


def _utilization(value: float, info: ValidationInfo) -> float:
    if not 0 < value <= 1:
        raise ValueError(f"{info.field_name} must be above 0 and at most 1, got {value}")
    return value


def _not_blank(value: str, info: ValidationInfo) -> str:
    if not value.strip():
        raise ValueError(f"{info.field_name} must not be empty")
    return value


Integer = Annotated[int, BeforeValidator(_refuse_boolean)]
Number = Annotated[float, BeforeValidator(_refuse_boolean)]
PositiveInt = Annotated[Integer, AfterValidator(_positive)]
# As long as the payload can say; `Length` ends where the simulator does.
PayloadTokens = Annotated[PositiveInt, AfterValidator(_fits_payload)]
Length = Annotated[PositiveInt, AfterValidator(_simulable)]
ProperShare = Annotated[float, BeforeValidator(_refuse_boolean), AfterValidator(_proper_share)]
PositiveNumber = Annotated[Number, AfterValidator(_positive)]
NaturalInt = Annotated[Integer, AfterValidator(_not_negative)]
NaturalNumber = Annotated[Number, AfterValidator(_not_negative)]
CountInt = Annotated[Integer, AfterValidator(_at_least_one)]
Ratio = Annotated[Number, AfterValidator(_ratio)]
Utilization = Annotated[Number, AfterValidator(_utilization)]
Text = Annotated[str, AfterValidator(_not_blank)]
