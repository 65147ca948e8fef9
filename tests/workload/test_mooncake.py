"""The Mooncake reader: every rule, every message (spec 02 sections 2.1 and 9)."""

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn
from aisimulate.replay.execute import execute
from aisimulate.workload.block_ids import packed
from aisimulate.workload.jsonl import Row
from aisimulate.workload.mooncake import _Reader, _spaced_rows, read_mooncake
from aisimulate.workload.repeated_keys import repeated_key

TRACES = Path(__file__).parent.parent / "data" / "traces"


def row(**changes):
    values = {"timestamp": 0, "input_length": 8, "output_length": 2, "hash_ids": [1, 2], **changes}
    return {name: value for name, value in values.items() if value != "absent"}


@pytest.fixture
def read(tmp_path):
    """Write rows (dicts or raw lines) to a file and read it with 4-token blocks."""

    def write_and_read(*rows, block_tokens=4):
        lines = [r if isinstance(r, str) else json.dumps(r) for r in rows]
        path = tmp_path / "trace.jsonl"
        path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
        return read_mooncake(path, block_tokens).sessions

    return write_and_read


def test_aliases_name_the_same_fields():
    (session,) = read_mooncake(TRACES / "aliases.jsonl", 4).sessions
    assert session == Session(
        "s", [Turn(8, 2, packed([1, 2])), Turn(8, 2, packed([1, 2]), delay_ms=7.0)], 3.0
    )


def test_sessions_delays_metadata_and_physical_lines():
    session, single = read_mooncake(TRACES / "sessions.jsonl", 4).sessions
    assert single == Session("request_3", [Turn(8, 0, packed([1, 3]))], 120.5)
    assert (session.session_id, session.arrival_ms) == ("a", 100.0)
    assert [turn.delay_ms for turn in session.turns] == [0.0, 45.0, 0.0, 1.5]
    assert session.turns[1].metadata == {"priority": 2, "policy_class": "gold"}
    assert session.turns[1].request_id == "second"
    assert session.turns[0].metadata is None
    assert session.turns[0].request_id is None


def test_a_timestamp_counts_from_the_latest_turn_that_has_one(read):
    (session,) = read(
        row(session_id="a"), row(session_id="a", timestamp="absent"), row(session_id="a", timestamp=50)
    )
    assert [turn.delay_ms for turn in session.turns] == [0.0, 0.0, 50.0]
    (session,) = read(
        row(session_id="a"), row(session_id="a", timestamp=20, delay=3), row(session_id="a", timestamp=50)
    )
    assert [turn.delay_ms for turn in session.turns] == [0.0, 3.0, 30.0]


def test_sessions_keep_the_order_of_their_first_rows(read):
    sessions = read(row(session_id="b"), row(timestamp=3), row(session_id="a"), row(session_id="b"))
    assert [(s.session_id, len(s.turns)) for s in sessions] == [("b", 2), ("request_2", 1), ("a", 1)]


def test_input_length_defaults_to_all_blocks_also_of_the_default_size(read):
    assert read(row(input_length="absent", hash_ids=[5]), block_tokens=512)[0].turns[0].input_tokens == 512


def test_crlf_blank_lines_nulls_and_unknown_fields_are_harmless(read):
    sessions = read("", json.dumps(row()) + "\r", "  \t", json.dumps(row(delay=None, priority=None, x=[1])))
    assert [s.session_id for s in sessions] == ["request_2", "request_4"]
    assert sessions[0].turns == sessions[1].turns


def written(tmp_path, *rows):
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_each_unknown_field_is_noted_once_with_its_first_line_and_the_nearest_name(tmp_path):
    path = written(tmp_path, row(), row(ouput_length=3), row(zzz=None, ouput_length=4), row(zzz=1))
    trace = read_mooncake(path, 4)
    assert trace.notes == [
        f"{path}:2: unknown field 'ouput_length', ignored; did you mean 'output_length'?",
        f"{path}:3: unknown field 'zzz', ignored",
    ]
    assert len(trace.sessions) == 4


def test_many_unknown_fields_are_counted(tmp_path):
    path = written(tmp_path, row(**{f"@{number}": 0 for number in range(13)}))
    notes = read_mooncake(path, 4).notes
    assert notes[9] == f"{path}:1: unknown field '@9', ignored"
    assert notes[10:] == [f"{path}: 3 more unknown fields, ignored"]


