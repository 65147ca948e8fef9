"""Shifting and compressing the time of a graph (spec 02 section 2.2); graphs are shared, so never changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.workload.limits import MAX_INSTANT_MS, shown

if TYPE_CHECKING:
    from aisimulate.workload.graph import AgenticGraph, Node


def normalise_graph(graph: AgenticGraph) -> AgenticGraph:
    """Let the smallest authored start, over all nodes, be 0 ms."""
    first_ms = min(node.not_before_ms for node in graph.nodes)
    if first_ms == 0.0:
        return graph
    nodes = [replace(node, not_before_ms=node.not_before_ms - first_ms) for node in graph.nodes]
    return replace(graph, nodes=nodes)


def speed_up_graph(graph: AgenticGraph, ratio: float) -> AgenticGraph:
    """Divide authored starts and all delays by `ratio`, a finite number above 0.

    Raises InputError when it is so small that an instant leaves the clock.
    """
    if ratio == 1.0:
        return graph
    for node in graph.nodes:
        longest_ms = max((edge.delay_ms for edge in node.dependencies), default=0.0)
        if max(longest_ms, node.not_before_ms) > MAX_INSTANT_MS * ratio:
            raise InputError(
                f"arrival_speedup_ratio {ratio:g}: request {shown(node.request_id)} would go beyond "
                f"{MAX_INSTANT_MS:g} ms"
            )
    return replace(graph, nodes=[_sped_up(node, ratio) for node in graph.nodes])


def _sped_up(node: Node, ratio: float) -> Node:
    dependencies = [replace(edge, delay_ms=edge.delay_ms / ratio) for edge in node.dependencies]
    return replace(node, not_before_ms=node.not_before_ms / ratio, dependencies=dependencies)
