"""From the requests and tool calls of agents in a Dynamo trace to a graph (spec 02 section 2.4)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Turn
from aisimulate.workload.dynamo_records import SCHEMA
from aisimulate.workload.dynamo_tools import read_tool_calls
from aisimulate.workload.graph import (
    COMPLETION,
    DISPATCH,
    JOIN,
    SEQUENCE,
    SPAWN,
    AgenticGraph,
    Dependency,
    GraphSource,
    Node,
)
from aisimulate.workload.graph_checks import build_graph
from aisimulate.workload.limits import shown
from aisimulate.workload.play_components import name_plays

if TYPE_CHECKING:
    from aisimulate.workload.dynamo_records import DynamoRecords, RequestEnd
    from aisimulate.workload.dynamo_tools import ToolCall


def lower_agents(records: DynamoRecords) -> AgenticGraph:
    """Make a graph of requests that all have an agent_context; all of one connected component are a play.

    The requests of a session follow one another. A child session starts after the dispatch of a request of
    its parent, and another waits for its end: those that a tool call names, else those that fit in time.
    Roots keep their start, counted from the first request; delays are those recorded.

    Raises InputError naming file, line and value.
    """
    requests = records.requests
    first_ms = min(request.start_ms for request in requests)
    nodes = {request.request_id: _node(request) for request in requests}
    sessions = _sessions(requests)
    for session in sessions.values():
        for previous, following in pairwise(session):
            _add(nodes, previous, following, COMPLETION, SEQUENCE)
    calls = read_tool_calls(records.tools, requests)
    for name, parent in sorted(_parents(requests).items()):
        _attach(nodes, sessions, name, parent, calls.get(name))
    for request in requests:
        node = nodes[request.request_id]
        node.not_before_ms = 0.0 if node.dependencies else request.start_ms - first_ms
    name_plays(list(nodes.values()), "dynamo-play")
    source = GraphSource(SCHEMA, f"requests:{len(requests)};tools:{_tool_count(records)}")
    return build_graph(requests[0].block_tokens, source, nodes.values())


def _tool_count(records: DynamoRecords) -> int:
    return sum({"agent_context", "tool"} <= tool.row.names for tool in records.tools)


def _node(request: RequestEnd) -> Node:
    needed = -(-request.input_tokens // request.block_tokens)
    if len(request.hashes) != needed:
        raise InputError(
            f"{request.place}: request.replay.input_sequence_hashes of length {len(request.hashes)}: "
            f"input_length {request.input_tokens} needs {needed} (trace_block_size {request.block_tokens})"
        )
    return Node(
        request_id=request.request_id,
        play_id="",
        session_id=request.session_id or "",
        model=request.model or "unknown",
        turn=Turn(request.input_tokens, request.output_tokens, request.hashes, request_id=request.request_id),
        not_before_ms=0.0,
        dependencies=[],
        place=request.place,
    )


def _sessions(requests: list[RequestEnd]) -> dict[str, list[RequestEnd]]:
    """Group requests by session, in their order: (start, end, id)."""
    sessions: dict[str, list[RequestEnd]] = {}
    for request in requests:
        name = request.session_id or ""
        if not name.strip():
            raise InputError(f"{request.place}: agent_context.session_id {shown(name)}: must not be empty")
        sessions.setdefault(name, []).append(request)
    return sessions


def _parents(requests: list[RequestEnd]) -> dict[str, tuple[str, str]]:
    """Find the parent of each child session, and the place that says so."""
    parents: dict[str, tuple[str, str]] = {}
    for request in requests:
        parent = request.parent_session_id
        if parent is None:
            continue
        known, place = parents.setdefault(request.session_id or "", (parent, request.place))
        if known != parent:
            raise InputError(
                f"{request.place}: agent_context.parent_session_id {shown(parent)}: session "
                f"{shown(request.session_id)} has the parent {shown(known)} at {place}"
            )
    return parents


def _attach(
    nodes: dict[str, Node],
    sessions: dict[str, list[RequestEnd]],
    name: str,
    parent: tuple[str, str],
    call: ToolCall | None,
) -> None:
    """Tie a child session to the requests of its parent."""
    parent_name, place = parent
    around = sessions.get(parent_name)
    if around is None:
        raise InputError(
            f"{place}: agent_context.parent_session_id {shown(parent_name)}: no request has this session"
        )
    child = sessions[name]
    last: RequestEnd | None = child[-1]
    if call is None:
        source, consumer = _source_by_time(around, child[0]), _consumer_by_time(around, child[-1])
    else:
        call.check_parent(parent_name)
        source, consumer = call.source, call.consumer
        if consumer is not None:
            last = _last_before(child, consumer)
    if source is not None:
        _add(nodes, source, child[0], DISPATCH, SPAWN)
    if consumer is not None and last is not None:
        _add(nodes, last, consumer, COMPLETION, JOIN)


def _source_by_time(parent: list[RequestEnd], first: RequestEnd) -> RequestEnd | None:
    """The request of the parent that started last before the child did; of equal ones the last."""
    before = [request for request in parent if request.start_ms <= first.start_ms]
    return before[-1] if before else None


def _consumer_by_time(parent: list[RequestEnd], last: RequestEnd) -> RequestEnd | None:
    """The request of the parent that started first after the child had ended; of equal ones the first."""
    return next((request for request in parent if request.start_ms >= last.end_ms), None)


def _last_before(child: list[RequestEnd], consumer: RequestEnd) -> RequestEnd | None:
    """The last request of a child that had ended when the consumer started: what came later it never saw."""
    ended = [request for request in child if request.end_ms <= consumer.start_ms]
    return ended[-1] if ended else None


def _add(nodes: dict[str, Node], source: RequestEnd, target: RequestEnd, trigger: str, relation: str) -> None:
    """Let `target` wait for `source` as long as it did; a trigger counts once per source.

    Raises InputError when `target` started before.
    """
    dependencies = nodes[target.request_id].dependencies
    if any((edge.request_id, edge.trigger) == (source.request_id, trigger) for edge in dependencies):
        return
    since_ms = source.start_ms if trigger == DISPATCH else source.end_ms
    delay_ms = target.start_ms - since_ms
    if delay_ms < 0:
        what = "was dispatched" if trigger == DISPATCH else "ended"
        raise InputError(
            f"{target.place}: request {shown(target.request_id)} starts {-delay_ms:g} ms before request "
            f"{shown(source.request_id)} ({source.place}) {what}, which it follows ({relation})"
        )
    dependencies.append(Dependency(source.request_id, trigger, delay_ms, relation))
