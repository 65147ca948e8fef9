"""Agentic Mooncake traces, with a header and without: every rule, every message (spec 02 2.2 and 9)."""

import json

import pytest
from trace_files import load, refusal

from aisimulate.workload.graph import Dependency
from aisimulate.workload.graph_digest import graph_digest
from aisimulate.workload.graph_timing import normalise_graph, speed_up_graph

FORMAT = "agentic_mooncake"
SOURCE = {"format": "tests", "digest": "1"}
HEADER = {
    "schema": "dynamo.agentic_mooncake",
    "version": 2,
    "block_size": 4,
    "hash_id_scope": "local",
    "source": SOURCE,
}
NODE = {"play_id": "p", "session_id": "s", "model": "m", "input_length": 8, "output_length": 2}


def edge(request_id, **changes):
    default = {"request_id": request_id, "trigger": "completion", "delay_ms": 0, "relation": "sequence"}
    return present(default | changes)


def node(request_id, *dependencies, **changes):
    row = {"request_id": request_id, **NODE, "hash_ids": [1, 2], "not_before_ms": 0}
    return present(row | {"dependencies": list(dependencies)} | changes)


def present(values):
    return {name: value for name, value in values.items() if value is not ...}


def text(*rows, **header):
    return "".join(json.dumps(row) + "\n" for row in (present(HEADER | header), *rows))


def flat(request_id, *wait_for, **changes):
    row = {"request_id": request_id, "input_length": 8, "output_length": 2, "hash_ids": [1, 2]}
    return present(row | ({"wait_for": list(wait_for)} if wait_for else {}) | changes)


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_nodes_are_ordered_by_id_and_plays_by_id(tmp_path):
    rows = text(
        node("z", play_id="B", not_before_ms=3),
        node("b", edge("a"), play_id="C"),
        node("a", play_id="C"),
        node("y", play_id="A"),
    )
    graph = load(tmp_path, FORMAT, rows).graph
    assert [found.request_id for found in graph.nodes] == ["a", "b", "y", "z"]
    assert [(play.play_id, play.nodes, play.roots) for play in graph.plays] == [
        ("A", [2], [2]),
        ("B", [3], [3]),
        ("C", [0, 1], [0]),
    ]
    assert graph.nodes[1].dependencies == [Dependency("a", "completion", 0.0, "sequence")]
    assert graph.nodes[3].place.endswith("t:2")


def test_an_authored_order_of_plays_counts(tmp_path):
    rows = text(node("a", play_id="A", source_play_ordinal=1), node("b", play_id="B", source_play_ordinal=0))
    assert [play.play_id for play in load(tmp_path, FORMAT, rows).graph.plays] == ["B", "A"]


def test_every_node_is_a_session_of_one_turn(tmp_path):
    rows = text(node("b", priority=3, output_length=0, input_length=5), node("a", session_id="other"))
    trace = load(tmp_path, FORMAT, rows)
    assert [(s.session_id, s.turn_offset, s.arrival_ms) for s in trace.sessions] == [
        ("other", None, 0.0),
        ("s", None, 0.0),
    ]
    (turn,) = trace.sessions[1].turns
    assert (turn.request_id, turn.input_tokens, turn.output_tokens) == ("b", 5, 0)
    assert turn.metadata == {"priority": 3}


def test_planned_outputs_number_the_content_in_order_of_nodes(tmp_path):
    rows = text(node("b", hash_ids=[7, 9]), node("a", hash_ids=[9, 8], output_token_ids=[5, 6]))
    trace = load(tmp_path, FORMAT, rows)
    assert [list(session.turns[0].block_ids) for session in trace.sessions] == [[0, 1], [2, 0]]
    # The graph keeps what the file says, for its digest.
    assert [list(found.turn.block_ids) for found in trace.graph.nodes] == [[9, 8], [7, 9]]


def test_the_header_says_the_block_size(tmp_path):
    trace = load(tmp_path, FORMAT, text(node("a")), 512)
    assert trace.block_tokens == trace.graph.block_tokens == 4
    (note,) = trace.notes
    assert note.endswith("t:1: the trace's own block_size 4 counts, not trace_block_size 512")
    assert load(tmp_path, FORMAT, text(node("a")), 4).notes == []


