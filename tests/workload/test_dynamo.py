"""Dynamo request traces: every rule, every message (spec 02 sections 2.4 and 9)."""

import gzip
import json

import pytest

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.block_ids import packed
from aisimulate.workload.dynamo import read_dynamo
from aisimulate.workload.formats import load_trace

SCHEMA = "dynamo.request.trace.v1"


def record(request_id="a", received=100, total=10, *, event=None, request=None, replay=None, **fields):
    """A served request; `...` leaves a field out."""
    prompt = {"trace_block_size": 4, "input_length": 8, "input_sequence_hashes": [11, 12]} | (replay or {})
    body = {"request_id": request_id, "output_tokens": 2, "request_received_ms": received}
    body |= {"total_time_ms": total, "replay": present(prompt)} | (request or {})
    outer = {"schema": SCHEMA, "event_type": "request_end", "event_time_unix_ms": event or 110}
    return present({**outer, "request": present(body), **fields})


def present(values):
    return {name: value for name, value in values.items() if value is not ...}


@pytest.fixture
def written(tmp_path):
    """Write lines (dicts or raw text) to files, one per list; returns their paths."""

    def write(*files):
        paths = []
        for index, rows in enumerate(files):
            path = tmp_path / f"d{index}.jsonl"
            path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
            paths.append(path)
        return paths

    return write


def starts(trace):
    return [(session.turns[0].input_tokens, session.arrival_ms) for session in trace.sessions]


def test_a_request_is_a_session_of_one_turn(written):
    trace = load_trace(written([record()]), "dynamo")
    assert trace.sessions == [Session("request_1", [Turn(8, 2, packed([11, 12]))], 100.0)]
    assert (trace.block_tokens, trace.notes, trace.untimed) == (4, [], None)


def test_requests_of_all_files_are_ordered_by_start_end_and_id(written):
    def row(request_id, received, total, length):
        return record(request_id, received, total, replay={"input_length": length})

    paths = written(
        [row("b", 130, 10, 4), row("z", 100, 5, 1)], [row("b2", 100, 10, 3), row("a", 100, 10, 2)]
    )
    trace = read_dynamo(paths, None)
    assert starts(trace) == [(1, 100.0), (2, 100.0), (3, 100.0), (4, 130.0)]
    assert [session.session_id for session in trace.sessions] == [f"request_{n}" for n in (1, 2, 3, 4)]
    assert read_dynamo(paths[::-1], None) == trace


@pytest.mark.parametrize(
    ("received", "total", "event", "start_ms"),
    [
        (100, 10, 500, 100.0),
        (100, ..., 500, 100.0),
        (..., 10, 120, 110.0),
        (..., 10.4, 120, 110.0),
        (..., 10.5, 120, 109.0),
        (..., 11.5, 120, 108.0),
        (..., ..., 120, 120.0),
        (..., 50, 20, 0.0),
        (None, None, 120, 120.0),
    ],
)
def test_a_start_is_received_or_counted_back_from_the_end(written, received, total, event, start_ms):
    trace = read_dynamo(written([record("a", received, total, event=event)]), None)
    assert trace.sessions[0].arrival_ms == start_ms


def test_the_end_orders_equal_starts(written):
    known = record("known", 100, 30, event=105, replay={"input_length": 1})  # ends at 130, not at 105
    counted = record("counted", 100, ..., event=120, replay={"input_length": 2})
    assert starts(read_dynamo(written([known, counted]), None)) == [(2, 100.0), (1, 100.0)]
    longer, shorter = record("a", 100, 10.4, replay={"input_length": 1}), record("b", 100, 9.6)
    assert starts(read_dynamo(written([shorter, longer]), None)) == [(1, 100.0), (8, 100.0)]  # both at 110


