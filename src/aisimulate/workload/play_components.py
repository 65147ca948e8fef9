"""Plays of traces that do not name them: requests that depend on one another belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.workload.graph import Node


def name_plays(nodes: list[Node], prefix: str) -> None:
    """Give all nodes of a connected component the play id `<prefix>:<its earliest root>`.

    The earliest root is that with the smallest start, then the smallest id. A component without a root keeps
    the name of its smallest id: it has a cycle, which the checks of the graph report.
    """
    leader = _components(nodes)
    first: dict[int, tuple[bool, float, str]] = {}
    for index, node in enumerate(nodes):
        rank = bool(node.dependencies), node.not_before_ms, node.request_id
        component = _find(leader, index)
        first[component] = min(first.get(component, rank), rank)
    for index, node in enumerate(nodes):
        node.play_id = f"{prefix}:{first[_find(leader, index)][2]}"


def _components(nodes: list[Node]) -> list[int]:
    """Point every node to another one of its component, or to itself."""
    index_of = {node.request_id: index for index, node in enumerate(nodes)}
    leader = list(range(len(nodes)))
    for index, node in enumerate(nodes):
        for edge in node.dependencies:
            source = index_of.get(edge.request_id)
            if source is not None:
                leader[_find(leader, index)] = _find(leader, source)
    return leader


def _find(leader: list[int], index: int) -> int:
    """Find the node that stands for a component, and shorten the way to it."""
    while leader[index] != index:
        leader[index] = leader[leader[index]]
        index = leader[index]
    return index