def test_unknown_fields_are_noted(tmp_path):
    notes = load(tmp_path, FORMAT, text(node("a", sesion_id="x"), sources=1)).notes
    assert [note.split(": ", 1)[1] for note in notes] == [
        "unknown field 'sources', ignored; did you mean 'source'?",
        "unknown field 'sesion_id', ignored; did you mean 'session_id'?",
    ]


HEADERS = {
    "another schema": (
        {"schema": "dynamo.agentic"},
        "schema 'dynamo.agentic': must be 'dynamo.agentic_mooncake'",
    ),
    "another version": ({"version": 1}, "version 1: must be 2"),
    "a version that is text": ({"version": "2"}, "version '2': must be 2"),
    "no version": ({"version": ...}, "version is missing"),
    "another scope": ({"hash_id_scope": "global"}, "hash_id_scope 'global': must be 'local'"),
    "no block size": ({"block_size": ...}, "block_size is missing"),
    "block size 0": ({"block_size": 0}, "block_size 0: must be a whole number from 1 to 4294967295"),
    "no source": ({"source": ...}, "source is missing"),
    "an empty digest": ({"source": SOURCE | {"digest": " "}}, "source.digest ' ': must not be empty"),
    "no format": ({"source": {"digest": "1"}}, "source.format is missing"),
}


@pytest.mark.parametrize("what", HEADERS)
def test_wrong_headers(tmp_path, what):
    header, message = HEADERS[what]
    assert refusal(tmp_path, FORMAT, text(node("a"), **header)) == f"t:1: {message}"


