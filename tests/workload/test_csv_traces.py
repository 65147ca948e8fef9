"""Azure and BurstGPT traces: lengths and times from CSV tables."""

import pytest
from trace_files import load, refusal, remarks, starts

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.formats import load_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
SESSIONS = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
PLAIN = "Timestamp,Request tokens,Response tokens\n"


def test_azure_rows_are_independent_requests_from_0_ms(tmp_path):
    rows = "2023-11-16 18:17:04.0319600,3180,8\r\n2023-11-16 18:17:03.9799600,4808,10\r\n"
    trace = load(tmp_path, "azure", AZURE.replace("\n", "\r\n") + rows)
    assert trace.sessions == [
        Session("request_3", [Turn(4808, 10)], 0.0),
        Session("request_2", [Turn(3180, 8)], 52.0),
    ]
    assert (trace.remarks, trace.untimed) == ([], None)


def test_azure_times_keep_their_100_ns_and_their_zone(tmp_path):
    rows = "2024-05-12 01:00:00+01:00,1,1\n2024-05-12T00:00:00.0000001Z,2,0\n2024-05-13 00:00:00+0000,3,1\n"
    assert starts(load(tmp_path, "azure", AZURE + rows)) == [
        ("request_2", 0.0),
        ("request_3", 0.0001),
        ("request_4", 86_400_000.0),
    ]


def test_rows_may_come_in_any_order(tmp_path):
    rows = [f"2024-05-12 00:00:{second:02d},{second + 1},1" for second in (3, 1, 4, 15, 9, 2, 6)]
    lengths = [
        [
            session.turns[0].input_tokens
            for session in load(tmp_path, "azure", AZURE + "\n".join(order)).sessions
        ]
        for order in (rows, sorted(rows))
    ]
    assert lengths[0] == lengths[1] == [2, 3, 4, 5, 7, 10, 16]


def test_equal_times_keep_the_order_of_the_file(tmp_path):
    rows = "2024-05-12 00:00:00,1,1\n" * 3
    assert [name for name, _ in starts(load(tmp_path, "azure", AZURE + rows))] == [
        "request_2",
        "request_3",
        "request_4",
    ]


def test_burstgpt_times_are_seconds(tmp_path):
    trace = load(tmp_path, "burstgpt", BURST + "45,GPT-4,417,276,693,API log\n5.5,ChatGPT,472,18,490,x\n")
    assert trace.sessions == [
        Session("request_3", [Turn(472, 18)], 5500.0),
        Session("request_2", [Turn(417, 276)], 45_000.0),
    ]
    assert trace.remarks == []


def test_burstgpt_sessions_wait_as_long_as_they_did(tmp_path):
    rows = "10.0,u,4,G,10,5,15,c\n30.0,u,2,G,20,6,26,c\n20.0,,3,G,7,5,12,a\n31.0,u,,G,21,7,28,c\n"
    session, single = load(tmp_path, "burstgpt", SESSIONS + rows).sessions
    # From 10 + 4 s to 30 s; and the last turn was sent before the one before it had ended.
    turns = [Turn(10, 5), Turn(20, 6, delay_ms=16_000.0), Turn(21, 7)]
    assert session == Session("u", turns, 10_000.0)
    assert single == Session("request_4", [Turn(7, 5)], 20_000.0)


def test_failed_requests_are_left_out_and_counted(tmp_path):
    rows = "1,G,0,0,0,c\n2,G,4,0,4,c\n3,G,4,5,9,c\n"
    trace = load(tmp_path, "burstgpt", BURST + rows)
    assert starts(trace) == [("request_4", 3000.0)]
    note = "t:2: failed requests (no response tokens) left out: 2, this one first"
    assert remarks(tmp_path, trace) == [note]
    text = refusal(tmp_path, "burstgpt", BURST + "1,G,4,0,4,c\n")
    assert text == "t: all 1 requests failed (no response tokens)"


def test_columns_are_found_by_name(tmp_path):
    table = '\ufeff"response tokens", request tokens ,Timestamp,tag\n3,2.0,1,x\n'
    trace = load(tmp_path, "burstgpt", table)
    assert trace.sessions == [Session("request_2", [Turn(2, 3)], 1000.0)]
    assert remarks(tmp_path, trace) == ["t:1: unknown column 'tag', ignored"]


