"""Dynamo traces of agents: sessions, children and tool calls become a graph (spec 02 section 2.4)."""

import json

import pytest
from trace_files import load, refusal

SCHEMA = "dynamo.request.trace.v1"


def request(request_id, session, start, total=10, parent=None, **changes):
    context = {"session_id": session} | ({"parent_session_id": parent} if parent else {})
    prompt = {"trace_block_size": 4, "input_length": 4, "input_sequence_hashes": [1]}
    body = {"request_id": request_id, "output_tokens": 2, "request_received_ms": start, "replay": prompt}
    body |= {"total_time_ms": total} | changes
    outer = {"schema": SCHEMA, "event_type": "request_end", "event_time_unix_ms": start + total}
    return outer | {"request": body, "agent_context": context}


def tool(session, source, child=None, consumer=None, **changes):
    claude = {"source_request_id": source, "consumer_request_id": consumer, "child_session_id": child}
    call = {"tool_call_id": "t", "tool_class": "agent", "claude": claude | {"execution_mode": "blocking"}}
    outer = {"schema": SCHEMA, "event_type": "tool_end", "event_time_unix_ms": 115}
    return outer | {"agent_context": {"session_id": session}, "tool": call | changes}


def text(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def edges(folder, *rows):
    """What each request waits for: {id: {(source, trigger, relation, delay ms)}}."""
    graph = load(folder, "dynamo", text(*rows)).graph
    return {
        node.request_id: {(e.request_id, e.trigger, e.relation, e.delay_ms) for e in node.dependencies}
        for node in graph.nodes
    }


PARENT = [request("p", "P", 100), request("q", "P", 200)]
CHILD = [request("c", "C", 120, parent="P"), request("d", "C", 150, parent="P")]


def test_a_session_is_a_chain_of_recorded_pauses(tmp_path):
    trace = load(tmp_path, "dynamo", text(*PARENT, request("x", "X", 130, model="big")))
    graph = trace.graph
    assert [(n.request_id, n.session_id, n.not_before_ms, n.model) for n in graph.nodes] == [
        ("p", "P", 0.0, "unknown"),
        ("q", "P", 0.0, "unknown"),
        ("x", "X", 30.0, "big"),
    ]
    assert edges(tmp_path, *PARENT)["q"] == {("p", "completion", "sequence", 90.0)}
    assert [play.play_id for play in graph.plays] == ["dynamo-play:p", "dynamo-play:x"]
    assert (graph.source.format, graph.source.digest) == (SCHEMA, "requests:3;tools:0")
    assert trace.block_tokens == 4


def test_a_tool_call_names_who_waits_for_whom(tmp_path):
    waits = edges(tmp_path, *PARENT, *CHILD, tool("P", "p", "C", "q"))
    assert waits["c"] == {("p", "dispatch", "spawn", 20.0)}
    assert waits["d"] == {("c", "completion", "sequence", 20.0)}
    assert waits["q"] == {("p", "completion", "sequence", 90.0), ("d", "completion", "join", 40.0)}


def test_nobody_waits_for_a_call_without_a_consumer(tmp_path):
    waits = edges(tmp_path, *PARENT, *CHILD, tool("P", "p", "C"))
    assert waits["q"] == {("p", "completion", "sequence", 90.0)}


def test_a_consumer_waits_for_what_it_could_see(tmp_path):
    early = [request("p", "P", 100), request("q", "P", 140)]
    waits = edges(tmp_path, *early, *CHILD, tool("P", "p", "C", "q"))
    assert ("c", "completion", "join", 10.0) in waits["q"]
    waits = edges(tmp_path, *early, *CHILD, tool("P", "p", "C", "p"))
    assert waits["p"] == set()


def test_without_a_tool_call_the_times_decide(tmp_path):
    waits = edges(tmp_path, *PARENT, request("r", "P", 115, 2), *CHILD)
    assert waits["c"] == {("r", "dispatch", "spawn", 5.0)}
    assert ("d", "completion", "join", 40.0) in waits["q"]
    # Equal starts: the source is the last of them, the consumer the first.
    waits = edges(tmp_path, request("p", "P", 100), *CHILD, request("q", "P", 160, 0), request("r", "P", 160))
    assert ("d", "completion", "join", 0.0) in waits["q"]
    assert waits["r"] == {("q", "completion", "sequence", 0.0)}


def test_a_child_before_its_parent_starts_by_itself(tmp_path):
    waits = edges(tmp_path, request("p", "P", 300), *CHILD)
    assert waits["c"] == set()
    assert waits["p"] == {("d", "completion", "join", 140.0)}


def test_tool_calls_about_other_things_are_no_edges(tmp_path):
    plain = tool("P", "p")
    del plain["tool"]["claude"]
    without_context = tool("P", "p")
    del without_context["agent_context"]
    rows = [*PARENT, plain, without_context, tool("P", "p"), tool("P", "p", "nobody")]
    graph = load(tmp_path, "dynamo", text(*rows)).graph
    assert [len(node.dependencies) for node in graph.nodes] == [0, 1]
    assert graph.source.digest == "requests:2;tools:3"


WRONG = {
    "overlapping requests": (
        [request("a", "S", 100, 50), request("b", "S", 120)],
        "t:2: request 'b' starts 30 ms before request 'a' (t:1) ended, which it follows (sequence)",
    ),
    "a child before its source": (
        [*PARENT, *CHILD, tool("P", "q", "C")],
        "t:3: request 'c' starts 80 ms before request 'q' (t:2) was dispatched, which it follows (spawn)",
    ),
    "an unknown parent": (
        [request("c", "C", 120, parent="X")],
        "t:1: agent_context.parent_session_id 'X': no request has this session",
    ),
    "two parents": (
        [*PARENT, request("c", "C", 120, parent="P"), request("d", "C", 150, parent="C")],
        "t:4: agent_context.parent_session_id 'C': session 'C' has the parent 'P' at t:3",
    ),
    "its own parent": ([request("a", "S", 1, parent="S")], "t:1: request 'a' depends on itself"),
    "an empty session": ([request("a", " ", 1)], "t:1: agent_context.session_id ' ': must not be empty"),
    "an unknown source": (
        [*PARENT, tool("P", "zz")],
        "t:3: tool.claude.source_request_id 'zz': the trace has no such request",
    ),
    "a source of another session": (
        [*PARENT, *CHILD, tool("P", "c", "C")],
        "t:5: tool.claude.source_request_id 'c': belongs to session 'C', the call to 'P'",
    ),
    "a consumer of another session": (
        [*PARENT, *CHILD, tool("P", "p", "C", "c")],
        "t:5: tool.claude.consumer_request_id 'c': belongs to session 'C', the call to 'P'",
    ),
    "an unknown mode": (
        [*PARENT, tool("P", "p", claude={"source_request_id": "p", "execution_mode": "block"})],
        "t:3: tool.claude.execution_mode 'block': must be one of blocking, background; "
        "did you mean 'blocking'?",
    ),
    "a child started twice": (
        [*PARENT, *CHILD, tool("P", "p", "C"), tool("P", "q", "C")],
        "t:6: tool.claude.child_session_id 'C': already started by the call at t:5",
    ),
    "a call by another session than the parent": (
        [*PARENT, *CHILD, request("x", "X", 100), tool("X", "x", "C")],
        "t:6: agent_context.session_id 'X': the session that this call started has the parent 'P'",
    ),
    "a call that ends before it starts": (
        [*PARENT, tool("P", "p", started_at_unix_ms=20, ended_at_unix_ms=10)],
        "t:3: tool.ended_at_unix_ms 10.0: must not be before started_at_unix_ms 20",
    ),
    "a call without id": ([*PARENT, tool("P", "p", tool_call_id=None)], "t:3: tool.tool_call_id is missing"),
    "ids to spare": (
        [
            request(
                "a",
                "S",
                1,
                replay={"trace_block_size": 4, "input_length": 4, "input_sequence_hashes": [1, 2]},
            )
        ],
        "t:1: request.replay.input_sequence_hashes of length 2: input_length 4 needs 1 (trace_block_size 4)",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_records(tmp_path, what):
    rows, message = WRONG[what]
    assert refusal(tmp_path, "dynamo", text(*rows)) == message


def test_lanes_are_for_graphs(tmp_path):
    from aisimulate.config.traffic import RuntimeTraffic
    from aisimulate.core.errors import InputError
    from aisimulate.replay.traffic import build_workload

    row = request("a", "S", 1)
    del row["agent_context"]
    path = tmp_path / "plain.jsonl"
    path.write_text(text(row))
    fields = {"source_type": "trace", "trace_path": str(path), "trace_format": "dynamo", "agentic_lanes": 2}
    with pytest.raises(InputError, match="agentic_lanes: 2 has no effect: the trace is not agentic"):
        build_workload(RuntimeTraffic.model_validate(fields), 4)
