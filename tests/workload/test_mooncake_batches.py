"""Rows of Mooncake traces are the same however many are read at once, and none slips past a check."""

import json
from pathlib import Path

import pytest

from aisimulate.core.errors import InputError
from aisimulate.workload.mooncake import _Reader, read_mooncake


def row(**changes):
    return {"timestamp": 0, "input_length": 8, "output_length": 2, "hash_ids": [1, 2]} | changes


@pytest.mark.parametrize("bracket", ["[", "[ "], ids=["usual", "spaced out"])
@pytest.mark.parametrize("first", [{}, {"session_id": "s"}], ids=["columns", "objects"])
def test_batches_of_any_size_give_the_same(tmp_path, monkeypatch, first, bracket):
    """Ids of 64 bits and times since 1970 come in the middle of the file."""
    path = tmp_path / "trace.jsonl"
    rows = [row(timestamp=n, hash_ids=[n, 7]) for n in range(40)]
    rows += [row(timestamp=2 * 10**11, hash_ids=[n, 2**40]) for n in range(40)]
    lines = [json.dumps(each) + "\n" for each in [rows[0] | first, *rows[1:]]]
    path.write_text("".join(lines).replace("[", bracket))
    for batch_bytes in (1, 500, 1 << 20):
        monkeypatch.setattr("aisimulate.workload.mooncake._BATCH_BYTES", batch_bytes)
        trace = read_mooncake(path, 4)
        found = [(s.arrival_ms, list(s.turns[0].block_ids)) for s in trace.sessions]
        assert found == [(each["timestamp"], each["hash_ids"]) for each in rows]
        names = [session.session_id for session in trace.sessions]
        assert names == [first.get("session_id", "request_1"), *(f"request_{n}" for n in range(2, 81))]
        assert len(trace.doubts) == 1


@pytest.mark.parametrize(
    ("field", "value", "block_tokens"),
    [("timestamp", 4 * 10**12 + 1, 4), ("input_length", 2**32, 2**32), ("output_length", 2**32, 4)],
)
def test_a_plain_number_beyond_its_limit_is_refused(tmp_path, field, value, block_tokens):
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(row(**{field: value})) + "\n")
    with pytest.raises(InputError, match=field):
        read_mooncake(path, block_tokens)


@pytest.mark.parametrize(
    "line",
    [
        b'{"time7stamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4]}\n',
        b'{"timestamp": 1, "input_ length": 2, "output_length": 3, "hash_ids": [4]}\n',
        b'{"timestamp": "input_length", "output_length": "hash_ids"}\n',
    ],
    ids=["digit in a name", "space in a name", "names as values"],
)
def test_no_other_names_are_taken_for_the_usual_fields(line):
    reader = _Reader(Path("t"), 4)
    assert not reader.add_plain(1, line)
    assert not reader.add_plain_lines(1, [line])


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("aisimulate.workload.lines.MAX_LINE_BYTES", 200)
    monkeypatch.setattr("aisimulate.workload.mooncake._BATCH_BYTES", 100)
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(row()) + "\n" + json.dumps(row(hash_ids=[1] * 100)) + "\n")
    with pytest.raises(InputError, match=r"trace\.jsonl:2: the line is longer than 200 bytes"):
        read_mooncake(path, 4)
