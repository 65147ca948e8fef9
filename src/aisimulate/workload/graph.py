"""Requests that wait for one another: plays of nodes joined by dependencies (spec 02 sections 2.2, 4.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aisimulate.core.traffic import Session, Workload
from aisimulate.workload.block_ids import packed

if TYPE_CHECKING:
    from aisimulate.core.traffic import Turn

DISPATCH = "dispatch"
COMPLETION = "completion"
TRIGGERS = (DISPATCH, COMPLETION)
"""What of a source request starts the delay: its dispatch, or its successful end."""

SEQUENCE = "sequence"
SPAWN = "spawn"
JOIN = "join"
REPLAY_BARRIER = "replay_barrier"
RELATIONS = (SEQUENCE, SPAWN, JOIN, REPLAY_BARRIER)
"""Why a request waits. Only a spawn may wait for a dispatch."""


@dataclass(slots=True, frozen=True)
class Dependency:
    """One request waits `delay_ms` after the trigger of the request named here."""

    request_id: str
    trigger: str
    delay_ms: float
    relation: str


@dataclass(slots=True)
class Node:
    """One request of a play. It may not start before `not_before_ms`, nor before all its dependencies.

    `place` is file and line of its row. `ordinal` is the authored place of its play, `api_time_ms` a recorded
    duration; nothing but identities depends on the latter.
    """

    request_id: str
    play_id: str
    session_id: str
    model: str
    turn: Turn
    not_before_ms: float
    dependencies: list[Dependency]
    place: str = ""
    ordinal: int | None = None
    api_time_ms: float | None = None


@dataclass(slots=True)
class Play:
    """Nodes that succeed or fail together, by their index in the graph; roots have no dependency."""

    play_id: str
    nodes: list[int]
    roots: list[int]


@dataclass(slots=True, frozen=True)
class GraphSource:
    """Where a graph comes from: a format, and what identifies the text it was read from."""

    format: str
    digest: str


@dataclass(slots=True)
class AgenticGraph:
    """Nodes ordered by request id, plays in the order in which they are reported; shared, never changed.

    `block_tokens` is the number of tokens that one content id stands for. `digest` identifies the graph with
    its times; it is empty until they are final.
    `nested_basis` is how times inside of subagents were read, None where there is no choice.
    """

    block_tokens: int
    source: GraphSource
    nodes: list[Node]
    plays: list[Play]
    digest: str = ""
    nested_basis: str | None = None


@dataclass(slots=True, kw_only=True)
class AgenticWorkload(Workload):
    """Traffic of a graph: `sessions` has one session per node. `lanes` caps the plays under way."""

    graph: AgenticGraph
    lanes: int | None = None


def node_sessions(nodes: list[Node]) -> list[Session]:
    """One session of one turn per node; a turn of a conversation has no index here.

    Where output tokens are planned, content ids are numbered 0, 1, .. by first appearance: id k is then the
    token id k, so that a prompt may continue a planned output (spec 02 section 2).
    """
    turns = [node.turn for node in nodes]
    if any(turn.output_ids is not None for turn in turns):
        numbers: dict[int, int] = {}
        turns = [_numbered(turn, numbers) for turn in turns]
    return [
        Session(node.session_id, [turn], node.not_before_ms, None)
        for node, turn in zip(nodes, turns, strict=True)
    ]


def _numbered(turn: Turn, numbers: dict[int, int]) -> Turn:
    ids = packed(numbers.setdefault(block, len(numbers)) for block in turn.block_ids or ())
    return replace(turn, block_ids=ids)
