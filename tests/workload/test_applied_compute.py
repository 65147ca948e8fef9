"""Applied Compute sessions: every rule, every message (spec 02 sections 2.3 and 9)."""

import json

import pytest
from trace_files import load, refusal

FORMAT = "applied_compute_agentic"
ROW = {
    "num_turns": 2,
    "input_prompt_length": 10,
    "assistant_response_length": [3, 2],
    "tool_call_output_length": [5, 4],
    "tool_call_latency": [0.05, 2],
    "final_assistant_response_length": 7,
}
SHORT = {
    "num_turns": 0,
    "input_prompt_length": 4,
    "assistant_response_length": [],
    "tool_call_output_length": [],
    "tool_call_latency": [],
    "final_assistant_response_length": 0,
}


def row(**changes):
    return json.dumps({name: value for name, value in (ROW | changes).items() if value is not ...})


def test_a_row_is_a_session_of_one_turn_more(tmp_path):
    trace = load(tmp_path, FORMAT, "\n" + row() + "\n" + json.dumps(SHORT), 4)
    first, second = trace.sessions
    assert [session.session_id for session in trace.sessions] == [
        "applied_compute_agentic_session_2",
        "applied_compute_agentic_session_3",
    ]
    assert [turn.input_tokens for turn in first.turns] == [10, 18, 24]
    assert [turn.output_tokens for turn in first.turns] == [3, 2, 7]
    assert [turn.delay_ms for turn in first.turns] == [0.0, 50.0, 2000.0]
    # Prompts grow by whole blocks; nothing is shared with another session.
    assert [list(turn.block_ids) for turn in first.turns] == [[0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]]
    assert [list(turn.block_ids) for turn in second.turns] == [[6]]
    assert (second.turns[0].output_tokens, trace.block_tokens) == (0, 4)
    assert first.arrival_ms is None


def test_no_session_has_an_arrival(tmp_path):
    trace = load(tmp_path, FORMAT, row(), 4)
    assert trace.untimed == f"{tmp_path}/t:1: session 'applied_compute_agentic_session_1'"


def test_unknown_fields_are_noted(tmp_path):
    (note,) = load(tmp_path, FORMAT, row(num_turn=3), 4).notes
    assert note.endswith("t:1: unknown field 'num_turn', ignored; did you mean 'num_turns'?")


WRONG = {
    "a list too short": (
        row(assistant_response_length=[3]),
        "t:1: assistant_response_length of length 1: must have num_turns 2 values",
    ),
    "latencies too many": (
        row(tool_call_latency=[0.1] * 3),
        "t:1: tool_call_latency of length 3: must have num_turns 2 values",
    ),
    "a negative latency": (
        row(tool_call_latency=[0.1, -1]),
        "t:1: tool_call_latency[1] -1: must be a number of seconds from 0 to 4e+09",
    ),
    "a latency that is text": (
        row(tool_call_latency=["1", 1]),
        "t:1: tool_call_latency[0] '1': must be a number of seconds from 0 to 4e+09",
    ),
    "no list": (row(tool_call_latency=3), "t:1: tool_call_latency 3: must be a list of numbers"),
    "no latencies": (row(tool_call_latency=...), "t:1: tool_call_latency is missing"),
    "no prompt": (row(input_prompt_length=...), "t:1: input_prompt_length is missing"),
    "an empty prompt": (
        row(input_prompt_length=0),
        "t:1: input_prompt_length 0: must be a whole number from 1 to 4294967295",
    ),
    "no last answer": (
        row(final_assistant_response_length=...),
        "t:1: final_assistant_response_length is missing",
    ),
    "a negative count": (row(num_turns=-1), "t:1: num_turns -1: must be a whole number from 0 to 4294967295"),
    "too long": (
        row(tool_call_output_length=[5, 10_000_000]),
        "t:1: the last prompt has 10000020 tokens: must not exceed 10000000",
    ),
    "nothing": ("\n", "t: the file contains no requests"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_rows(tmp_path, what):
    text, message = WRONG[what]
    assert refusal(tmp_path, FORMAT, text, 4) == message
