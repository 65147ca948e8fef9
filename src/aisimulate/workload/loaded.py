"""What a trace reader hands over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.core.traffic import Session


@dataclass(slots=True)
class LoadedTrace:
    """The sessions of a trace, in file order, with arrivals as authored; shared, so never to be changed.

    `block_tokens` is the number of tokens that one content id stands for. `notes` name what was ignored, one
    line each. `untimed` names (`file:line: session 'id'`) the first session without a first timestamp, None
    when there is no such session.
    """

    sessions: list[Session]
    block_tokens: int
    notes: list[str] = field(default_factory=list)
    untimed: str | None = None
