"""Tools of the payload walk: which fields there are, and what a change of one of them does."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pydantic import BaseModel

from aisimulate.replay.execute import execute

# Real time and remarks tell nothing about what was simulated.
_NO_RESULT = (
    "wall_time_ms",
    "processed_tokens_per_s",
    "processed_output_tokens_per_s",
    "notes",
    "provenance",
)

Payload = dict[str, Any]
Changes = Mapping[str, Any]


class Why(Enum):
    """Why a value is refused or has no effect."""

    # What later versions bring.
    SGLANG = "SGLang"
    EVENTS = "cache events for others than the router of the replay"
    TIERS = "host tiers and state caches"
    # What stays.
    ONE_VALUE = "there is one legal value"
    TIED = "the value must agree with, or is replaced by, another field that acts"
    DATA = "the measured data do not tell two values apart"
    OTHER_TARGET = "another optimization target uses it"
    PERMIT = "the value only permits what another field asks for"


STAYS = (Why.ONE_VALUE, Why.TIED, Why.DATA, Why.PERMIT, Why.OTHER_TARGET)


@dataclass(frozen=True)
class Acts:
    """`changes` (dotted paths) on `base` give another `metric`: a key of the report."""

    base: Payload
    changes: Changes
    metric: str


@dataclass(frozen=True)
class Refused:
    """`changes` on `base` raise one of our errors whose text holds `text`, for the reason `why`."""

    base: Payload
    changes: Changes
    text: str
    why: Why


@dataclass(frozen=True)
class Inert:
    """`changes` on `base` change no result, and the report's notes hold `note`, for the reason `why`."""

    base: Payload
    changes: Changes
    note: str
    why: Why


Effect = Acts | Refused | Inert


@dataclass
class FieldTable:
    """The effects of every field of the models, by model and field name."""

    rows: dict[type[BaseModel], dict[str, tuple[Effect, ...]]] = field(default_factory=dict)

    def add(self, model: type[BaseModel], /, **effects: Effect | tuple[Effect, ...]) -> None:
        """Add a model; each keyword is a field."""
        self.rows[model] = {
            name: effect if isinstance(effect, tuple) else (effect,) for name, effect in effects.items()
        }

    def cases(self, kind: type[Effect]) -> Iterator[tuple[str, Effect]]:
        """List the effects of one kind with a name for the test report."""
        for model, fields in self.rows.items():
            for name, effects in fields.items():
                for number, effect in enumerate(effects):
                    if isinstance(effect, kind):
                        yield f"{model.__name__}.{name}-{number}", effect


def changed(base: Payload, changes: Changes) -> Payload:
    """Copy `base` with values set at dotted paths; absent objects are made, list positions are numbers."""
    payload = copy.deepcopy(base)
    for path, value in changes.items():
        *parents, last = path.split(".")
        node: Any = payload
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        node[int(last) if isinstance(node, list) else last] = value
    return payload


def result(payload: Payload) -> Payload:
    """Replay and keep what was simulated."""
    report = execute(payload)
    return {name: value for name, value in report.items() if name not in _NO_RESULT}
