"""When each request becomes ready, and with which prompt (spec 02 section 4)."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn, Workload
from aisimulate.engine.sequence import COMPLETED, REJECTED
from aisimulate.workload.driver import SessionDriver
from aisimulate.workload.synthetic import Burst, synthetic_sessions

MS = 1_000_000
FOREVER = 2**62


def turns(*delays_ms, tokens=8):
    return [Turn(tokens, 2, delay_ms=float(delay)) for delay in delays_ms]


def driver(sessions, concurrency=None, accumulate=False, content_block_tokens=4, block_tokens=4):
    return SessionDriver(Workload(sessions, content_block_tokens, accumulate, concurrency), block_tokens)


def finish(driver, sequence, at_ms, status=COMPLETED, emitted=None):
    sequence.status = status
    emitted_tokens = sequence.output_tokens if emitted is None else emitted
    sequence.tokens = sequence.input_tokens + emitted_tokens
    driver.on_terminal(sequence, round(at_ms * MS))


def exhausted(feed):
    """Whether every request of the workload has been dispatched."""
    return len(feed.sequences) == sum(len(session.turns) for session in feed._sessions)


def replay(driver, service_ms=15.0, status=COMPLETED):
    """Serve every request in `service_ms` with no contention; list (session, turn, arrival ms)."""
    running, log, now = [], [], 0
    while not exhausted(driver) or running:
        ready = driver.next_ready_ns()
        instants = [end for end, _ in running] + ([] if ready is None else [ready])
        now = max(now, min(instants))
        for end, sequence in [item for item in running if item[0] <= now]:
            running.remove((end, sequence))
            finish(driver, sequence, end / MS, status)
        for sequence in driver.pop_ready(now):
            log.append((sequence.session.session_id, sequence.turn_index, sequence.arrival_ms))
            running.append((now + round(service_ms * MS), sequence))
    return log


def test_open_loop_dispatches_in_order_of_time_then_file():
    sessions = [Session("late", turns(0), 10.0), Session("x", turns(0), 0.0), Session("y", turns(0), 0.0)]
    feed = driver(sessions)
    assert feed.next_ready_ns() == 0
    assert [s.session.session_id for s in feed.pop_ready(0)] == ["x", "y"]
    assert feed.next_ready_ns() == 10 * MS
    assert feed.pop_ready(9 * MS) == []
    (late,) = feed.pop_ready(10 * MS)
    assert (late.ordinal, late.arrival_ms, late.arrival_ns) == (2, 10.0, 10 * MS)
    assert feed.next_ready_ns() is None
    assert exhausted(feed)
    assert [s.ordinal for s in feed.sequences] == [0, 1, 2]


def test_an_arrival_is_echoed_as_given_and_rounded_for_the_clock():
    feed = driver([Session("a", turns(0), 74.77246176406965)])
    (sequence,) = feed.pop_ready(FOREVER)
    assert (sequence.arrival_ms, sequence.arrival_ns) == (74.77246176406965, 74_772_462)


def test_a_turn_waits_its_delay_after_the_end_of_the_previous_one():
    """c11, c12: 0-15 ms, ready at 15 + 30; then 45-60, ready at 60."""
    assert replay(driver([Session("a", turns(0, 30, 0), 0.0)])) == [
        ("a", 0, 0.0),
        ("a", 1, 45.0),
        ("a", 2, 60.0),
    ]


def test_turns_due_at_one_instant_follow_the_file_order_of_their_sessions():
    feed = driver(
        [Session("a", turns(0, 5), 0.0), Session("b", turns(0), 20.0), Session("c", turns(0, 0), 0.0)]
    )
    a, c = feed.pop_ready(0)
    finish(feed, c, 20)
    finish(feed, a, 15)
    assert feed.next_ready_ns() == 20 * MS
    due = feed.pop_ready(20 * MS)
    assert [(s.session.session_id, s.turn_index) for s in due] == [("a", 1), ("b", 0), ("c", 1)]
    assert [s.arrival_ms for s in due] == [20.0, 20.0, 20.0]


def test_the_next_instant_is_the_earlier_of_starts_and_later_turns():
    feed = driver(
        [Session("a", turns(0, 5), 0.0), Session("b", turns(0), 12.0), Session("c", turns(0), 30.0)]
    )
    (a,) = feed.pop_ready(0)
    finish(feed, a, 10)
    assert feed.next_ready_ns() == 12 * MS
    assert len(feed.pop_ready(12 * MS)) == 1
    assert feed.next_ready_ns() == 15 * MS
    assert len(feed.pop_ready(15 * MS)) == 1
    assert feed.next_ready_ns() == 30 * MS


def test_a_rejected_turn_advances_its_session():
    """c72: rejected at 0, the next turn 5 ms later."""
    feed = driver([Session("a", turns(0, 5), 0.0)])
    (first,) = feed.pop_ready(0)
    finish(feed, first, 0, REJECTED)
    assert feed.next_ready_ns() == 5 * MS


def test_closed_loop_holds_the_slot_through_think_time():
    """c15: 0, 65 = 15 + 50, then the other session at once at 80."""
    sessions = [Session("a", turns(0, 50), 0.0), Session("b", turns(0), 0.0)]
    assert replay(driver(sessions, concurrency=1)) == [("a", 0, 0.0), ("a", 1, 65.0), ("b", 0, 80.0)]


def test_closed_loop_starts_sessions_in_file_order_as_slots_free():
    """c77: the third session takes the slot of the second, not of the first."""
    sessions = [Session("a", turns(0, 40), 0.0), Session("b", turns(0), 0.0), Session("c", turns(0), 0.0)]
    expected = [("a", 0, 0.0), ("b", 0, 0.0), ("c", 0, 15.0), ("a", 1, 55.0)]
    assert replay(driver(sessions, concurrency=2)) == expected


def test_closed_loop_ignores_first_timestamps_even_missing_ones():
    """c14: timestamps 0, 1000, none."""
    sessions = [Session(str(i), turns(0), start) for i, start in enumerate([0.0, 1000.0, None])]
    assert [entry[2] for entry in replay(driver(sessions, concurrency=1))] == [0.0, 15.0, 30.0]


def test_a_rejection_frees_the_slot_at_the_same_instant():
    feed = driver([Session(str(i), turns(0), 0.0) for i in range(3)], concurrency=1)
    (first,) = feed.pop_ready(0)
    finish(feed, first, 0, REJECTED)
    assert feed.next_ready_ns() == 0
    (second,) = feed.pop_ready(0)
    assert second.session.session_id == "1"
    assert not exhausted(feed)


def test_synthetic_sessions_one_at_a_time():
    """c44: 25 ms of service, 30 ms of thought."""
    sessions = synthetic_sessions(
        isl=8, osl=4, sessions=2, turns=3, inter_turn_delay_ms=30.0, arrivals=Burst(), block_tokens=4
    )
    arrivals = [entry[2] for entry in replay(driver(sessions, concurrency=1), service_ms=25.0)]
    assert arrivals == [0.0, 55.0, 110.0, 135.0, 190.0, 245.0]


def test_authored_turn_numbers_are_kept():
    feed = driver(
        [Session("a", turns(0), 0.0, turn_offset=4), Session(None, turns(0), 0.0, turn_offset=None)]
    )
    assert [s.turn_index for s in feed.pop_ready(0)] == [4, None]


def test_workers_are_independent_only_without_feedback():
    single, double = [Session("a", turns(0), 0.0)], [Session("a", turns(0, 1), 0.0)]
    assert driver(single).is_independent
    assert not driver(double).is_independent
    assert not driver(single, concurrency=1).is_independent


def test_open_loop_refuses_a_session_without_a_start():
    with pytest.raises(InputError, match="session 'request_1' has no first timestamp"):
        driver([Session("request_1", turns(0), None)])


def test_the_cap_must_be_positive():
    with pytest.raises(InputError, match="concurrency must be at least 1, got 0"):
        driver([Session("a", turns(0), 0.0)], concurrency=0)


def test_accumulated_prompts_grow_by_emitted_outputs():
    """c13: own texts 8/4/4 with outputs 4/2 give prompts of 8, 16 and 22 tokens."""
    session = Session("a", [Turn(8, 4, [1, 2]), Turn(4, 2, [3]), Turn(4, 2, [4])], 0.0)
    feed = driver([session], accumulate=True)
    (first,) = feed.pop_ready(FOREVER)
    first_keys = first.keys
    finish(feed, first, 25)
    (second,) = feed.pop_ready(FOREVER)
    second_keys = second.keys
    finish(feed, second, 50)
    (third,) = feed.pop_ready(FOREVER)
    assert [s.input_tokens for s in (first, second, third)] == [8, 16, 22]
    assert (first.planned, second.planned, third.planned) == (True, True, False)
    assert first_keys == second_keys[:3]
    assert second_keys == third.keys[:4]
    assert [len(keys) for keys in (first_keys, second_keys, third.keys)] == [3, 4, 5]
    assert first.keys is second.keys is None  # let go of: each is as long as the history


def test_a_cut_output_enters_the_history_as_far_as_it_was_emitted():
    """Recorded: 12 of 20 planned tokens came, so the next prompt has 8 + 12 + 4."""
    session = Session("a", [Turn(8, 20, [1, 2]), Turn(4, 2, [9])], 0.0)
    feed = driver([session], accumulate=True)
    (first,) = feed.pop_ready(FOREVER)
    first_keys = first.keys
    finish(feed, first, 65, emitted=12)
    (second,) = feed.pop_ready(FOREVER)
    assert second.input_tokens == 24
    assert second.keys[:5] == first_keys[:5]
    assert second.keys[5] not in first_keys


def test_a_rejected_turn_leaves_its_prompt_but_no_output():
    """Recorded: 40 tokens rejected, then 4 more make a prompt of 44."""
    feed = driver([Session("a", [Turn(40, 2, list(range(10))), Turn(4, 2, [99])], 0.0)], accumulate=True)
    (first,) = feed.pop_ready(FOREVER)
    first_keys = first.keys
    finish(feed, first, 0, REJECTED, emitted=1)
    (second,) = feed.pop_ready(FOREVER)
    assert second.input_tokens == 44
    assert second.keys[:10] == first_keys[:10]


def test_planned_outputs_enter_the_history_as_their_tokens():
    """Recorded: the other session's prompt continues with the planned output and reuses it."""
    planned = Session("a", [Turn(4, 4, [0], [0, 0, 0, 0]), Turn(4, 2, [1])], 0.0)
    other = Session("b", [Turn(12, 2, [0, 0, 1])], 500.0)
    feed = driver([planned, other], accumulate=True)
    (first,) = feed.pop_ready(0)
    finish(feed, first, 25)
    (second,) = feed.pop_ready(25 * MS)
    (third,) = feed.pop_ready(500 * MS)
    assert second.keys == third.keys