def test_every_documented_field_is_known(tmp_path):
    aliases = {"created_time": 0, "input_tokens": 8, "output_tokens": 2, "hash_ids": [1, 2], "delay_ms": 0}
    routing = {"request_id": "r", "priority": 1, "strict_priority": 1, "policy_class": "p"}
    assert read_mooncake(written(tmp_path, aliases | routing), 4).notes == []
    named = row(session_id="s", delay=0, output_token_ids=[1, 2])
    assert read_mooncake(written(tmp_path, named), 4).notes == []


def test_the_first_session_without_a_timestamp_is_remembered(tmp_path):
    rows = [row(), row(session_id="a", timestamp="absent"), row(timestamp="absent")]
    path = written(tmp_path, *rows)
    assert read_mooncake(path, 4).untimed == f"{path}:2: session 'a'"
    later = [row(session_id="a"), row(session_id="a", timestamp="absent")]
    assert read_mooncake(written(tmp_path, *later), 4).untimed is None


@pytest.mark.parametrize("session", ["absent", "a"])
def test_epoch_and_relative_times_are_not_mixed_silently(session, tmp_path):
    def doubts(*times):
        path = written(tmp_path, *(row(timestamp=ms, session_id=session) for ms in times))
        return [text.replace(str(path), "t") for text in read_mooncake(path, 4).doubts]

    assert doubts(5, "absent", 7.5, 1.7e12, 1.8e12) == [
        "t:4: a time since 1970 of 1700000000000 ms, but a relative time of 5 ms at t:1: both are taken on "
        "one clock"
    ]
    assert doubts(5, 7.5, "absent", 2e7) == doubts(1.7e12, "absent", 1.8e12) == []


def test_rows_of_their_own_may_come_in_any_order(tmp_path):
    rows = [row(timestamp=ms, input_length=n) for n, ms in enumerate((30, 10, 20, 10), 1)]

    def replayed(order):
        path = written(tmp_path, *order)
        rank = {"num_gpu_blocks": 64, "block_size": 4, "timing_model": {"type": "polynomial"}}
        spec = {
            "topology": {"kind": "aggregated", "workers": {"initial_workers": 2}},
            "engine": {"rank": rank},
        }
        traffic = {"source_type": "trace", "trace_path": str(path), "trace_block_size": 4}
        report = execute({"spec": spec, "traffic": traffic})
        return [
            (r["arrival_time_ms"], r["input_length"], r["terminal_time_ms"]) for r in report["per_request"]
        ]

    assert replayed(rows) == replayed(sorted(rows, key=lambda r: r["timestamp"]))


def test_a_relative_path_says_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        read_mooncake(Path("nowhere.jsonl"), 4)
    hint = f"(relative paths are taken from the current directory, {tmp_path})"
    assert str(caught.value) == f"nowhere.jsonl: no such file {hint}"


def test_negative_timestamps_are_relative_times(read):
    assert [s.arrival_ms for s in read(row(timestamp=-20), row(timestamp=5))] == [-20.0, 5.0]


def test_missing_timestamps_are_left_to_the_driver(read):
    assert read(row(timestamp="absent"))[0].arrival_ms is None


def test_content_ids_are_numbered_only_beside_planned_outputs(read):
    first, second = read_mooncake(TRACES / "planned_outputs.jsonl", 4).sessions
    assert list(first.turns[0].block_ids) == [0]
    assert first.turns[0].output_ids == [1, 1, 1, 1, 5, 5, 5, 5, 5]
    assert list(second.turns[0].block_ids) == [0, 1, 2]
    assert list(read(row(hash_ids=[2**64 - 1, 7]))[0].turns[0].block_ids) == [2**64 - 1, 7]


def test_first_appearance_is_in_file_order_across_sessions(read):
    a, b = read(
        row(session_id="a", hash_ids=[50, 60], output_token_ids=[1, 2]),
        row(session_id="b", hash_ids=[70, 50]),
        row(session_id="a", hash_ids=[60, 80]),
    )
    assert [list(t.block_ids) for t in a.turns] == [[0, 1], [1, 3]]
    assert list(b.turns[0].block_ids) == [2, 0]


