"""From a loaded agentic trace to the workload of one replay (spec 02 sections 1.5 and 2.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.workload.graph import AgenticWorkload, node_sessions
from aisimulate.workload.graph_digest import graph_digest
from aisimulate.workload.graph_timing import normalise_graph, speed_up_graph

if TYPE_CHECKING:
    from aisimulate.config.traffic import RuntimeTraffic
    from aisimulate.core.traffic import Workload
    from aisimulate.workload.graph import AgenticGraph
    from aisimulate.workload.loaded import LoadedTrace


def timed_trace(trace: LoadedTrace, graph: AgenticGraph, ratio: float) -> LoadedTrace:
    """Start the graph at 0 ms, compress its time, and give it its identity."""
    graph = speed_up_graph(normalise_graph(graph), ratio)
    graph = replace(graph, digest=graph_digest(graph))
    return replace(trace, sessions=node_sessions(graph.nodes), graph=graph)


def agentic_workload(
    traffic: RuntimeTraffic, trace: LoadedTrace, graph: AgenticGraph, max_in_flight: int | None
) -> AgenticWorkload:
    """Traffic of a graph, which alone paces it, and all of which is replayed.

    Raises InputError for a cap on concurrency or on virtual time.
    """
    for field, value, limit in (
        ("traffic.replay_concurrency", traffic.replay_concurrency, "a concurrency load"),
        ("spec.max_in_flight", max_in_flight, "a concurrency load"),
        ("traffic.max_sim_time_ms", traffic.max_sim_time_ms, "a limit of virtual time"),
    ):
        if value is not None:
            raise InputError(f"{field}: {value:g}: an agentic trace does not support {limit}")
    return AgenticWorkload(
        trace.sessions, trace.block_tokens, notes=trace.remarks, graph=graph, lanes=traffic.agentic_lanes
    )


def require_no_lanes(traffic: RuntimeTraffic) -> None:
    """Refuse lanes for a trace that has no plays to run in them."""
    if traffic.agentic_lanes is not None:
        raise InputError(
            f"traffic.agentic_lanes: {traffic.agentic_lanes} has no effect: the trace is not agentic"
        )


def require_aggregated(workload: Workload, kind: str) -> None:
    """Refuse an agentic trace on another topology than an aggregated one."""
    if isinstance(workload, AgenticWorkload) and kind != "aggregated":
        raise InputError(f"spec.topology.kind: {kind!r}: an agentic trace requires an aggregated topology")
