"""The block demand of decoders that grow together, against growing them token by token."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.engine.decode_set import DecodeSet
from aisimulate.engine.page_decoders import PageDecoders
from aisimulate.engine.sequence import EVERY_BLOCK, Sequence

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=6)


def decoders_of(kind: type[DecodeSet], size: int, lengths: list[int], passes: int) -> DecodeSet:
    """Members of these lengths, none of which ends soon, after some passes."""
    decoders = kind(size)
    for ordinal, tokens in enumerate(lengths):
        decoders.add(Sequence(ordinal, None, 0, tokens, EVERY_BLOCK, None))
    decoders.advance(passes)
    return decoders


def opened(kind: type[DecodeSet], size: int, lengths: list[int], first: int, passes: int) -> list[int]:
    """Blocks that are opened in each of the passes from number `first` on."""
    opens_at = 0 if kind is PageDecoders else 1 % size
    return [
        sum((tokens + number) % size == opens_at for tokens in lengths)
        for number in range(first, first + passes)
    ]


@pytest.mark.parametrize("kind", [DecodeSet, PageDecoders])
@given(size=st.integers(1, 9), lengths=LENGTHS, done=st.integers(0, 30), passes=st.integers(1, 40))
def test_demand_is_what_each_pass_opens(kind, size, lengths, done, passes):
    decoders = decoders_of(kind, size, lengths, done)

    assert decoders.demand(passes) == sum(opened(kind, size, lengths, done, passes))


@pytest.mark.parametrize("kind", [DecodeSet, PageDecoders])
@given(
    size=st.integers(1, 9),
    lengths=LENGTHS,
    done=st.integers(0, 30),
    passes=st.integers(1, 40),
    spare=st.integers(0, 60),
)
def test_a_run_lasts_as_long_as_its_blocks(kind, size, lengths, done, passes, spare):
    decoders = decoders_of(kind, size, lengths, done)
    needed = [*accumulate(opened(kind, size, lengths, done, passes))]
    blocks = needed[0] + spare
    lasting = sum(total <= blocks for total in needed)

    assert decoders.longest_and_demand(passes, blocks) == (lasting, needed[lasting - 1])