LENGTH_RULE = "must be a whole number from 1 to 4294967295"
TIME_RULE = "must be a number from -4e+12 to 4e+12"

BAD_ROWS = [
    ("e03", row(hash_ids="absent"), "hash_ids is missing"),
    ("null ids", row(hash_ids=None), "hash_ids is missing"),
    ("e04", row(input_length=9), "input_length 9: exceeds the capacity of 8 tokens (2 hash_ids x 4 tokens)"),
    ("e05", row(output_length="absent"), "output_length is missing"),
    ("e06", row(output_token_ids=[1]), "output_token_ids of length 1: must have output_length 2 ids"),
    ("e07", row(session_id="a", delay=5), "delay 5: the first turn of a session has no delay"),
    ("e12", row(input_length=0), f"input_length 0: {LENGTH_RULE}"),
    ("e13", row(hash_ids=[]), "hash_ids []: must name at least one block"),
    ("negative length", row(input_length=-8), f"input_length -8: {LENGTH_RULE}"),
    ("bool length", row(input_length=True), f"input_length True: {LENGTH_RULE}"),
    ("float length", row(input_length=8.0), f"input_length 8.0: {LENGTH_RULE}"),
    ("text length", row(input_length="8"), f"input_length '8': {LENGTH_RULE}"),
    ("huge length", row(input_length=2**70), f"input_length 1.1805916207174113e+21: {LENGTH_RULE}"),
    (
        "huge output",
        row(output_length=2**32),
        "output_length 4294967296: must be a whole number from 0 to 4294967295",
    ),
    (
        "negative output",
        row(output_length=-1),
        "output_length -1: must be a whole number from 0 to 4294967295",
    ),
    (
        "alias named",
        row(output_length="absent", output_tokens="2"),
        "output_tokens '2': must be a whole number from 0 to 4294967295",
    ),
    ("text time", row(timestamp="0"), f"timestamp '0': {TIME_RULE}"),
    ("bool time", row(timestamp=False), f"timestamp False: {TIME_RULE}"),
    ("far time", row(timestamp=1e13), f"timestamp 10000000000000.0: {TIME_RULE}"),
    ("ids no list", row(hash_ids=7), "hash_ids 7: must be a list of whole numbers"),
    (
        "bool id",
        row(hash_ids=[1, True]),
        "hash_ids[1] True: must be a whole number from 0 to 18446744073709551615",
    ),
    (
        "negative id",
        row(hash_ids=[-1, 2]),
        "hash_ids[0] -1: must be a whole number from 0 to 18446744073709551615",
    ),
    (
        "id beyond 64 bits",
        row(hash_ids=[2**64, 2]),
        "hash_ids[0] 1.8446744073709552e+19: must be a whole number from 0 to 18446744073709551615",
    ),
    (
        "token beyond 32 bits",
        row(output_token_ids=[1, 2**32]),
        "output_token_ids[1] 4294967296: must be a whole number from 0 to 4294967295",
    ),
    ("session id", row(session_id=3), "session_id 3: must be a string"),
    ("request id", row(request_id=[3]), "request_id [3]: must be a string"),
    (
        "priority",
        row(priority=2**31),
        "priority 2147483648: must be a whole number from -2147483648 to 2147483647",
    ),
    (
        "strict priority",
        row(strict_priority=-1),
        "strict_priority -1: must be a whole number from 0 to 4294967295",
    ),
    ("policy", row(policy_class=1), "policy_class 1: must be a string"),
    ("twice", row(created_time=3), "timestamp and created_time are the same field: give one of them"),
    ("negative delay on turn 0", row(delay=-1), "delay -1: must not be negative"),
    ("array", "[1, 2]", "a row must be a JSON object, got [1, 2]"),
]


def test_a_key_given_twice_is_refused(tmp_path):
    path = tmp_path / "trace.jsonl"
    first = '{"timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": [1]}'
    second = '{"timestamp": 1, "input_length": 4, "output_length": 1, "hash_ids": [1], "output_length" : 2}'
    path.write_text(f"{first}\n{second}\n")
    with pytest.raises(InputError) as caught:
        read_mooncake(path, 4)
    assert str(caught.value) == f"{path}:2: the key 'output_length' appears twice"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('{"a": 1, "b": 2}', None),
        ('{"a": "x:y", "b": 2}', None),
        ('{"a": {"c": 1}, "b": 99999999999999999999999}', None),
        ('{"a": 1, "b": 2, "\\u0061": 3}', "a"),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "c"),
    ],
)
def test_a_repeated_key_is_found(line, key):
    assert repeated_key(line.encode(), 2) == key


