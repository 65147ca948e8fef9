"""Longer prompts and outputs of any traffic."""

from __future__ import annotations

import pytest

from aisimulate.core.errors import UnsupportedError
from aisimulate.core.traffic import Session, Turn, Workload
from aisimulate.replay.execute import execute
from aisimulate.replay.stretched import execute_stretched, stretched_workload
from tests.replay.case_files import CASES, payload_of
from tests.whatif.payloads import REQUESTS, aggregated


def workload(*turns):
    return Workload([Session(None, [turn]) for turn in turns], content_block_tokens=4)


def turns_of(made):
    return [turn for session in made.sessions for turn in session.turns]


def test_prompts_gain_content_that_nobody_shares():
    given = workload(Turn(8, 4, [1, 2]), Turn(7, 4, [1, 9]), Turn(4, 4))
    first, second, third = turns_of(stretched_workload(given, 2.0, 1.0))
    assert (first.input_tokens, second.input_tokens, third.input_tokens) == (16, 14, 8)
    assert first.block_ids[:2] == [1, 2]
    assert second.block_ids[:2] == [1, 9]
    added = first.block_ids[2:] + second.block_ids[2:]
    assert len(added) == len(set(added)) == 4
    assert not set(added) & {1, 2, 9}
    assert third.block_ids is None
    assert turns_of(given)[0].input_tokens == 8, "the given workload stays as it is"


def test_shorter_prompts_lose_their_end():
    (turn,) = turns_of(stretched_workload(workload(Turn(16, 4, [1, 2, 3, 4])), 0.5, 1.0))
    assert (turn.input_tokens, turn.block_ids) == (8, [1, 2])


def test_outputs_are_stretched_alone():
    (turn,) = turns_of(stretched_workload(workload(Turn(8, 4, [1, 2])), 1.0, 1.25))
    assert (turn.input_tokens, turn.output_tokens, turn.block_ids) == (8, 5, [1, 2])


def test_outputs_given_token_by_token_are_refused():
    with pytest.raises(UnsupportedError, match="token by token"):
        stretched_workload(workload(Turn(8, 2, [1, 2], [5, 6])), 1.0, 2.0)


def test_a_factor_of_one_changes_nothing():
    payload = aggregated(record_per_request=False)
    told = {
        key: value for key, value in execute(payload).items() if "wall" not in key and "processed" not in key
    }
    stretched = execute_stretched(payload)
    assert {key: stretched[key] for key in told} == told


def test_requests_take_as_long_as_longer_ones():
    longer = [{**request, "output_tokens": request["output_tokens"] * 2} for request in REQUESTS]
    expected = execute(aggregated(requests=longer, record_per_request=False))
    found = execute_stretched(aggregated(record_per_request=False), outputs=2.0)
    assert found["mean_e2e_latency_ms"] == expected["mean_e2e_latency_ms"]
    assert found["total_output_tokens"] == expected["total_output_tokens"]


def test_an_agentic_trace_is_refused(tmp_path):
    name = next(name for name in CASES if "agentic-dag" in name)
    with pytest.raises(UnsupportedError, match="agentic"):
        execute_stretched(payload_of(name, tmp_path), prompts=2.0)
