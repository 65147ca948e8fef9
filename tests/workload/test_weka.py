"""Weka corpora: files, conversations, subagents, every message (spec 02 section 2.5)."""

import json

import pytest

from aisimulate.core.errors import InputError
from aisimulate.workload.weka import read_weka

PLAY = {"id": "play", "models": ["m"], "block_size": 4, "hash_id_scope": "local"}


def request(t, hashes, api_time=0.5, **changes):
    row = {"t": t, "type": "n", "model": "m", "in": 4 * len(hashes), "out": 2, "hash_ids": hashes}
    return present(row | {"api_time": api_time} | changes)


def agent(t, *requests, status="completed", **changes):
    row = {"t": t, "type": "subagent", "agent_id": "A", "subagent_type": "Explore", "status": status}
    return present(row | {"requests": list(requests)} | changes)


def present(values):
    return {name: value for name, value in values.items() if value is not ...}


def play(*requests, **changes):
    return present(PLAY | {"requests": list(requests)} | changes)


def write(folder, *plays, name="w.jsonl"):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in plays))
    return path


def graph_of(folder, *requests, basis="auto"):
    return read_weka(write(folder, play(*requests)), None, basis).graph


def short(name):
    """A name without the play's own prefix."""
    return name.split(":", 2)[2]


def streams(graph):
    found = {}
    for node in graph.nodes:
        found.setdefault(short(node.session_id), []).append(short(node.request_id))
    return found


def edges(graph):
    return {
        short(node.request_id).removeprefix("request:"): [
            (short(e.request_id).removeprefix("request:"), e.trigger, e.relation, e.delay_ms)
            for e in node.dependencies
        ]
        for node in graph.nodes
    }


# Files ---------------------------------------------------------------------------------------------------


