"""What the traffic asks for, before any simulation: sessions of turns. Never mutated by a replay."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

BlockIds: TypeAlias = "list[int] | array[int]"
"""Content ids of a prompt. A workload has either lists or arrays; arrays take less memory."""


@dataclass(slots=True)
class Turn:
    """One authored request.

    `block_ids` names the prompt's content: id k stands for `Workload.content_block_tokens` equal tokens
    (the last block is cut at `input_tokens`); None means content that no other request shares.
    `output_ids` are planned output token ids (their number equals `output_tokens`), or None.
    `delay_ms` is think time after the previous turn of the session ended.
    """

    input_tokens: int
    output_tokens: int
    block_ids: BlockIds | None = None
    output_ids: list[int] | None = None
    delay_ms: float = 0.0
    request_id: str | None = None
    dp_rank: int | None = None
    metadata: Any = None


@dataclass(slots=True)
class Session:
    """Turns served one after the other. `arrival_ms` is the first turn's instant (None in closed loop).

    `turn_offset` is the authored index of the first turn (requests authored one by one may start at n).
    """

    session_id: str | None
    turns: list[Turn]
    arrival_ms: float | None = None
    turn_offset: int | None = 0


@dataclass(slots=True)
class Workload:
    """All traffic of one replay, in file (or draw) order.

    `accumulate`: a turn's prompt is all earlier prompts and emitted outputs of its session plus its own text.
    `concurrency`: closed-loop cap on sessions in flight, or None for open loop.
    """

    sessions: Sequence[Session]
    content_block_tokens: int
    accumulate: bool = False
    concurrency: int | None = None
    notes: list[str] = field(default_factory=list)
