"""The identity of a graph: equal digests mean equal requests, times and dependencies (spec 02 2.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from aisimulate.workload.digest import blake3_hex

if TYPE_CHECKING:
    from aisimulate.workload.graph import AgenticGraph, Node


def graph_digest(graph: AgenticGraph) -> str:
    """BLAKE3 over the canonical JSON text of a graph; the same value as the reference's."""
    return blake3_hex(
        orjson.dumps({"block_size": graph.block_tokens, "nodes": [_canonical(node) for node in graph.nodes]})
    )


def _canonical(node: Node) -> dict[str, Any]:
    """Spell a node: the order of the keys matters, and so does which of them are left out when absent."""
    turn, routing = node.turn, node.turn.metadata or {}
    ordinal = {} if node.ordinal is None else {"source_play_ordinal": node.ordinal}
    api_time = {} if node.api_time_ms is None else {"recorded_api_time_ms": node.api_time_ms}
    return {
        "request_id": node.request_id,
        "play_id": node.play_id,
        **ordinal,
        "session_id": node.session_id,
        "model": node.model,
        "input_length": turn.input_tokens,
        "max_output_tokens": turn.output_tokens,
        "output_token_ids": turn.output_ids,
        "replay_key": None if turn.output_ids is None else node.request_id,
        "hash_ids": list(turn.block_ids or ()),
        "not_before_ms": node.not_before_ms,
        **api_time,
        "priority": routing.get("priority", 0),
        "strict_priority": routing.get("strict_priority", 0),
        "policy_class": routing.get("policy_class"),
        "dependencies": [
            {
                "request_id": edge.request_id,
                "trigger": edge.trigger,
                "delay_ms": edge.delay_ms,
                "relation": edge.relation,
            }
            for edge in node.dependencies
        ],
    }