def test_private_texts_are_shared_only_within_their_session():
    sessions = [Session(name, turns(0, 0, 0), 0.0) for name in "ab"]
    feed = driver(sessions, accumulate=True)
    previous = {}
    while not exhausted(feed):
        for sequence in feed.pop_ready(FOREVER):
            name = sequence.session.session_id
            assert sequence.keys[: len(previous.get(name, []))] == previous.get(name, [])
            previous[name] = sequence.keys[: (sequence.input_tokens + 2) // 4]
            finish(feed, sequence, 10)
    assert not set(previous["a"]) & set(previous["b"])


def test_shared_prefixes_survive_accumulation():
    sessions = synthetic_sessions(
        isl=16,
        osl=2,
        sessions=2,
        turns=2,
        shared_prefix_ratio=0.5,
        num_prefix_groups=1,
        arrivals=Burst(),
        block_tokens=4,
    )
    first, second = driver(sessions, accumulate=True).pop_ready(0)
    assert first.keys[:2] == second.keys[:2]
    assert first.keys[2] != second.keys[2]


workloads = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from([0.0, 1.5, 20.0]), st.integers(1, 9)), min_size=1, max_size=3),
        st.sampled_from([0.0, 0.5, 7.0]),
    ),
    min_size=1,
    max_size=6,
)


