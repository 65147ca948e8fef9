"""Shifting and compressing traces never touches the loaded sessions (spec 02 section 2.6)."""

import copy

import pytest

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.sessions import normalise_starts, require_arrivals, speed_up


@pytest.fixture
def sessions():
    return [
        Session("a", [Turn(8, 2), Turn(8, 2, delay_ms=30.0), Turn(8, 2)], 5000.0, turn_offset=3),
        Session("b", [Turn(4, 1)], 5100.0),
        Session("c", [Turn(4, 1)], None),
    ]


def test_the_earliest_start_becomes_zero_and_missing_ones_stay_missing(sessions):
    before = copy.deepcopy(sessions)
    assert [s.arrival_ms for s in normalise_starts(sessions)] == [0.0, 100.0, None]
    assert sessions == before


def test_a_negative_start_is_shifted_to_zero():
    shifted = normalise_starts([Session("a", [Turn(1, 1)], 5.0), Session("b", [Turn(1, 1)], -20.0)])
    assert [s.arrival_ms for s in shifted] == [25.0, 0.0]


def test_speed_up_divides_starts_and_delays_and_shares_what_stays(sessions):
    before = copy.deepcopy(sessions)
    faster = speed_up(sessions, 2.0)
    assert [s.arrival_ms for s in faster] == [2500.0, 2550.0, None]
    assert [t.delay_ms for t in faster[0].turns] == [0.0, 15.0, 0.0]
    assert faster[0].turn_offset == 3
    assert faster[0].turns[0] is sessions[0].turns[0]
    assert faster[1].turns is sessions[1].turns
    assert sessions == before


def test_nothing_is_copied_when_nothing_changes(sessions):
    assert speed_up(sessions, 1.0) is sessions
    started = normalise_starts(sessions)
    assert normalise_starts(started) is started
    assert normalise_starts([]) == []


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.0, "0"), (-1.0, "-1"), (float("nan"), "nan"), (float("inf"), "inf")]
)
def test_the_ratio_must_be_finite_and_positive(sessions, ratio, text):
    with pytest.raises(InputError) as caught:
        speed_up(sessions, ratio)
    assert str(caught.value) == f"arrival_speedup_ratio must be a finite number above 0, got {text}"


@pytest.mark.parametrize(
    "session",
    [Session("late", [Turn(1, 1)], 10.0), Session("late", [Turn(1, 1), Turn(1, 1, delay_ms=10.0)], 0.0)],
)
def test_a_tiny_ratio_that_leaves_the_clock_is_refused(session):
    with pytest.raises(InputError, match="1e-300: session 'late' would go beyond 4e"):
        speed_up([session], 1e-300)


def test_open_loop_needs_every_start(sessions):
    with pytest.raises(InputError, match="session 'c' has no first timestamp"):
        require_arrivals(sessions)
    require_arrivals(sessions[:2])
    with pytest.raises(InputError, match="session 'x' starts at -1 ms"):
        require_arrivals([Session("x", [Turn(1, 1)], -1.0)])
