"""Sessions as columns: a driver makes of them what it makes of the same sessions as objects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.core.traffic import Session, Turn, Workload
from aisimulate.workload.driver import SessionDriver
from aisimulate.workload.plain import PlainSessions
from aisimulate.workload.sessions import normalise_starts, speed_up

FIELDS = ("ordinal", "arrival_ms", "arrival_ns", "input_tokens", "output_tokens", "stride", "turn_index")

rows = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 9), st.floats(0, 9, allow_subnormal=False)),
        st.integers(1, 8),
        st.integers(0, 3),
        st.lists(st.sampled_from([1, 2, 2**40]), min_size=2, max_size=3),
    ),
    min_size=1,
    max_size=9,
)


def columns(drawn, with_ids=True):
    plain = PlainSessions("request_", with_ids=with_ids)
    for number, (ms, inputs, outputs, ids) in enumerate(drawn, start=1):
        plain.add([number], [ms], [inputs], [outputs], [ids] if with_ids else [])
    return plain


def dispatched(sessions, concurrency, block_tokens, content_block_tokens=8):
    workload = Workload(sessions, content_block_tokens, concurrency=concurrency)
    driver = SessionDriver(workload, block_tokens)
    seen = []
    while (now_ns := driver.next_ready_ns()) is not None:
        if concurrency is None:
            seen += driver.pop_first(2)
            continue
        for sequence in driver.pop_ready(now_ns):
            sequence.status = "completed"
            seen.append(sequence)
            driver.on_terminal(sequence, now_ns + 5)
    return [
        (
            *(getattr(s, field) for field in FIELDS),
            s.keys and list(s.keys),
            s.session.session_id,
            s.turn.dp_rank,
        )
        for s in seen
    ]


@given(rows, st.booleans(), st.sampled_from([None, 1, 2]), st.sampled_from([4, 3]))
def test_a_driver_sees_no_difference(drawn, with_ids, concurrency, block_tokens):
    plain = columns(drawn, with_ids)
    assert dispatched(plain, concurrency, block_tokens) == dispatched(list(plain), concurrency, block_tokens)


@given(rows, st.sampled_from([1.0, 0.5, 3.0]))
def test_their_time_is_shifted_and_compressed_alike(drawn, ratio):
    plain = columns(drawn)
    assert speed_up(normalise_starts(plain), ratio) == speed_up(normalise_starts(list(plain)), ratio)


def test_they_are_a_list_of_sessions():
    plain = columns([(1, 4, 2, [7, 2**40]), (0.5, 3, 0, [9])])
    first, second = plain
    assert first == Session("request_1", [Turn(4, 2, plain.block_ids(0))], 1.0)
    assert list(second.turns[0].block_ids) == [9]
    assert plain[-1] == second
    assert plain[:1] == [first]
    assert len(plain) == 2
    with pytest.raises(IndexError):
        plain[2]


@pytest.mark.parametrize("ids", [[1, 2.5], [[1]], [-1], [2**64]])
def test_what_is_no_id_changes_nothing(ids):
    plain = columns([(1, 4, 2, [7])])
    with pytest.raises((TypeError, OverflowError)):
        plain.add([2], [2], [4], [1], [ids])
    assert plain == columns([(1, 4, 2, [7])])


@pytest.mark.parametrize(
    ("ids", "stride", "common"),
    [
        pytest.param(
            [[1, 2, 3], [1, 2], [1, 4]], 1, [2, 2, 1], id="up to the last id that another prompt has"
        ),
        pytest.param([[1, 2], [1, 3]], 4, [4, 4], id="in blocks of the engine"),
        pytest.param([[1, 2, 9], [3], [9]], 1, [0, 0, 1], id="not behind one that no other prompt has"),
        pytest.param([[5, 5], [6]], 1, [2, 0], id="an id that a prompt has twice may count"),
    ],
)
def test_blocks_that_others_have(ids, stride, common):
    plain = columns([(0, 1, 1, row) for row in ids])
    assert list(plain.common_blocks(stride)) == common


def test_blocks_are_not_counted_of_ids_without_numbering():
    assert columns([(0, 1, 1, [1, 2**40])]).common_blocks(1) is None
    assert columns([(0, 1, 1, [])], with_ids=False).common_blocks(1) is None


def test_requests_know_how_many_of_their_blocks_others_have():
    plain = columns([(0, 8, 1, [1, 2]), (1, 8, 1, [1, 3]), (2, 8, 1, [4, 5])])
    one_by_one = SessionDriver(Workload(plain, 4), 2)
    together = SessionDriver(Workload(plain, 4), 2)
    started = [one_by_one.pop_ready(now_ns)[0].tail_start for now_ns in (0, 10**6, 2 * 10**6)]
    assert started == [s.tail_start for s in together.pop_first(3)] == [2, 2, 0]