A = node("a")
ROWS = {
    "only a header": ([], "t:1: the file contains no requests, only a header"),
    "not an object": ([3], "t:2: a row must be a JSON object, got 3"),
    "no request id": ([node(...)], "t:2: request_id is missing"),
    "a blank request id": ([node(" ")], "t:2: request_id ' ': must not be empty"),
    "no play": ([node("a", play_id=...)], "t:2: play_id is missing"),
    "no session": ([node("a", session_id=...)], "t:2: session_id is missing"),
    "no model": ([node("a", model="")], "t:2: model '': must not be empty"),
    "no ids": ([node("a", hash_ids=...)], "t:2: hash_ids is missing"),
    "too many ids": (
        [node("a", hash_ids=[1, 2, 3])],
        "t:2: hash_ids of length 3: input_length 8 needs exactly 2 blocks of 4 tokens",
    ),
    "no prompt": (
        [node("a", input_length=0)],
        "t:2: input_length 0: must be a whole number from 1 to 10000000",
    ),
    "no input length": ([node("a", input_length=...)], "t:2: input_length is missing"),
    "no output length": ([node("a", output_length=...)], "t:2: output_length is missing"),
    "too long an output": (
        [node("a", output_length=10_000_001)],
        "t:2: output_length 10000001: must be a whole number from 0 to 10000000",
    ),
    "other outputs": (
        [node("a", output_token_ids=[1])],
        "t:2: output_token_ids of length 1: must have output_length 2 ids",
    ),
    "no start": ([node("a", not_before_ms=...)], "t:2: not_before_ms is missing"),
    "a negative start": ([node("a", not_before_ms=-1)], "t:2: not_before_ms -1.0: must not be negative"),
    "used twice": ([A, node("b"), A], "t:4: request_id 'a': already used at t:2"),
    "unknown": (
        [A, node("b", edge("aa"))],
        "t:3: request 'b' depends on unknown request 'aa'; did you mean 'a'?",
    ),
    "itself": ([node("a", edge("a"))], "t:2: request 'a' depends on itself"),
    "another play": (
        [A, node("b", edge("a"), play_id="q")],
        "t:3: request 'b' depends on request 'a' of play 'p', but belongs to play 'q'",
    ),
    "a cycle": (
        [node("r"), node("b", edge("a"), edge("r")), node("a", edge("b"))],
        "t:4: a cycle of dependencies keeps 2 requests from ever starting: 'a', 'b'",
    ),
    "a long cycle": (
        [node(f"n{k}", edge(f"n{(k + 1) % 10}")) for k in range(10)],
        "t:2: a cycle of dependencies keeps 10 requests from ever starting: "
        "'n0', 'n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7', ...",
    ),
    "a dispatch that is no spawn": (
        [A, node("b", edge("a", trigger="dispatch", relation="join"))],
        "t:3: dependencies[0].relation 'join': only 'spawn' may have the trigger 'dispatch'",
    ),
    "an unknown trigger": (
        [A, node("b", edge("a", trigger="complete"))],
        "t:3: dependencies[0].trigger 'complete': must be one of dispatch, completion; "
        "did you mean 'completion'?",
    ),
    "an unknown relation": (
        [A, node("b", edge("a", relation=3))],
        "t:3: dependencies[0].relation 3: must be one of sequence, spawn, join, replay_barrier",
    ),
    "no delay": (
        [A, node("b", edge("a", delay_ms=...))],
        "t:3: dependencies[0].delay_ms is missing",
    ),
    "a negative delay": (
        [A, node("b", edge("a"), edge("a", delay_ms=-2))],
        "t:3: dependencies[1].delay_ms -2.0: must not be negative",
    ),
    "no object": ([node("a", dependencies=["b"])], "t:2: dependencies[0] must be a JSON object, got 'b'"),
    "no list": ([node("a", dependencies={})], "t:2: dependencies {}: must be a list of objects"),
    "ordinals that differ": (
        [node("a", source_play_ordinal=0), node("b", source_play_ordinal=1)],
        "t:3: source_play_ordinal 1: the play 'p' has 0 at t:2",
    ),
    "one play without ordinal": (
        [node("a", source_play_ordinal=0), node("b", play_id="q")],
        "t:3: play 'q' has no source_play_ordinal, but other plays have one",
    ),
    "an ordinal twice": (
        [node("a", source_play_ordinal=0), node("b", play_id="q", source_play_ordinal=0)],
        "t:3: source_play_ordinal 0: used by plays 'p' and 'q'",
    ),
    "a gap": (
        [node("a", source_play_ordinal=0), node("b", play_id="q", source_play_ordinal=2)],
        "t:3: source_play_ordinal 2: ordinals must go from 0 without a gap, but no play has 1",
    ),
}


@pytest.mark.parametrize("what", ROWS)
def test_wrong_rows(tmp_path, what):
    rows, message = ROWS[what]
    assert refusal(tmp_path, FORMAT, text(*rows)) == message


# Rows without a header -----------------------------------------------------------------------------------


def test_flat_rows_wait_for_one_another(tmp_path):
    trace = load(
        tmp_path,
        FORMAT,
        lines(
            flat("r1", timestamp=100.0, session_id="a"),
            flat("r2", "r1", delay=10, tool_wait_ms=6.0, timestamp=7),
            flat("r3", created_time=120, input_tokens=8, input_length=...),
            flat("r5", "r1", "r3", delay_ms=1),
            flat("r4", timestamp=90),
        ),
        4,
    )
    graph = trace.graph
    assert [(n.request_id, n.session_id, n.not_before_ms, n.model) for n in graph.nodes] == [
        ("r1", "a", 100.0, "unknown"),
        ("r2", "agentic-session", 0.0, "unknown"),
        ("r3", "agentic-session", 120.0, "unknown"),
        ("r4", "agentic-session", 90.0, "unknown"),
        ("r5", "agentic-session", 0.0, "unknown"),
    ]
    assert graph.nodes[1].dependencies == [Dependency("r1", "completion", 16.0, "sequence")]
    assert graph.nodes[4].dependencies == [
        Dependency("r1", "completion", 1.0, "join"),
        Dependency("r3", "completion", 1.0, "join"),
    ]
    # Two roots that something joins are one play, named by the earlier.
    assert [play.play_id for play in graph.plays] == ["legacy-play:r1", "legacy-play:r4"]
    assert graph.source.format == "legacy_agentic_mooncake"
    assert graph.source.digest.endswith("t:5")
    assert (trace.block_tokens, trace.notes) == (4, [])