@pytest.mark.parametrize(("bad", "message"), [b[1:] for b in BAD_ROWS], ids=[b[0] for b in BAD_ROWS])
def test_a_bad_row_is_named_with_file_line_field_value_and_rule(read, tmp_path, bad, message):
    with pytest.raises(InputError) as caught:
        read(row(), "", bad)
    assert str(caught.value) == f"{tmp_path / 'trace.jsonl'}:3: {message}"


BAD_TURNS = [
    ("e08", row(session_id="a", timestamp=50), "timestamp 50: before 100, an earlier turn of session 'a'"),
    ("e09", row(session_id="a", delay=-1), "delay -1: must not be negative"),
    ("delay text", row(session_id="a", delay="1"), f"delay '1': {TIME_RULE}"),
]


@pytest.mark.parametrize(("bad", "message"), [b[1:] for b in BAD_TURNS], ids=[b[0] for b in BAD_TURNS])
def test_a_bad_later_turn_is_refused(read, bad, message):
    with pytest.raises(InputError) as caught:
        read(row(session_id="a", timestamp=100), bad)
    assert str(caught.value).endswith(f"trace.jsonl:2: {message}")


def test_no_delay_follows_without_an_earlier_timestamp(read):
    with pytest.raises(InputError, match=r":2: timestamp 50: no earlier turn of session 'a' has one"):
        read(row(session_id="a", timestamp="absent"), row(session_id="a", timestamp=50))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"timestamp": 0', "not JSON: unexpected end of data (column 16)"),
        ('{"timestamp": NaN}', "not JSON: unexpected character, expected a JSON value (column 15)"),
        ('{"timestamp": 1e999}', "not JSON: number is infinity when parsed as double (column 15)"),
        ('{"session_id": "\udcff"}', "not JSON: str is not valid UTF-8: surrogates not allowed (column 1)"),
    ],
)
def test_a_line_that_is_not_json_is_named_with_the_parsers_reason(read, line, message):
    with pytest.raises(InputError) as caught:
        read(row(), line)
    assert str(caught.value).endswith(f"trace.jsonl:2: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [(), ("", "  ", "\r")])
def test_a_file_without_requests_is_refused(read, content):
    with pytest.raises(InputError, match=r"trace\.jsonl: the file contains no requests$"):
        read(*content)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.jsonl: no such file$"):
        read_mooncake(tmp_path / "nowhere.jsonl", 4)
    with pytest.raises(InputError, match=r"cannot be read: Is a directory$"):
        read_mooncake(tmp_path, 4)


def test_long_values_are_cut_in_messages(read):
    with pytest.raises(InputError) as caught:
        read(row(session_id=list(range(1000))))
    assert len(str(caught.value)) < 250


values = st.one_of(
    st.integers(-2, 12),
    st.just(2**32),
    st.floats(-10, 10),
    st.booleans(),
    st.just("1"),
    st.none(),
    st.just([]),
)
ids = st.lists(st.one_of(st.integers(0, 9), st.integers(-1, 2**64 + 1), st.booleans()), max_size=3)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(
        {"timestamp": values, "input_length": values, "output_length": values, "hash_ids": ids}
    )
)
def test_the_short_cut_for_plain_rows_accepts_nothing_that_the_checks_refuse(candidate):
    """The fast path must build what the checked path builds, and leave every doubtful row to it."""
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    line = json.dumps({name: candidate[name] for name in names}).encode()
    checked = _Reader(Path("t"), 4)
    try:
        checked.add(1, Row(Path("t"), 1, candidate))
    except InputError:
        checked = None
    numbers = [candidate[name] for name in names[:3]]
    is_plain = all(type(number) is int and number >= 0 for number in numbers)
    for add, text in ((_Reader.add_plain, line), (_Reader.add_plain_lines, [line])):
        fast = _Reader(Path("t"), 4)
        taken = add(fast, 1, text)
        if checked is None:
            assert not taken
        elif taken:
            assert fast.finish() == checked.finish()
        else:
            assert not is_plain


