"""Requests written one by one (spec 02 section 1.2)."""

import pytest

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Workload
from aisimulate.workload.driver import SessionDriver
from aisimulate.workload.inline import CONTENT_BLOCK_TOKENS, InlineRequest, inline_sessions


def request(name="r", arrival_ms=0.0, input_tokens=8, output_tokens=2, **more):
    return InlineRequest(name, arrival_ms, input_tokens, output_tokens, **more)


def test_everything_authored_is_kept():
    (session,) = inline_sessions(
        [request("x", 3.5, session_id="s", turn_index=4, dp_rank=1, metadata={"priority": 7, "note": [1]})], 2
    )
    assert (session.session_id, session.turn_offset, session.arrival_ms) == ("s", 4, 3.5)
    (turn,) = session.turns
    assert (turn.request_id, turn.dp_rank, turn.metadata) == ("x", 1, {"priority": 7, "note": [1]})
    assert (turn.input_tokens, turn.output_tokens, turn.block_ids, turn.output_ids) == (8, 2, None, None)


def test_requests_are_stably_sorted_by_arrival():
    sessions = inline_sessions(
        [request("c", 5.0), request("b", 1.0), request("a", 5.0), request("d", 0.0)], 1
    )
    assert [s.turns[0].request_id for s in sessions] == ["d", "b", "c", "a"]


def test_whole_number_times_are_fine():
    feed = SessionDriver(Workload(inline_sessions([request("a", 3)], 1), CONTENT_BLOCK_TOKENS), 4)
    assert feed.next_ready_ns() == 3_000_000


def test_planned_output_ids_set_the_output_length():
    (session,) = inline_sessions([request(output_tokens=9, output_ids=[4, 5, 6])], 1)
    assert (session.turns[0].output_tokens, session.turns[0].output_ids) == (3, [4, 5, 6])


def test_length_only_prompts_are_spelled_only_beside_explicit_ones():
    plain = inline_sessions([request("a"), request("b")], 1)
    assert [s.turns[0].block_ids for s in plain] == [None, None]
    # The list position sets the content, also when the order of arrival is another one.
    mixed = inline_sessions(
        [request("a", 9.0, input_ids=[7] * 8), request("b", 5.0, 4), request("c", 0.0, 3)], 1
    )
    assert [s.turns[0].block_ids for s in mixed] == [
        [2000006, 2000007, 2000008],
        [1000003, 1000004, 1000005, 1000006],
        [7] * 8,
    ]


def test_prompt_tokens_wrap_at_32_bits():
    rows = [request(str(i), input_tokens=1) for i in range(4295)]
    rows[0].input_ids = [1]
    rows[4294].input_tokens = 954_416  # starts 954,414 below 2**32
    ids = inline_sessions(rows, 1)[4294].turns[0].block_ids
    assert ids[0] == 4294 * 1000003
    assert ids[-3:] == [2**32 - 1, 0, 1]


def test_an_explicit_prompt_shares_the_generated_content_of_a_length_only_one():
    generated = list(range(1000003, 1000003 + 8))
    sessions = inline_sessions([request("a", 0.0, input_ids=generated), request("b", 1.0)], 1)
    driver = SessionDriver(Workload(sessions, CONTENT_BLOCK_TOKENS), 4)
    first, second = driver.pop_ready(10**9)
    assert first.keys == second.keys
    assert len(first.keys) == 2


def test_planned_outputs_extend_the_keys_only_beside_explicit_prompts():
    sessions = inline_sessions(
        [request("a", input_ids=[1] * 6, input_tokens=6, output_ids=[1, 1, 2, 2, 2, 2])], 1
    )
    (sequence,) = SessionDriver(Workload(sessions, CONTENT_BLOCK_TOKENS), 4).pop_ready(0)
    assert sequence.planned
    first, second, third = sequence.keys
    assert first == second != third
    (alone,) = SessionDriver(
        Workload(inline_sessions([request(output_ids=[1, 2])], 1), CONTENT_BLOCK_TOKENS), 4
    ).pop_ready(0)
    assert (alone.keys, alone.planned) == (None, False)


BAD = [
    ([request(arrival_ms=-1.0)], "requests[0].arrival_time_ms -1.0: must be a number from 0 to 4e+12"),
    ([request(arrival_ms=float("nan"))], "requests[0].arrival_time_ms nan: must be a number from 0 to 4e+12"),
    ([request(input_tokens=0)], "requests[0].input_tokens 0: must be a whole number from 1 to 4294967295"),
    (
        [request(output_tokens=-1)],
        "requests[0].output_tokens -1: must be a whole number from 0 to 4294967295",
    ),
    ([request("")], "requests[0].id '': must not be empty"),
    ([request("a"), request("b"), request("a")], "requests[2].id 'a': already used by requests[0]"),
    ([request(dp_rank=2)], "requests[0].dp_rank 2: must be from 0 to 1 (dp_size 2)"),
    ([request(dp_rank=-1)], "requests[0].dp_rank -1: must be from 0 to 1 (dp_size 2)"),
    ([request(input_ids=[1])], "requests[0].input_token_ids of length 1: must have input_tokens 8 ids"),
    (
        [request("a"), request("b", input_ids=[1, 2**32])],
        "requests[1].input_token_ids[1] 4294967296: must be a whole number from 0 to 4294967295",
    ),
    (
        [request(output_ids=[True])],
        "requests[0].output_token_ids[0] True: must be a whole number from 0 to 4294967295",
    ),
    (
        [request(metadata={"priority": "high"})],
        "requests[0].metadata.priority 'high': must be a whole number from -2147483648 to 2147483647",
    ),
    (
        [request(metadata={"strict_priority": -1})],
        "requests[0].metadata.strict_priority -1: must be a whole number from 0 to 4294967295",
    ),
    ([request(metadata={"policy_class": 1})], "requests[0].metadata.policy_class 1: must be a string"),
]


@pytest.mark.parametrize(("rows", "message"), BAD)
def test_bad_requests_are_named(rows, message):
    with pytest.raises(InputError) as caught:
        inline_sessions(rows, 2)
    assert str(caught.value) == message