@given(
    workloads, st.one_of(st.none(), st.integers(1, 3)), st.booleans(), st.sampled_from([COMPLETED, REJECTED])
)
def test_every_turn_is_dispatched_once_in_order_within_the_cap(shape, concurrency, accumulate, status):
    sessions = [
        Session(str(i), [Turn(tokens, 2, delay_ms=delay) for delay, tokens in shape_turns], start)
        for i, (shape_turns, start) in enumerate(shape)
    ]
    before = copy.deepcopy(sessions)
    log = replay(driver(sessions, concurrency, accumulate), service_ms=3.0, status=status)
    assert sorted((name, turn) for name, turn, _ in log) == sorted(
        (s.session_id, n) for s in sessions for n in range(len(s.turns))
    )
    arrivals = [arrival for *_, arrival in log]
    assert arrivals == sorted(arrivals)
    if concurrency is None:
        assert all(arrival >= sessions[int(name)].arrival_ms for name, _, arrival in log)
    else:
        firsts = [name for name, turn, _ in log if turn == 0]
        assert firsts == sorted(firsts, key=int)
        assert most_open_sessions(log, sessions) <= concurrency
    assert sessions == before


def most_open_sessions(log, sessions):
    """Most sessions at once between their first arrival and the end (3 ms) of their last turn."""
    starts = {name: arrival for name, turn, arrival in log if turn == 0}
    ends = {name: arrival + 3.0 for name, turn, arrival in log if turn == len(sessions[int(name)].turns) - 1}
    return max(sum(starts[n] <= at < ends[n] for n in starts) for at in starts.values())