PLAIN = b'{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4]}\n'


@pytest.mark.parametrize(
    "lines",
    [
        [
            b'{"timestamp": 1\n',
            b'"input_length": 2, "output_length": 3, "hash_ids": [4]}\n',
            PLAIN[:-1] + b"," + PLAIN,
        ],
        [PLAIN[:-1] + b"," + PLAIN, b"[]\n"],
        [PLAIN, b" 7\n"],
        [PLAIN, b'{"timestamp": 1 2, "input_length": 2, "output_length": 3, "hash_ids": [4]}\n'],
        [PLAIN, b" " + PLAIN],
        [PLAIN[:-1] + b", 7\n", PLAIN],
    ],
    ids=["cut in two", "two in a line", "no object", "not JSON", "indented", "a number behind"],
)
def test_lines_are_plain_one_by_one(lines):
    """Looking at many lines together finds what looking at each of them finds."""
    each = [_spaced_rows([line]) for line in lines]
    assert _spaced_rows(lines) == (None if None in each else [row for (row,) in each])


@pytest.mark.parametrize("spelling", ["spaced out", "long ids", "windows", "blank lines", "no last newline"])
def test_rows_are_the_same_however_they_are_spelled(tmp_path, spelling):
    """What is not spelled as most files are is read into columns all the same."""
    rows = [
        {"timestamp": n, "input_length": 7, "output_length": 2, "hash_ids": [n, 2**64 - 1 - n]}
        for n in range(300)
    ]
    if spelling != "long ids":
        rows = [row | {"hash_ids": [row["timestamp"], 2**40]} for row in rows]
    usual, other = tmp_path / "usual.jsonl", tmp_path / "other.jsonl"
    usual.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    lines = [json.dumps(row) for row in rows]
    if spelling == "spaced out":
        lines = [line.replace("[", "[ ").replace("}", " }") for line in lines]
    ends = {"windows": "\r\n", "blank lines": "\n\n"}
    text = "".join(line + ends.get(spelling, "\n") for line in lines)
    other.write_text(text.rstrip() if spelling == "no last newline" else text, newline="")
    expected, found = (read_mooncake(path, 4).sessions for path in (usual, other))
    assert not isinstance(found, list)
    if spelling == "blank lines":
        assert [s.turns for s in found] == [s.turns for s in expected]
        assert [s.session_id for s in found][:3] == ["request_1", "request_3", "request_5"]
    else:
        assert found == expected
    assert [list(s.turns[0].block_ids) for s in found] == [row["hash_ids"] for row in rows]


def test_rows_of_a_session_may_come_after_many_plain_ones(tmp_path):
    """What was kept as columns becomes objects when a row does not fit in; nothing else changes."""
    path = tmp_path / "mixed.jsonl"
    plain = [
        json.dumps({"timestamp": n, "input_length": 7, "output_length": 2, "hash_ids": [n, 2**40]})
        for n in range(1500)
    ]
    later = json.dumps(
        {"timestamp": 3, "input_length": 4, "output_length": 1, "hash_ids": [5], "session_id": "s"}
    )
    path.write_text("\n".join([*plain, "", later, plain[7]]))
    sessions = read_mooncake(path, 4).sessions
    assert isinstance(sessions, list)
    path.write_text("\n".join(plain))
    columns = read_mooncake(path, 4).sessions
    assert not isinstance(columns, list)
    assert sessions[:1500] == columns
    assert sessions[1500:] == [
        Session("s", [Turn(4, 1, packed([5]))], 3.0),
        Session("request_1503", [Turn(7, 2, packed([7, 2**40]))], 7.0),
    ]


def test_a_file_that_breaks_off_is_read_up_to_there(tmp_path):
    path = tmp_path / "broken.jsonl.gz"
    path.write_bytes(gzip.compress(PLAIN * 2000)[:-9])
    with pytest.raises(InputError, match="cannot be read"):
        read_mooncake(path, 4)
    path.write_bytes(gzip.compress(PLAIN * 3 + b"{}\n" + PLAIN * 2000)[:-9])
    with pytest.raises(InputError, match=re.escape(f"{path}:4: ")):
        read_mooncake(path, 4)