def test_a_folder_is_read_by_name(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    write(corpus, play(request(0, [1]), id="b1"), play(request(0, [1]), id="b2"), name="b.jsonl")
    write(corpus, play(request(0, [1]), id="a"), name="sub/a.JSON")
    write(corpus, play(request(0, [1])), name="notes.txt")
    graph = read_weka(corpus, 4).graph
    assert [short(found.play_id) for found in graph.plays] == ["play:b1", "play:b2", "play:a"]
    # Equal ids of different plays are different text.
    assert len({tuple(node.turn.block_ids) for node in graph.nodes}) == 3


def test_a_file_of_one_object_may_have_many_lines(tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(play(request(0, [1])), indent=2))
    assert [node.place for node in read_weka(path, None).graph.nodes] == [f"{path}:1"]


def test_no_symbolic_links(tmp_path):
    real = write(tmp_path, play(request(0, [1])))
    (tmp_path / "link.jsonl").symlink_to(real)
    for path in (tmp_path / "link.jsonl", tmp_path):
        with pytest.raises(InputError, match=r"link.jsonl: a Weka corpus must not hold symbolic links"):
            read_weka(path, None)


def test_the_source_digest_is_that_of_the_files_and_the_basis(tmp_path):
    path = write(tmp_path, play(request(0, [1]), agent(1, request(1, [2]), status="async_launched")))
    digests = {read_weka(path, None, basis).graph.source.digest for basis in ("absolute", "relative")}
    assert len(digests) == 2
    assert read_weka(path, None).graph.source.digest in digests


# Conversations -------------------------------------------------------------------------------------------


def test_prompts_that_extend_one_another_are_a_conversation(tmp_path):
    graph = graph_of(tmp_path, request(0, [1]), request(1, [1, 2]), request(2.25, [1, 2, 3]))
    assert edges(graph) == {
        "outer:0": [],
        "outer:1": [("outer:0", "completion", "sequence", 500.0)],
        "outer:2": [("outer:1", "completion", "sequence", 750.0)],
    }
    assert [(node.not_before_ms, node.api_time_ms) for node in graph.nodes] == [
        (0.0, 500.0),
        (1000.0, 500.0),
        (2250.0, 500.0),
    ]


def test_starts_count_from_the_first_request(tmp_path):
    graph = graph_of(tmp_path, request(7, [1]), request(8, [1, 2], api_time=...))
    assert [(node.not_before_ms, node.api_time_ms) for node in graph.nodes] == [(0.0, 500.0), (1000.0, None)]


def test_an_overlapping_fork_is_a_worker(tmp_path):
    graph = graph_of(tmp_path, request(0, [1, 2], 2), request(1, [1, 9]), request(3, [1, 2, 3]))
    assert streams(graph) == {
        "session:root": ["request:outer:0", "request:outer:2"],
        "session:root:worker:0": ["request:outer:1"],
    }
    assert edges(graph)["outer:1"] == [("outer:0", "dispatch", "spawn", 1000.0)]
    # What had ended in the other conversation has ended before, in a replay too.
    assert ("outer:1", "completion", "replay_barrier", 0.0) in edges(graph)["outer:2"]


def test_a_fork_after_the_end_goes_on_with_the_conversation(tmp_path):
    graph = graph_of(tmp_path, request(0, [1, 2]), request(1, [1, 9]), request(2, [1, 9, 8]))
    assert list(streams(graph)) == ["session:root"]
    # Unless much later with little in common, or for another model.
    later = graph_of(tmp_path, request(0, [1, 2, 3]), request(4000, [1, 9]), request(4001, [1, 9, 8]))
    assert list(streams(later)) == ["session:root", "session:root:worker:0"]
    assert edges(later)["outer:1"][0] == ("outer:0", "completion", "spawn", 3_999_500.0)
    path = write(tmp_path, play(request(0, [1, 2]), request(1, [1, 9], model="k"), models=[]))
    assert len(streams(read_weka(path, None).graph)) == 2


def test_a_first_request_on_its_own_is_a_preamble(tmp_path):
    rows = [request(0, [7]), request(1, [1]), request(2, [1, 2])]
    assert list(streams(graph_of(tmp_path, *rows))) == ["session:root"]
    # A long answer that shares a block anywhere is a conversation.
    rows = [request(0, [7], out=65), request(1, [1]), request(2, [1, 7])]
    assert len(streams(graph_of(tmp_path, *rows))) == 2


def test_a_conversation_with_nothing_in_common_starts_after_the_first_dispatch(tmp_path):
    rows = [request(0, [1], 5), request(1, [8, 9], 5), request(2, [8], 0.1), request(7, [1, 2])]
    waits = edges(graph_of(tmp_path, *rows))
    assert waits["outer:1"] == [("outer:0", "dispatch", "spawn", 1000.0)]


def test_requests_without_ids_belong_to_the_first_conversation(tmp_path):
    graph = graph_of(tmp_path, request(0, [1]), request(1, [], **{"in": 9}), request(2, [1, 2]))
    assert list(streams(graph)) == ["session:root"]
    ids = {short(node.request_id): list(node.turn.block_ids) for node in graph.nodes}
    assert ids["request:outer:0"] == ids["request:outer:2"][:1]
    assert len(set(ids["request:outer:1"]) | set(ids["request:outer:2"])) == 5


def test_the_cut_last_block_is_nobody_elses(tmp_path):
    graph = graph_of(tmp_path, request(0, [1, 2], **{"in": 7}), request(1, [1, 2], **{"in": 7}))
    first, second = (list(node.turn.block_ids) for node in graph.nodes)
    assert first[0] == second[0]
    assert first[1] != second[1]


# Subagents -----------------------------------------------------------------------------------------------


def test_who_waited_joins_the_ends_of_a_subagent(tmp_path):
    graph = graph_of(
        tmp_path,
        request(0, [1], 1),
        agent(0.5, request(0.5, [5], 0.25), request(1, [5, 6], 0.25)),
        request(2, [1, 2]),
    )
    assert streams(graph)["session:subagent:1:A"] == ["request:outer:1:inner:0", "request:outer:1:inner:1"]
    waits = edges(graph)
    assert waits["outer:1:inner:0"] == [("outer:0", "dispatch", "spawn", 500.0)]
    assert waits["outer:2"] == [
        ("outer:0", "completion", "sequence", 1000.0),
        ("outer:1:inner:1", "completion", "join", 750.0),
    ]


def test_a_subagent_that_began_after_the_end_starts_after_it(tmp_path):
    waits = edges(graph_of(tmp_path, request(0, [1], 0.5), agent(0.9, request(0.9, [5]))))
    assert waits["outer:1:inner:0"] == [("outer:0", "completion", "spawn", 400.0)]


def test_nobody_waits_for_an_agent_in_the_background(tmp_path):
    rows = [request(0, [1]), agent(1, request(1, [5], 0.1), status="async_launched"), request(2, [1, 2])]
    assert len(edges(graph_of(tmp_path, *rows))["outer:2"]) == 1
    assert len(edges(graph_of(tmp_path, rows[0], agent(1, status="async_launched"), rows[2]))) == 2


def test_the_recorded_duration_says_who_could_wait(tmp_path):
    rows = [request(0, [1]), agent(1, request(1, [5], 0.1), duration_ms=1500), request(2, [1, 2])]
    assert len(edges(graph_of(tmp_path, *rows))["outer:2"]) == 1
    rows[1]["duration_ms"] = 1000
    assert len(edges(graph_of(tmp_path, *rows))["outer:2"]) == 2


@pytest.mark.parametrize(
    ("inner", "wanted", "basis", "start_ms"),
    [
        (3.5, "auto", "absolute", 3500.0),
        (0.5, "auto", "relative", 3500.0),
        (3.5, "relative", "relative", 6500.0),
        (2.9999995, "auto", "absolute", 3000.0),
    ],
)
def test_times_inside_of_subagents(tmp_path, inner, wanted, basis, start_ms):
    graph = graph_of(tmp_path, request(0, [1]), agent(3, request(inner, [5])), basis=wanted)
    assert graph.nested_basis == basis
    assert graph.nodes[1].not_before_ms == start_ms


def test_without_subagents_there_is_no_basis(tmp_path):
    assert graph_of(tmp_path, request(0, [1])).nested_basis == "not_applicable"


# Errors --------------------------------------------------------------------------------------------------

FIRST = request(0, [1])
WRONG = {
    "no id": (play(FIRST, id=...), "id is missing"),
    "no block size": (play(FIRST, block_size=0), "block_size 0: must be a whole number from 1 to 4294967295"),
    "another scope": (play(FIRST, hash_id_scope="global"), "hash_id_scope 'global': must be 'local'"),
    "no requests": (play(requests=...), "requests is missing"),
    "only a subagent": (
        play(agent(0, request(0, [1]))),
        "requests: holds no request outside of subagents",
    ),
    "an unknown type": (
        play(request(0, [1], type="x")),
        "requests[0].type 'x': must be one of n, s, subagent",
    ),
    "no time": (play(request(..., [1])), "requests[0].t is missing"),
    "a negative time": (play(request(-1, [1])), "requests[0].t -1.0: must not be negative"),
    "a negative duration": (
        play(request(0, [1], -1)),
        "requests[0].api_time -1.0: must not be negative",
    ),
    "no prompt": (
        play(request(0, [1], **{"in": 0})),
        "requests[0].in 0: must be a whole number from 1 to 10000000",
    ),
    "no model": (play(request(0, [1], model="")), "requests[0].model '': must not be empty"),
    "an undeclared model": (
        play(request(0, [1], model="k")),
        "models ['m']: lacks 'k', the model of outer:0",
    ),
    "another status": (
        play(FIRST, agent(1, request(1, [2]), status="failed")),
        "requests[1].status 'failed': must be one of completed, async_launched",
    ),
    "no agent": (
        play(FIRST, agent(1, request(1, [2]), agent_id="")),
        "requests[1].agent_id '': must not be empty",
    ),
    "a subagent without requests": (
        play(FIRST, agent(1)),
        "requests[1].requests []: a completed subagent must have made requests",
    ),
    "a subagent first": (
        play(agent(0, request(0, [2])), request(1, [1])),
        "subagent 'A': no request precedes it",
    ),
    "a subagent inside of one": (
        play(FIRST, agent(1, agent(1, request(1, [2])))),
        "requests[1].requests[0].type 'subagent': must be one of n, s",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_plays(tmp_path, what):
    row, message = WRONG[what]
    path = write(tmp_path, play(FIRST, id="fine"), row)
    with pytest.raises(InputError) as caught:
        read_weka(path, None)
    assert str(caught.value) == f"{path}:2: {message}"


def test_absolute_times_before_their_subagent_are_refused(tmp_path):
    path = write(tmp_path, play(FIRST, agent(3, request(0.5, [5]))))
    with pytest.raises(InputError) as caught:
        read_weka(path, None, "absolute")
    assert str(caught.value) == (
        f"{path}:1: t 0.5 of a request inside of subagent 'A': before the subagent's own t 3, so it cannot "
        "be absolute"
    )


def test_one_block_size(tmp_path):
    path = write(tmp_path, play(FIRST), play(FIRST, block_size=8))
    with pytest.raises(InputError, match=r":2: block_size 8: differs from 4 at .*:1; a corpus has one"):
        read_weka(path, None)
    path = write(tmp_path, play(FIRST))
    with pytest.raises(InputError, match=r"trace_block_size 8 does not match the block size 4 .*:1\)"):
        read_weka(path, 8)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("w.txt", "{}", "w.txt: a Weka trace must be a .json or .jsonl file, or a folder of them"),
        ("w.jsonl", "\n", "w.jsonl: the file contains no requests"),
        ("w.jsonl", "\n{", "w.jsonl:2: not JSON: "),
        ("w.json", "{\n\n1", "w.json:3: not JSON: "),
        ("w.json", "[]", "w.json:1: a row must be a JSON object, got []"),
    ],
)
def test_files_that_are_no_traces(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_weka(path, None)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"w\.json: no such file"):
        read_weka(tmp_path / "w.json", None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: the folder has no .json or .jsonl files"):
        read_weka(tmp_path / "empty", None)
