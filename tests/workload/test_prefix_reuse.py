"""What a cache that forgets nothing could reuse, against comparing the prompts token by token."""

from hypothesis import given, settings
from hypothesis import strategies as st

from aisimulate.core.traffic import Turn
from aisimulate.workload.block_ids import packed
from aisimulate.workload.prefix_reuse import ideal_reuse_tokens

BLOCK = 3


def turn(ids, tokens=None, pack=packed):
    return Turn(len(ids) * BLOCK if tokens is None else tokens, 1, pack(ids))


def spelled(one):
    text = [content_id for content_id in one.block_ids or () for _ in range(BLOCK)]
    return text[: one.input_tokens]


def common(first, second):
    pairs = zip(first, second, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


@st.composite
def turns(draw):
    ids = draw(st.lists(st.sampled_from([0, 1, 2, 2**32, 2**32 + 1]), min_size=1, max_size=5))
    tokens = draw(st.integers(1, len(ids) * BLOCK))
    return Turn(tokens, 1, None if draw(st.integers(0, 9)) == 9 else packed(ids))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(turns(), min_size=1, max_size=12))
def test_equals_comparing_token_by_token(prompts):
    reused = ideal_reuse_tokens(prompts, BLOCK)
    if all(one.block_ids is None for one in prompts):
        assert reused is None
        return
    texts = [spelled(one) for one in prompts]
    wanted = [
        min(one.input_tokens - 1, max((common(text, before) for before in texts[:n]), default=0))
        for n, (one, text) in enumerate(zip(prompts, texts, strict=True))
    ]
    assert reused.tolist() == wanted


def test_partly_filled_blocks_share_what_both_have():
    prompts = [turn([1, 2], 4), turn([1, 2], 6), turn([1, 2, 3]), turn([1, 2], 5)]
    assert ideal_reuse_tokens(prompts, BLOCK).tolist() == [0, 4, 6, 4]


def test_lists_are_as_good_as_packed_ids():
    assert ideal_reuse_tokens([turn([5, 6], pack=list), turn([5, 7], pack=list)], BLOCK).tolist() == [0, 3]