def test_flat_rows_have_512_tokens_per_id(tmp_path):
    assert load(tmp_path, FORMAT, lines(flat("a", input_length=600))).block_tokens == 512


FLAT = {
    "both delays": (
        [flat("a"), flat("b", "a", delay=1, delay_ms=1)],
        "t:2: delay and delay_ms are the same field: give one of them",
    ),
    "a negative delay": (
        [flat("a"), flat("b", "a", delay=-5, tool_wait_ms=10)],
        "t:2: delay -5.0: must not be negative",
    ),
    "a negative tool": (
        [flat("a"), flat("b", "a", tool_wait_ms=-1)],
        "t:2: tool_wait_ms -1.0: must not be negative",
    ),
    "a negative start": (
        [flat("a", timestamp=-1)],
        "t:1: timestamp -1.0: must not be negative (read as trace_format 'agentic_mooncake', see "
        "--trace-format; the first rows fit 'mooncake')",
    ),
    "unknown": ([flat("a", "zz")], "t:1: request 'a' depends on unknown request 'zz'"),
    "no list": ([flat("a", wait_for="b")], "t:1: wait_for 'b': must be a list of request ids"),
    "a cycle": (
        [flat("a", "b"), flat("b", "a")],
        "t:1: a cycle of dependencies keeps 2 requests from ever starting: 'a', 'b'",
    ),
    "version 2 without its header": (
        [node("a")],
        't:1: dependencies: a field of version 2, whose files begin with a header ({"schema": '
        '"dynamo.agentic_mooncake", "version": 2, ...}); this one does not',
    ),
}


@pytest.mark.parametrize("what", FLAT)
def test_wrong_flat_rows(tmp_path, what):
    rows, message = FLAT[what]
    assert refusal(tmp_path, FORMAT, lines(*rows), 4) == message


# Time and identity ---------------------------------------------------------------------------------------


def test_the_smallest_start_becomes_0(tmp_path):
    graph = load(tmp_path, FORMAT, text(node("a", not_before_ms=5), node("b", not_before_ms=7.5))).graph
    shifted = normalise_graph(graph)
    assert [found.not_before_ms for found in shifted.nodes] == [0.0, 2.5]
    assert [found.not_before_ms for found in graph.nodes] == [5.0, 7.5]
    # A dependent at 0 keeps its root where it is.
    graph = load(tmp_path, FORMAT, text(node("a", not_before_ms=5), node("b", edge("a")))).graph
    assert normalise_graph(graph) is graph


def test_a_speed_up_divides_starts_and_delays(tmp_path):
    graph = load(tmp_path, FORMAT, text(node("a", not_before_ms=5), node("b", edge("a", delay_ms=3)))).graph
    fast = speed_up_graph(graph, 2.0)
    assert [found.not_before_ms for found in fast.nodes] == [2.5, 0.0]
    assert fast.nodes[1].dependencies[0].delay_ms == 1.5
    assert graph.nodes[1].dependencies[0].delay_ms == 3.0
    assert speed_up_graph(graph, 1.0) is graph
    with pytest.raises(Exception, match="arrival_speedup_ratio 1e-13: request 'a' would go beyond"):
        speed_up_graph(graph, 1e-13)


def test_the_digest_tells_graphs_apart(tmp_path):
    rows = [node("a"), node("b", edge("a", delay_ms=3))]
    first = graph_digest(load(tmp_path, FORMAT, text(*rows)).graph)
    assert first == graph_digest(load(tmp_path, FORMAT, text(*rows[::-1], source=SOURCE)).graph)
    others = [
        text(node("a"), node("b", edge("a", delay_ms=4))),
        text(node("a", recorded_api_time_ms=1), rows[1]),
        text(node("a", policy_class="gold"), rows[1]),
        text(node("a", hash_ids=[1, 3]), rows[1]),
    ]
    digests = {graph_digest(load(tmp_path, FORMAT, other).graph) for other in others}
    assert len(digests | {first}) == 5
