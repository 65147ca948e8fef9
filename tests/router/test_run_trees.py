"""The trees of runs behind a router, against sets of single blocks."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from aisimulate.router.active_blocks import ActiveBlocks
from aisimulate.router.remembered import RememberedBlocks

TARGETS = 3
# A chain of content ids, and how many of its blocks count.
CHAINS = st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(1, 24))
STEPS = st.lists(st.tuples(st.integers(0, TARGETS - 1), CHAINS, st.booleans()), max_size=30)
STRIDES = st.sampled_from([1, 2, 4])


def blocks_of(chain: tuple[list[int], int], stride: int) -> list[tuple[int, ...]]:
    """Name every block by the ids up to it and its number."""
    ids, count = chain
    count = min(count, len(ids) * stride)
    return [(*ids[: block // stride + 1], -1 - block) for block in range(count)]


def prefix(blocks: list[tuple[int, ...]], known: object) -> int:
    return next((number for number, block in enumerate(blocks) if block not in known), len(blocks))  # type: ignore[operator]


@given(STEPS, STRIDES)
def test_active_blocks_are_counted_as_single_ones(steps, stride) -> None:
    active = ActiveBlocks()
    active.distinct += [0] * TARGETS
    naive = [Counter() for _ in range(TARGETS)]
    placed = []
    for target, chain, ends in steps:
        ids, blocks = chain[0], blocks_of(chain, stride)
        assert active.shared(ids, len(blocks), stride) == [prefix(blocks, known) for known in naive]
        placed.append((target, active.add(target, ids, len(blocks)), blocks))
        naive[target].update(blocks)
        if ends:
            owner, run, gone = placed.pop(0)
            active.drop(owner, run)
            naive[owner] = +(naive[owner] - Counter(gone))
        assert active.distinct == [len(known) for known in naive]
    for owner, run, _ in placed:
        active.drop(owner, run)
    assert active.distinct == [0] * TARGETS
    assert not active._tree._root.children


@given(st.lists(st.tuples(st.integers(0, TARGETS - 1), CHAINS, st.integers(0, 6)), max_size=30), STRIDES)
def test_placements_are_remembered_for_a_time(steps, stride) -> None:
    remembered, naive, now_ns = RememberedBlocks(10), [{} for _ in range(TARGETS)], 0
    for target, chain, wait_ns in steps:
        now_ns += wait_ns
        ids, blocks = chain[0], blocks_of(chain, stride)
        known = [
            {block for block, until_ns in blocks_of_.items() if until_ns > now_ns} for blocks_of_ in naive
        ]
        expected = [prefix(blocks, one) for one in known]
        assert remembered.prefixes(ids, len(blocks), stride, TARGETS, now_ns) == expected
        remembered.add(target, ids, len(blocks), now_ns)
        naive[target].update(dict.fromkeys(blocks, now_ns + 10))
    assert remembered.prefixes([9], 1, stride, TARGETS, now_ns + 100) == [0] * TARGETS
    assert not remembered._tree._root.children
