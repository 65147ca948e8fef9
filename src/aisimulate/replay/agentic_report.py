"""What the report says of plays: outcomes, latencies and what identifies them (spec 02 section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.core.units import NS_PER_MS, to_ms
from aisimulate.replay.lifecycle import lifecycle_digest, lifecycle_events
from aisimulate.replay.statistics import summarize
from aisimulate.workload.graph import SPAWN

if TYPE_CHECKING:
    from aisimulate.workload.graph import AgenticGraph, Node, Play
    from aisimulate.workload.plays import PlayRun, PlaysOutcome

Report = dict[str, Any]


def report_plays(outcome: PlaysOutcome) -> Report:
    """Build the keys that only agentic traces have."""
    events = lifecycle_events(outcome)
    plays = list(zip(outcome.graph.plays, outcome.runs, strict=True))
    return {
        **_trajectories(outcome.runs),
        "agentic_graph": _identity(outcome.graph),
        "agentic_play_outcomes": [_play_outcome(play, run, outcome.graph.nodes) for play, run in plays],
        "agentic_lifecycle_digest": lifecycle_digest(events),
        "agentic_lifecycle_event_count": len(events),
        **_nested_basis(outcome.graph),
    }


def request_identities(outcome: PlaysOutcome) -> dict[str, Report]:
    """Say of each request, by id, where it belongs; what does not apply is left out."""
    nodes = outcome.graph.nodes
    identities: dict[str, Report] = {}
    for play, run in zip(outcome.graph.plays, outcome.runs, strict=True):
        shared = {} if run.lane is None else {"lane_id": f"lane:{run.lane}"}
        if len(play.roots) == 1:
            shared["root_id"] = nodes[play.roots[0]].request_id
        for index in play.nodes:
            identities[nodes[index].request_id] = _request_identity(nodes[index], shared)
    return identities


def _request_identity(node: Node, shared: dict[str, str]) -> Report:
    parents = [edge.request_id for edge in node.dependencies if edge.relation == SPAWN]
    return {
        "request_id": node.request_id,
        "play_id": node.play_id,
        "conversation_id": node.session_id,
        **shared,
        **({"parent_id": min(parents)} if parents else {}),
    }


def _trajectories(runs: list[PlayRun]) -> Report:
    """Time from the first dispatch of a play to its last end, over the plays that completed."""
    spans = [
        (run.last_end_ns - run.start_ns) / NS_PER_MS
        for run in runs
        if run.is_completed and run.start_ns is not None and run.last_end_ns is not None
    ]
    summary = summarize(np.array(spans, dtype=np.float64))._asdict()
    statistics = {f"{name}_trajectory_e2e_latency_ms": value for name, value in summary.items()}
    return {
        "total_trajectories": len(runs),
        "completed_trajectories": len(spans),
        "incomplete_trajectories": len(runs) - len(spans),
        **statistics,
        "p50_trajectory_e2e_latency_ms": summary["median"],
    }


def _nested_basis(graph: AgenticGraph) -> Report:
    return {} if graph.nested_basis is None else {"weka_nested_timestamp_basis": graph.nested_basis}


def _identity(graph: AgenticGraph) -> Report:
    return {
        "source": {"format": graph.source.format, "digest": graph.source.digest},
        "graph_digest": graph.digest,
        "block_size": graph.block_tokens,
        "node_count": len(graph.nodes),
        "play_count": len(graph.plays),
        "source_models": sorted({node.model for node in graph.nodes}),
    }


def _play_outcome(play: Play, run: PlayRun, nodes: list[Node]) -> Report:
    """Say how a play ended; what has not happened is left out."""
    failure, end_ns, settled_ns = run.failure, run.last_end_ns, run.settled_ns
    status = "failed" if failure is not None else "completed"
    report: Report = {"play_id": play.play_id, "status": "incomplete" if settled_ns is None else status}
    if failure is not None:
        end_ns = failure.at_ns
    if end_ns is not None:
        report["causal_terminal_ms"] = to_ms(end_ns)
    if settled_ns is not None:
        report["settled_at_ms"] = to_ms(settled_ns)
    if failure is not None:
        report["failure_request_id"] = nodes[failure.node].request_id
        report["failure_status"] = failure.status
    return report
