"""From rows to a graph in which every request can be reached (spec 02 section 2.2)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, nearest
from aisimulate.workload.graph import RELATIONS, TRIGGERS, AgenticGraph, Play
from aisimulate.workload.limits import shown
from aisimulate.workload.problems import wrong_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.workload.graph import Dependency, GraphSource, Node

_MAX_NAMED = 8


def build_graph(block_tokens: int, source: GraphSource, rows: Iterable[Node]) -> AgenticGraph:
    """Order the nodes by request id, check how they hang together, and group them into plays.

    Raises InputError for an id used twice, a dependency on an unknown request, on itself or on another
    play, a cycle, and for authored play ordinals that give no order.
    """
    by_id: dict[str, Node] = {}
    for row in rows:
        first = by_id.setdefault(row.request_id, row)
        if first is not row:
            name = shown(row.request_id)
            wrong_row(InputError(f"{row.place}: request_id {name}: already used at {first.place}"))
    nodes = [by_id[request_id] for request_id in sorted(by_id)]
    sound = True
    for node in nodes:
        try:
            _check_edges(node, by_id)
        except InputError as error:
            wrong_row(error)
            sound = False
        node.dependencies.sort(key=_canonical_order)
    if not sound:
        # Only when all problems are asked for: what waits for nothing known is no cycle.
        return AgenticGraph(block_tokens, source, nodes, [])
    _check_acyclic(nodes)
    return AgenticGraph(block_tokens, source, nodes, _plays(nodes))


def _check_edges(node: Node, by_id: dict[str, Node]) -> None:
    for edge in node.dependencies:
        target = by_id.get(edge.request_id)
        problem = f"{node.place}: request {shown(node.request_id)} depends on "
        if target is None:
            hint = nearest(edge.request_id, list(by_id)) if len(by_id) <= 1000 else ""
            raise InputError(f"{problem}unknown request {shown(edge.request_id)}{hint}")
        if target is node:
            raise InputError(f"{problem}itself")
        if target.play_id != node.play_id:
            raise InputError(
                f"{problem}request {shown(edge.request_id)} of play {shown(target.play_id)}, but belongs to "
                f"play {shown(node.play_id)}"
            )


def _canonical_order(edge: Dependency) -> tuple[str, int, int, float]:
    trigger, relation = TRIGGERS.index(edge.trigger), RELATIONS.index(edge.relation)
    return edge.request_id, trigger, relation, edge.delay_ms


def _check_acyclic(nodes: list[Node]) -> None:
    waiting = {node.request_id: len(node.dependencies) for node in nodes}
    dependents: dict[str, list[str]] = {}
    for node in nodes:
        for edge in node.dependencies:
            dependents.setdefault(edge.request_id, []).append(node.request_id)
    free = deque(request_id for request_id, edges in waiting.items() if not edges)
    while free:
        for dependent in dependents.get(free.popleft(), ()):
            waiting[dependent] -= 1
            if not waiting[dependent]:
                free.append(dependent)
    blocked = [node for node in nodes if waiting[node.request_id]]
    if blocked:
        names = ", ".join(shown(node.request_id) for node in blocked[:_MAX_NAMED])
        more = ", ..." if len(blocked) > _MAX_NAMED else ""
        raise InputError(
            f"{blocked[0].place}: a cycle of dependencies keeps {len(blocked)} requests from ever starting: "
            f"{names}{more}"
        )


def _plays(nodes: list[Node]) -> list[Play]:
    """Group nodes; plays are ordered by their authored ordinal, else by id."""
    plays: dict[str, Play] = {}
    for index, node in enumerate(nodes):
        play = plays.setdefault(node.play_id, Play(node.play_id, [], []))
        play.nodes.append(index)
        if not node.dependencies:
            play.roots.append(index)
    ordinals = {play_id: _ordinal(play, nodes) for play_id, play in plays.items()}
    if all(ordinal is None for ordinal in ordinals.values()):
        return [plays[play_id] for play_id in sorted(plays)]
    by_ordinal: dict[int, Play] = {}
    for play_id, ordinal in ordinals.items():
        _add_ordered(by_ordinal, ordinal, plays[play_id], nodes)
    gap = next((ordinal for ordinal in range(len(plays)) if ordinal not in by_ordinal), None)
    if gap is not None:
        place = nodes[by_ordinal[max(by_ordinal)].nodes[0]].place
        raise InputError(
            f"{place}: source_play_ordinal {max(by_ordinal)}: ordinals must go from 0 without a gap, but no "
            f"play has {gap}"
        )
    return [by_ordinal[ordinal] for ordinal in sorted(by_ordinal)]


def _ordinal(play: Play, nodes: list[Node]) -> int | None:
    first = nodes[play.nodes[0]]
    for index in play.nodes:
        if nodes[index].ordinal != first.ordinal:
            raise InputError(
                f"{nodes[index].place}: source_play_ordinal {shown(nodes[index].ordinal)}: the play "
                f"{shown(play.play_id)} has {shown(first.ordinal)} at {first.place}"
            )
    return first.ordinal


def _add_ordered(by_ordinal: dict[int, Play], ordinal: int | None, play: Play, nodes: list[Node]) -> None:
    place = nodes[play.nodes[0]].place
    if ordinal is None:
        raise InputError(
            f"{place}: play {shown(play.play_id)} has no source_play_ordinal, but other plays have one"
        )
    if ordinal in by_ordinal:
        raise InputError(
            f"{place}: source_play_ordinal {ordinal}: used by plays {shown(by_ordinal[ordinal].play_id)} "
            f"and {shown(play.play_id)}"
        )
    by_ordinal[ordinal] = play
