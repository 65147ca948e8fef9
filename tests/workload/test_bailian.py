"""Qwen-Bailian traces: chats that follow one another, times in seconds, blocks of 16 tokens."""

import json

import pytest
from trace_files import load, refusal, remarks, starts

from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.block_ids import packed


def chat(chat_id, parent=-1, timestamp=0.0, **fields):
    values = {"chat_id": chat_id, "parent_chat_id": parent, "timestamp": timestamp, "input_length": 20}
    values |= {"output_length": 3, "type": "text", "turn": 1, "hash_ids": [1, 2], **fields}
    return json.dumps({name: value for name, value in values.items() if value is not ...}) + "\n"


def test_a_chat_that_follows_another_is_its_next_turn(tmp_path):
    text = chat(159, timestamp=0.5) + chat(161, timestamp=1) + chat(160, 159, 61.25, hash_ids=[1, 2, 9])
    trace = load(tmp_path, "bailian", text)
    turns = [Turn(20, 3, packed([1, 2])), Turn(20, 3, packed([1, 2, 9]), delay_ms=60_750.0)]
    assert trace.sessions == [
        Session("chat_159", turns, 500.0),
        Session("chat_161", [Turn(20, 3, packed([1, 2]))], 1000.0),
    ]
    assert (trace.block_tokens, trace.remarks) == (16, [])


def test_rows_may_come_in_any_order(tmp_path):
    rows = [chat(1, timestamp=1), chat(2, 1, 2), chat(3, 2, 3), chat(4, timestamp=2.5)]
    assert load(tmp_path, "bailian", "".join(rows[::-1])) == load(tmp_path, "bailian", "".join(rows))


def test_chats_that_cannot_follow_start_sessions_and_are_counted(tmp_path):
    text = chat(1) + chat(2, 1, 1) + chat(3, 1, 2) + chat(4, 77, 3)
    trace = load(tmp_path, "bailian", text)
    assert starts(trace) == [("chat_1", 0.0), ("chat_3", 2000.0), ("chat_4", 3000.0)]
    assert remarks(tmp_path, trace) == [
        "t:3: chats that start a session although they follow another, because it is not there or is "
        "followed by a third: 2, this one first"
    ]


def test_content_is_optional_and_unknown_fields_are_noted(tmp_path):
    trace = load(tmp_path, "bailian", chat(1, hash_ids=..., parent_chat_id=..., user=5))
    assert trace.sessions == [Session("chat_1", [Turn(20, 3)], 0.0)]
    assert remarks(tmp_path, trace) == ["t:1: unknown field 'user', ignored"]


def test_an_id_stands_for_16_tokens(tmp_path):
    assert load(tmp_path, "bailian", chat(1), 16).block_tokens == 16
    text = refusal(tmp_path, "bailian", chat(1), 512)
    assert text.startswith("trace_block_size 512 does not match the 16 tokens that an id of a Bailian trace")


def test_epoch_and_relative_seconds_are_not_mixed_silently(tmp_path):
    trace = load(tmp_path, "bailian", chat(1) + chat(2, timestamp=1.7e9))
    assert len(trace.doubts) == 1 and trace.doubts[0].startswith(f"{tmp_path}/t:2: a time since 1970")


WRONG = [
    (chat(1, input_length=33), "input_length 33: exceeds the capacity of 32 tokens (2 hash_ids x 16 tokens)"),
    (chat(1, input_length=0), "input_length 0: must be a whole number from 1 to 4294967295"),
    (chat(1, output_length=...), "output_length is missing"),
    (chat(1, timestamp=-0.5), "timestamp -0.5: must not be negative"),
    (chat(1, timestamp="1"), "timestamp '1': must be a number from -4e+09 to 4e+09"),
    (chat(...), "chat_id is missing"),
    (chat(1, -2), "parent_chat_id -2: must be a whole number from -1 to 18446744073709551615"),
    (chat(1, hash_ids=[1, "x"]), "hash_ids[1] 'x': must be a whole number from 0 to 18446744073709551615"),
    (chat(9), "chat_id 9: already used at t:1"),
    ("[1]", "a row must be a JSON object, got [1]"),
]


@pytest.mark.parametrize(("bad", "message"), WRONG)
def test_a_wrong_row_is_named_with_file_line_field_value_and_rule(bad, message, tmp_path):
    text = refusal(tmp_path, "bailian", chat(9) + "\n" + bad)
    assert text == f"t:3: {message}"
