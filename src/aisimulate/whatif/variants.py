"""The assumptions that are changed one at a time, and which of them a replay has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.whatif.base import Base
    from aisimulate.whatif.payloads import Payload


@dataclass(frozen=True, slots=True)
class Variant:
    """One changed assumption.

    `payload` is None where this replay does not have it, and `reason` then says why. `prompts` and `outputs`
    stretch the lengths of a trace. `keeps_gpus`: GPUs that do not work are paid for all the same.
    """

    name: str
    title: str
    payload: Payload | None
    reason: str = ""
    prompts: float = 1.0
    outputs: float = 1.0
    keeps_gpus: bool = False


def skipped(name: str, title: str, reason: str) -> Variant:
    """Say that an assumption cannot be changed."""
    return Variant(name, title, None, reason)


Makers = dict[str, Callable[["Base"], Iterator[Variant]]]


def variants_of(base: Base, makers: Makers, only: Sequence[str] = ()) -> list[Variant]:
    """List the variants of a replay in the order of the groups in `makers`.

    `only` names groups or variants; none means all. One that this replay does not have is told as that.
    """
    listed = {group: list(make(base)) for group, make in makers.items()}
    known = {*listed, *(variant.name for group in listed.values() for variant in group)}
    wanted = [
        variant
        for group, variants in listed.items()
        for variant in variants
        if not only or group in only or variant.name in only
    ]
    absent = "this deployment has no such assumption, or holds it already"
    return wanted + [skipped(name, name, absent) for name in dict.fromkeys(only) if name not in known]