def test_gzip_and_the_event_wrapper(written):
    plain, wrapped = written([record()], [{"timestamp": 5, "event": record("b", 130)}])
    packed = plain.with_name("d.jsonl.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert starts(read_dynamo([packed, wrapped], None)) == [(8, 100.0), (8, 130.0)]
    unnamed = plain.with_name("packed")  # told by its content, whatever its name
    unnamed.write_bytes(packed.read_bytes())
    assert read_dynamo([unnamed], None) == read_dynamo([plain], None)


def test_other_events_and_other_values_are_skipped(written):
    others = [{"event_type": kind} for kind in ("request_payload", "tool_start")]
    tools = [
        {"event_type": f"tool_{end}", "schema": SCHEMA, "event_time_unix_ms": 3} for end in ("end", "error")
    ]
    (path,) = written(["[1]", record(), *others, "", "null", *tools])
    trace = read_dynamo([path], None)
    assert len(trace.sessions) == 1
    assert trace.notes == [f"{path}:1: not a JSON object, skipped (and 1 more)"]
    assert read_dynamo(written([record(), "3"]), None).notes == [f"{path}:2: not a JSON object, skipped"]


def test_hashes_that_agree_in_their_low_bits_differ(written):
    hashes = [7, 7 + 2**32]
    (session,) = read_dynamo(written([record(replay={"input_sequence_hashes": hashes})]), None).sessions
    assert list(session.turns[0].block_ids) == hashes


def test_the_block_size_must_agree(written):
    paths = written([record()])
    assert read_dynamo(paths, 4).block_tokens == 4
    with pytest.raises(InputError) as caught:
        read_dynamo(paths, 512)
    assert str(caught.value) == (
        f"trace_block_size 512 does not match the block size 4 that the Dynamo trace says ({paths[0]}:1)"
    )


def test_a_context_that_is_null_is_none(written):
    assert read_dynamo(written([record(agent_context=None)]), None).graph is None


WRONG_ROWS = {
    "unknown event": (
        record(event_type="weird"),
        "event_type 'weird': must be one of request_end, tool_end, ",
    ),
    "nearest event": (record(event_type="request_ends"), "; did you mean 'request_end'?"),
    "no event": (record(event_type=...), "event_type is missing"),
    "another schema": (record(schema="x"), f"schema 'x': must be '{SCHEMA}'"),
    "no schema": (record(schema=...), "schema is missing"),
    "no time": (record(event_time_unix_ms=...), "event_time_unix_ms is missing"),
    "negative time": (record(received=-5), "request.request_received_ms -5: must not be negative"),
    "text for a time": (record(total="9"), "request.total_time_ms '9': must be a number from"),
    "no request": (record(request_=1) | {"request": None}, "request is missing"),
    "request no object": (record() | {"request": 5}, "request must be a JSON object, got 5"),
    "no replay": (record(request={"replay": ...}), "request.replay is missing"),
    "no id": (record(...), "request.request_id is missing"),
    "empty id": (record(""), "request.request_id '': must not be empty"),
    "number for an id": (record(5), "request.request_id 5: must be a string"),
    "no outputs": (record(request={"output_tokens": None}), "request.output_tokens is missing"),
    "fractional outputs": (
        record(request={"output_tokens": 2.5}),
        "request.output_tokens 2.5: must be a whole number from 0 to 4294967295",
    ),
    "no length": (record(replay={"input_length": ...}), "request.replay.input_length is missing"),
    "no prompt": (
        record(replay={"input_length": 0}),
        "request.replay.input_length 0: must be a whole number",
    ),
    "too long": (
        record(replay={"input_length": 9}),
        "request.replay.input_length 9: exceeds the capacity of 8 tokens (2 input_sequence_hashes x 4",
    ),
    "no hashes": (
        record(replay={"input_sequence_hashes": ...}),
        "request.replay.input_sequence_hashes is missing",
    ),
    "text for a hash": (
        record(replay={"input_sequence_hashes": [1, "2"]}),
        "request.replay.input_sequence_hashes[1] '2': must be a whole number",
    ),
    "no block size": (record(replay={"trace_block_size": 0}), "request.replay.trace_block_size 0: must be"),
    "context no object": (record(agent_context="s"), "agent_context must be a JSON object, got 's'"),
    "context without session": (record(agent_context={}), "agent_context.session_id is missing"),
    "wrapped text": ({"event": "x"}, "a row must be a JSON object, got 'x'"),
    "broken": ('{"schema": ', "not JSON: "),
    "key twice": ('{"schema": {"a": 1, "b": {"a": 2}}, "schema": 1}', "the key 'schema' appears twice"),
    "inner key twice": ('{"schema": {"a": 1, "a": 2}}', "the key 'a' appears twice"),
    "tool without time": ({"event_type": "tool_end", "schema": SCHEMA}, "event_time_unix_ms is missing"),
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_a_wrong_row_is_named_with_file_line_field_value_and_rule(name, written):
    bad, message = WRONG_ROWS[name]
    (path,) = written([record("first"), "", bad])
    with pytest.raises(InputError) as caught:
        read_dynamo([path], None)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert message in str(caught.value)


def test_requests_must_fit_together(written):
    def refused(*files):
        paths = written(*files)
        with pytest.raises(InputError) as caught:
            read_dynamo(paths, None)
        return paths, str(caught.value)

    paths, text = refused([record()], [record("b"), record("a")])
    assert text == f"{paths[1]}:2: request.request_id 'a': already used at {paths[0]}:1"
    paths, text = refused([record()], [record("b", replay={"trace_block_size": 8})])
    assert text == (
        f"{paths[1]}:1: request.replay.trace_block_size 8: differs from 4 at {paths[0]}:1; a trace has one "
        "block size"
    )
    (path,), text = refused([record(), record("b", agent_context={"session_id": "s"})])
    assert text == (
        f"{path}:2: a trace cannot mix requests with and without agent_context: request 'b' ({path}:2) has "
        f"one, request 'a' ({path}:1) has none"
    )
    (path,), text = refused([{"event_type": "tool_start"}])
    assert text == f"{path}: the trace contains no request_end records"


def test_a_cut_archive_is_named(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(json.dumps(record()).encode() * 50)[:-9])
    with pytest.raises(InputError, match=r"cut.gz:1: cannot be read: "):
        read_dynamo([path], None)
