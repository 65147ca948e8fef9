"""Synthetic load (spec 02 section 3)."""

import pytest

from aisimulate.core.errors import InputError
from aisimulate.workload.synthetic import Burst, ConstantRate, Poisson, sharing_notes, synthetic_sessions


def build(**changes):
    settings = {"isl": 16, "osl": 2, "sessions": 4, "arrivals": Burst(), "block_tokens": 4, **changes}
    return synthetic_sessions(**settings)


def starts(sessions):
    return [session.arrival_ms for session in sessions]


def test_a_burst_starts_everything_at_zero():
    sessions = build()
    assert starts(sessions) == [0.0] * 4
    assert [s.session_id for s in sessions] == ["session_0", "session_1", "session_2", "session_3"]
    assert all(len(s.turns) == 1 and s.turns[0].block_ids is None for s in sessions)
    assert (sessions[0].turns[0].input_tokens, sessions[0].turns[0].output_tokens) == (16, 2)


def test_a_constant_rate_has_equal_gaps():
    assert starts(build(arrivals=ConstantRate(20.0))) == [0.0, 50.0, 100.0, 150.0]
    # Gaps add up one by one, as recorded for an interval of 7.7 ms.
    recorded = [0.0, 7.700000000000001, 15.400000000000002, 23.1, 30.800000000000004, 38.50000000000001]
    assert starts(build(sessions=6, arrivals=ConstantRate(1000.0 / 7.7))) == recorded


def test_poisson_starts_are_the_published_ones():
    recorded = [
        0.0,
        74.77246176406965,
        153.01953951913882,
        254.207536844964,
        306.2785951560703,
        309.7732343327897,
    ]
    assert starts(build(sessions=6, arrivals=Poisson(10.0))) == recorded
    other = starts(build(sessions=6, arrivals=Poisson(10.0), arrival_seed=7))
    assert other[1:3] == [3.0786437168091014, 39.76362317455055]


def test_the_content_seed_does_not_move_arrivals():
    shared = {"shared_prefix_ratio": 0.5, "num_prefix_groups": 3, "arrivals": Poisson(10.0)}
    assert (
        starts(build(**shared))
        == starts(build(**shared, content_seed=9))
        == starts(build(arrivals=Poisson(10.0)))
    )


def test_one_group_shares_half_of_every_prompt():
    ids = [s.turns[0].block_ids for s in build(shared_prefix_ratio=0.5, num_prefix_groups=1)]
    assert all(prompt[:2] == ids[0][:2] for prompt in ids)
    private = [block for prompt in ids for block in prompt[2:]]
    assert len(set(private) | set(ids[0][:2])) == 8 + 2


def test_groups_are_drawn_from_the_content_seed():
    drawn = [
        s.turns[0].block_ids[0] // 2
        for s in build(sessions=12, shared_prefix_ratio=0.5, num_prefix_groups=3, content_seed=0)
    ]
    assert drawn == [2, 2, 1, 2, 2, 0, 2, 1, 2, 0, 0, 2]
    # Recorded with content seed 42: the first of a group reuses nothing, the rest 8 tokens.
    seen, reuse = set(), []
    for session in build(sessions=8, shared_prefix_ratio=0.5, num_prefix_groups=3, content_seed=42):
        first = session.turns[0].block_ids[0]
        reuse.append(8 if first in seen else 0)
        seen.add(first)
    assert reuse == [0, 0, 8, 8, 0, 8, 8, 8]


@pytest.mark.parametrize(
    ("isl", "ratio", "shared"), [(16, 0.5, 2), (10, 0.5, 2), (4, 0.5, 1), (4, 0.49, None), (16, 1.0, 4)]
)
def test_shared_blocks_round_half_away(isl, ratio, shared):
    prompts = [
        t.block_ids for s in build(isl=isl, shared_prefix_ratio=ratio, num_prefix_groups=1) for t in s.turns
    ]
    if shared is None:
        assert prompts == [None] * 4
    else:
        assert all(len(prompt) == -(-isl // 4) for prompt in prompts)
        assert sum(a == b for a, b in zip(prompts[0], prompts[1], strict=True)) == shared


@pytest.mark.parametrize("changes", [{"shared_prefix_ratio": 0.5}, {"num_prefix_groups": 3}])
def test_sharing_needs_both_settings_and_says_so(changes):
    assert all(s.turns[0].block_ids is None for s in build(**changes))
    (note,) = sharing_notes(changes.get("shared_prefix_ratio", 0.0), changes.get("num_prefix_groups", 0))
    assert "has no effect without" in note
    assert sharing_notes(0.5, 3) == sharing_notes(0.0, 0) == []


def test_later_turns_wait_and_repeat_only_the_group_prefix():
    sessions = build(
        sessions=2, turns=3, inter_turn_delay_ms=30, shared_prefix_ratio=0.25, num_prefix_groups=5
    )
    for session in sessions:
        assert [turn.delay_ms for turn in session.turns] == [0.0, 30.0, 30.0]
        assert all(isinstance(turn.delay_ms, float) for turn in session.turns)
        assert len({turn.block_ids[0] for turn in session.turns}) == 1
    fresh = [block for session in sessions for turn in session.turns for block in turn.block_ids[1:]]
    assert len(set(fresh)) == len(fresh) == 18


BAD = [
    ("e60", {"sessions": 0}, "request_count 0: must be a whole number from 1 to 4294967295"),
    ("e61", {"isl": 0}, "isl 0: must be a whole number from 1 to 4294967295"),
    ("e62", {"osl": 0}, "osl 0: must be a whole number from 1 to 4294967295"),
    ("isl text", {"isl": "8"}, "isl '8': must be a whole number from 1 to 4294967295"),
    ("osl bool", {"osl": True}, "osl True: must be a whole number from 1 to 4294967295"),
    ("e64", {"shared_prefix_ratio": 1.5}, "shared_prefix_ratio must be between 0 and 1, got 1.5"),
    (
        "nan ratio",
        {"shared_prefix_ratio": float("nan")},
        "shared_prefix_ratio must be between 0 and 1, got nan",
    ),
    ("e65", {"turns": 0}, "turns_per_session 0: must be a whole number from 1 to 4294967295"),
    (
        "groups",
        {"num_prefix_groups": -1},
        "num_prefix_groups -1: must be a whole number from 0 to 4294967295",
    ),
    ("e68", {"arrivals": ConstantRate(0.0)}, "request_rate must be a finite number above 0, got 0"),
    (
        "nan rate",
        {"arrivals": Poisson(float("nan"))},
        "request_rate must be a finite number above 0, got nan",
    ),
    (
        "inf rate",
        {"arrivals": Poisson(float("inf"))},
        "request_rate must be a finite number above 0, got inf",
    ),
    (
        "e69",
        {"inter_turn_delay_ms": -1.0},
        "inter_turn_delay_ms must be a finite number of at least 0, got -1",
    ),
    (
        "inf delay",
        {"inter_turn_delay_ms": float("inf")},
        "inter_turn_delay_ms must be a finite number of at least 0, got inf",
    ),
    ("seed", {"arrival_seed": -1}, "arrival_seed -1: must be a whole number from 0 to 18446744073709551615"),
    (
        "slow",
        {"arrivals": ConstantRate(1e-12)},
        "the last session would start at 3e+15 ms, beyond 4e+12",
    ),
]


@pytest.mark.parametrize(("changes", "message"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_settings_are_named(changes, message):
    with pytest.raises(InputError) as caught:
        build(**changes)
    assert str(caught.value) == message
