"""Block keys stand for the token strings of blocks, exactly."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.core.traffic import Session, Turn, Workload
from aisimulate.replay.execute import execute
from aisimulate.workload.content import KeyTable, TokenText, ids_are_keys
from aisimulate.workload.driver import SessionDriver


def dispatch(turns, content_block_tokens, block_tokens):
    """Sequences of one-turn sessions that all arrive at 0."""
    sessions = [Session(str(i), [turn], 0.0) for i, turn in enumerate(turns)]
    return SessionDriver(Workload(sessions, content_block_tokens), block_tokens).pop_ready(0)


def full_blocks(sequence, block_tokens):
    """The key of each full block of the prompt, and of the planned output if the keys cover it."""
    length = sequence.input_tokens + (sequence.output_tokens if sequence.planned else 0)
    return [sequence.keys[p // sequence.stride] for p in range(length // block_tokens)]


def shared_blocks(a, b):
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def reusable_tokens(first, second, block_tokens):
    """What `second` finds cached after `first`: shared full blocks, but never its last token."""
    shared = shared_blocks(full_blocks(first, block_tokens), full_blocks(second, block_tokens))
    return min(shared, (second.input_tokens - 1) // block_tokens) * block_tokens


@pytest.mark.parametrize(
    ("content_block_tokens", "first", "second", "reused"),
    [
        (4, Turn(12, 2, [1, 2, 3]), Turn(12, 2, [1, 2, 9]), 8),  # c07
        (4, Turn(12, 2, [1, 2, 3]), Turn(12, 2, [1, 2, 3]), 8),  # c07
        (8, Turn(12, 2, [1, 2]), Turn(16, 2, [1, 3]), 8),  # c08
        (512, Turn(20, 2, [7]), Turn(20, 2, [7]), 16),  # c09
        (4, Turn(8, 2, [1, 2]), Turn(12, 2, [1, 2, 3]), 8),  # the example of spec 02 section 2.1
        (4, Turn(8, 2, [1, 2]), Turn(8, 2, [1, 2]), 4),  # c15
        (3, Turn(12, 2, [1, 1, 2, 3]), Turn(12, 2, [1, 1, 2, 4]), 8),  # blocks that do not divide
        (2, Turn(8, 2, [1, 2, 3, 4]), Turn(9, 2, [1, 2, 3, 9, 9]), 4),  # content finer than blocks
    ],
)
def test_worked_examples(content_block_tokens, first, second, reused):
    a, b = dispatch([first, second], content_block_tokens, 4)
    assert reusable_tokens(a, b, 4) == reused


def test_planned_outputs_share_the_id_space_of_interned_blocks():
    """Recorded: a request whose prompt continues with an earlier one's output reuses both."""
    first = Turn(4, 9, [0], [1, 1, 1, 1, 5, 5, 5, 5, 5])
    second = Turn(12, 2, [0, 1, 2])
    a, b = dispatch([first, second], 4, 4)
    assert a.planned
    assert not b.planned
    assert reusable_tokens(a, b, 4) == 8


def test_ids_are_used_as_they_are_when_engine_blocks_divide_content_blocks():
    turn = Turn(1000, 2, [5, 6])
    (sequence,) = dispatch([turn], 512, 64)
    assert sequence.keys is turn.block_ids
    assert sequence.stride == 8


@pytest.mark.parametrize(
    ("turn", "content_block_tokens", "accumulate"),
    [
        (Turn(8, 2, [1, 2]), 6, False),
        (Turn(8, 2, [1, 2]), 2, False),
        (Turn(8, 2, [1, 2]), 4, True),
        (Turn(8, 2, [1, 2], [9, 9]), 4, False),
    ],
)
def test_ids_are_no_keys_otherwise(turn, content_block_tokens, accumulate):
    workload = Workload([Session("a", [turn], 0.0)], content_block_tokens, accumulate)
    assert not ids_are_keys(workload, 4)


def test_private_prompts_have_no_keys():
    (sequence,) = dispatch([Turn(100, 2)], 3, 4)
    assert sequence.keys is None


@st.composite
def prompts(draw):
    content_block_tokens = draw(st.integers(1, 9))
    turns = []
    for _ in range(2):
        ids = draw(st.lists(st.integers(0, 2), min_size=1, max_size=8))
        tokens = draw(st.integers(1, len(ids) * content_block_tokens))
        planned = draw(st.one_of(st.none(), st.lists(st.integers(0, 2), max_size=9)))
        turns.append(Turn(tokens, len(planned or []), ids, planned))
    return content_block_tokens, draw(st.integers(1, 9)), turns