def test_epoch_and_relative_seconds_are_not_mixed_silently(tmp_path):
    trace = load(tmp_path, "burstgpt", PLAIN + "1,2,4\n2,2,4\n1700000000,2,4\n")
    assert remarks(tmp_path, trace) == [
        "t:4: a time since 1970 of 1700000000000 ms, but a relative time of 1000 ms at t:2: both are taken "
        "on one clock"
    ]
    assert load(tmp_path, "burstgpt", PLAIN + "1600000000,2,4\n1700000000,2,4\n").remarks == []


WHOLE = "must be a whole number from"
YEARS = "must lie between 1970 and 2255"
STAMP = "must be a date and time such as 2023-11-16 18:17:03.9799600"
WRONG = [
    ("azure", AZURE + "2024-13-12 00:00:10,1,1\n", f"t:2: TIMESTAMP '2024-13-12 00:00:10': {STAMP}"),
    ("azure", AZURE + "17000,1,1\n", f"t:2: TIMESTAMP '17000': {STAMP}"),
    *[
        ("azure", AZURE + f"{year}-01-01 00:00:00,1,1\n", f"t:2: TIMESTAMP '{year}-01-01 00:00:00': {YEARS}")
        for year in ("0001", "9999")
    ],
    (
        "azure",
        AZURE + "2024-05-12 00:00:10+00:00,1,1\n2024-05-12 00:00:10,1,1\n",
        "t:3: TIMESTAMP '2024-05-12 00:00:10': "
        "names a time zone where other rows do not, or the other way round",
    ),
    ("azure", AZURE + "\n2024-05-12 00:00:10,0,1\n", f"t:3: ContextTokens '0': {WHOLE} 1 to 4294967295"),
    ("azure", AZURE + "2024-05-12 00:00:10,,1\n", "t:2: ContextTokens is missing"),
    ("burstgpt", PLAIN + "1,2,x\n", f"t:2: Response tokens 'x': {WHOLE} 0 to 4294967295"),
    ("burstgpt", PLAIN + "1,2.5,3\n", f"t:2: Request tokens '2.5': {WHOLE} 1 to 4294967295"),
    ("burstgpt", PLAIN + "1,-2,3\n", f"t:2: Request tokens '-2': {WHOLE} 1 to 4294967295"),
    ("burstgpt", PLAIN + "1,4294967296,3\n", f"t:2: Request tokens '4294967296': {WHOLE} 1 to 4294967295"),
    ("burstgpt", PLAIN + "-1,2,3\n", "t:2: Timestamp '-1': must be a number of seconds from 0 to 4e+09"),
    ("burstgpt", PLAIN + "nan,2,3\n", "t:2: Timestamp 'nan': must be a number of seconds from 0 to 4e+09"),
    ("burstgpt", PLAIN + "soon,2,3\n", "t:2: Timestamp 'soon': must be a number of seconds from 0 to 4e+09"),
    ("burstgpt", PLAIN + ",2,3\n", "t:2: Timestamp is missing"),
    ("burstgpt", PLAIN + "1,2\n", "t:2: 2 cells, but the header names 3"),
    ("burstgpt", PLAIN + '1,"2,3\n4,5,6\n', "t:3: not CSV: unexpected end of data"),
    (
        "burstgpt",
        "Timestamp,Request token,Response tokens\n1,2,3\n",
        "t:1: no column 'Request tokens' (found: 'Timestamp, Request token, Response tokens'); did you mean "
        "'Request token'?",
    ),
    ("burstgpt", "Timestamp,timestamp,Request tokens\n1,2,3\n", "t:1: the column 'Timestamp' appears twice"),
    ("burstgpt", PLAIN, "t: the file contains no requests"),
    ("burstgpt", "", "t: the file contains no requests"),
]


@pytest.mark.parametrize(("trace_format", "text", "message"), WRONG)
def test_a_wrong_row_is_named_with_file_line_column_value_and_rule(trace_format, text, message, tmp_path):
    assert refusal(tmp_path, trace_format, text) == message


def test_text_that_is_not_utf_8(tmp_path):
    (tmp_path / "u").write_bytes(PLAIN.encode() + b"1,2,\xff\n")
    with pytest.raises(InputError, match=r"u:2: not UTF-8 \(byte 5\)"):
        load_trace([tmp_path / "u"], "burstgpt")


def test_a_block_size_has_nothing_to_act_on(tmp_path):
    text = refusal(tmp_path, "azure", AZURE + "2024-05-12 00:00:10,1,1\n", 64)
    assert text == "trace_block_size 64 has no effect: trace format 'azure' has no content ids"
    assert load(tmp_path, "azure", AZURE + "2024-05-12 00:00:10,1,1\n", 512).sessions
