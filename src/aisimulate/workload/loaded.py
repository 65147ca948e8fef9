"""What a trace reader hands over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisimulate.workload.graph import node_sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.traffic import Session
    from aisimulate.workload.graph import AgenticGraph

DEFAULT_BLOCK_TOKENS = 512
"""Tokens of one content id where neither the trace nor the configuration says it."""


@dataclass(slots=True)
class LoadedTrace:
    """The sessions of a trace, in file order, with arrivals as authored; shared, so never to be changed.

    `block_tokens` is the number of tokens that one content id stands for. `notes` name what was ignored, one
    line each; `doubts` what is legal but hardly meant. `untimed` names (`file:line: session 'id'`) the first
    session without a first timestamp, None when there is no such session. An agentic trace has a `graph`, and
    one session per node of it. `time_doubts` ask whether times that pace a replay are meant.
    """

    sessions: Sequence[Session]
    block_tokens: int
    notes: list[str] = field(default_factory=list)
    untimed: str | None = None
    doubts: list[str] = field(default_factory=list)
    graph: AgenticGraph | None = None
    time_doubts: list[str] = field(default_factory=list)

    @property
    def remarks(self) -> list[str]:
        """All that a user should be told."""
        return self.notes + self.doubts


def graph_trace(graph: AgenticGraph, notes: list[str]) -> LoadedTrace:
    """Hand over an agentic trace."""
    return LoadedTrace(node_sessions(graph.nodes), graph.block_tokens, notes, graph=graph)