def spelled(turn, content_block_tokens):
    tokens = [token for token in turn.block_ids for _ in range(content_block_tokens)][: turn.input_tokens]
    return tokens + (turn.output_ids or [])


@given(prompts())
def test_keys_agree_exactly_where_token_strings_share_full_blocks(case):
    content_block_tokens, block_tokens, turns = case
    sequences = dispatch(turns, content_block_tokens, block_tokens)
    keys = [full_blocks(sequence, block_tokens) for sequence in sequences]
    texts = [spelled(turn, content_block_tokens) for turn in turns]
    blocks = [
        [tuple(text[i : i + block_tokens]) for i in range(0, len(text) - block_tokens + 1, block_tokens)]
        for text in texts
    ]
    assert [len(k) for k in keys] == [len(b) for b in blocks]
    assert shared_blocks(*keys) == shared_blocks(*blocks)


pieces = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(-2, 2), st.integers(0, 14)),
        st.tuples(st.just("tokens"), st.lists(st.integers(0, 2), max_size=9), st.none()),
        st.tuples(st.just("blocks"), st.lists(st.integers(0, 2), min_size=1, max_size=4), st.integers(0, 12)),
    ),
    max_size=6,
)


@given(pieces, st.integers(1, 5))
def test_a_text_keys_its_full_blocks_however_it_was_appended(case, block_tokens):
    table = KeyTable(block_tokens)
    text, plain = TokenText(table), []
    for kind, what, size in case:
        if kind == "run":
            text.append_run(what, size)
            plain += [what] * size
        elif kind == "tokens":
            text.append_tokens(what)
            plain += what
        else:
            text.append_blocks(what, 3, min(size, 3 * len(what)))
            plain += [token for token in what for _ in range(3)][:size]
    full = len(plain) // block_tokens
    assert text.keys == [
        table.key(tuple(plain[i * block_tokens : (i + 1) * block_tokens])) for i in range(full)
    ]


def test_a_fork_grows_on_its_own():
    text = TokenText(KeyTable(2))
    text.append_tokens([1, 2, 3])
    copy = text.fork()
    copy.append_tokens([3, 4, 4])
    text.append_tokens([9])
    assert text.keys[0] == copy.keys[0]
    assert (len(text.keys), len(copy.keys)) == (2, 3)
    assert text.keys[1] != copy.keys[1]


@given(st.lists(st.lists(st.sampled_from([0, 1, -1, 2**64 - 1, 2**32]), min_size=4, max_size=4), max_size=30))
def test_different_blocks_have_different_keys(blocks):
    table = KeyTable(4)
    numbers = {}
    for block in map(tuple, blocks):
        assert numbers.setdefault(block, table.key(block)) == table.key(block)
    assert len(set(numbers.values())) == len(numbers)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_blocks_have_keys_of_their_own(size):
    blocks = list(product([0, 1, 2, -1, 5], repeat=size))
    table = KeyTable(size)
    assert len({table.key(block) for block in blocks}) == len(blocks)
    assert [table.key((token,) * size) for token in (0, -1, 7)] == [
        table.run_key(token) for token in (0, -1, 7)
    ]


def test_keys_are_never_negative_and_differ_by_content():
    """All blocks of four tokens over three, one of which is private: negative numbers mean no key at all."""
    table = KeyTable(4)
    keys = [table.key(block) for block in product((0, 1, -1), repeat=4)]
    assert min(keys) >= 0
    assert len(set(keys)) == 3**4


def test_generated_content_is_not_taken_for_a_block_of_many_tokens():
    """The first request goes on behind its prompt with tokens that no prompt can name."""
    tokens = list(range(4))
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": {"backend": "sglang", "block_size": 4, "num_gpu_blocks": 64}},
        "requests": [
            {
                "id": "a",
                "arrival_time_ms": 0,
                "input_tokens": 4,
                "output_tokens": 20,
                "input_token_ids": tokens,
            },
            {
                "id": "b",
                "arrival_time_ms": 1e6,
                "input_tokens": 13,
                "output_tokens": 2,
                "input_token_ids": [*tokens, *tokens, *tokens, 9],
            },
        ],
        "record_per_request": True,
    }
    spec["engine"]["rank"]["sglang"] = {"chunked_prefill_size": 8192}
    records = execute({"spec": spec})["per_request"]
    assert [record["reused_input_tokens"] for record in records] == [0, 4]
