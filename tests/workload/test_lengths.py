"""Plain lists of lengths: JSON Lines or one array, with or without arrivals."""

import pytest
from trace_files import load, refusal, remarks, starts

from aisimulate.core.traffic import Session, Turn

ROW = '{"prompt_len": 3, "output_len": 4}'


def test_rows_without_arrival_keep_their_order_and_need_a_cap(tmp_path):
    trace = load(tmp_path, "lengths", f'{ROW}\n\n{{"input_tokens": 5, "completion_tokens": 0}}')
    assert trace.sessions == [
        Session("request_1", [Turn(3, 4)], None),
        Session("request_3", [Turn(5, 0)], None),
    ]
    assert trace.untimed == f"{tmp_path}/t:1: session 'request_1'"


def test_arrivals_in_ms_or_seconds_order_the_rows(tmp_path):
    rows = ['"arrival_s": 1.5', '"arrival_ms": 7', '"arrival_ms": 70']
    trace = load(tmp_path, "lengths", "\n".join(f"{ROW[:-1]}, {row}}}" for row in rows))
    assert starts(trace) == [("request_2", 7.0), ("request_3", 70.0), ("request_1", 1500.0)]
    assert (trace.untimed, trace.remarks) == (None, [])


def test_an_array_is_read_like_lines_and_tells_them(tmp_path):
    text = f'\n [\n{ROW},\n\n  {{"prompt_len": 5,\n "output_len": 6, "model": "x"}}]\n'
    trace = load(tmp_path, "lengths", text)
    assert [name for name, _ in starts(trace)] == ["request_3", "request_5"]
    assert remarks(tmp_path, trace) == ["t:5: unknown field 'model', ignored"]


WRONG = [
    ('{"prompt_len": 3}', "t:1: output_len is missing"),
    ('{"output_len": 3}', "t:1: prompt_len is missing"),
    (
        f'{ROW}\n{{"prompt_len": 0, "output_len": 3}}',
        "t:2: prompt_len 0: must be a whole number from 1 to 4294967295",
    ),
    (
        '{"input_len": 2.5, "output_len": 3}',
        "t:1: input_len 2.5: must be a whole number from 1 to 4294967295",
    ),
    (
        '{"prompt_len": 1, "input_len": 1}',
        "t:1: prompt_len and input_len are the same field: give one of them",
    ),
    (f'{ROW[:-1]}, "arrival_ms": -1}}', "t:1: arrival_ms -1: must not be negative"),
    (f'{ROW[:-1]}, "arrival_s": "x"}}', "t:1: arrival_s 'x': must be a number from -4e+09 to 4e+09"),
    (
        f'{ROW[:-1]}, "arrival_s": 1, "arrival_ms": 1}}',
        "t:1: arrival_ms and arrival_s are the same field: give one of them",
    ),
    (f"{ROW}\n{{", "t:2: not JSON: unexpected end of data (column 2)"),
    ("", "t: the file contains no requests"),
    (" [\n ]", "t: the file contains no requests"),
    (f"[{ROW},\n\n5]", "t:3: a row must be a JSON object, got 5"),
    (f"[{ROW}\n{ROW}]", "t:2: not JSON: expected ']'"),
    (f"[{ROW}]\nx", "t:2: not JSON: text after the array"),
    (f"[{ROW},\n", "t:2: not JSON: Expecting value"),
    (f'[{ROW},\n{{"prompt_len": 1,\n"output_len": ?}}]', "t:3: not JSON: Expecting value"),
    ('[\n{"prompt_len": 1, "prompt_len": 2}]', "t:2: the key 'prompt_len' appears twice"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_row_is_named_with_file_line_field_value_and_rule(text, message, tmp_path):
    assert refusal(tmp_path, "lengths", text) == message


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("aisimulate.workload.lines.MAX_LINE_BYTES", 100)
    text = refusal(tmp_path, "lengths", ROW + "\n" + "x" * 101)
    assert text == "t:2: the line is longer than 100 bytes"
