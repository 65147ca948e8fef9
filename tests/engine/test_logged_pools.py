"""What a pool tells that lookups no longer find, where it has copies of blocks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aisimulate.engine.cache_changes import CacheChanges
from aisimulate.engine.logged_pools import LoggedRunPool, LoggedRuns, PatientRunPool

BLOCKS = 24


def computed(pool: LoggedRuns, keys: list[int], hit: int) -> Any:
    """A sequence that found `hit` blocks of its prompt and computed the rest, and holds them all."""
    sequence = SimpleNamespace(keys=keys, node=None, segments=None, segment_start=0)
    match = pool.match(keys, hit)
    pool.pin(sequence, match)  # type: ignore[arg-type]
    pool.take(len(keys) - match[0])
    pool.extend(sequence, match[0], len(keys))  # type: ignore[arg-type]
    sequence.segment_start = match[0]
    return sequence


def let_go(pool: LoggedRuns, sequence: Any) -> None:
    """Release the nodes from the deepest one up, as the pool does for sequences without a private run."""
    node = sequence.node
    chain = []
    while node.parent is not None:
        chain.append(node)
        node = node.location or node.parent
    for node in chain:
        node.ref -= 1
        if not node.ref:
            pool._retire(node)


def make_pool() -> LoggedRunPool:
    pool = LoggedRunPool(BLOCKS, 4)
    pool.changes = CacheChanges(0)
    return pool


def removed(pool: LoggedRuns) -> list[tuple[list[int], int, int]]:
    return [(ids, start, end) for is_store, ids, start, end in pool.changes.fresh if not is_store]


def test_both_copies_of_a_block_may_go_at_once() -> None:
    pool = make_pool()
    prompt = [1, 2, 3]
    first = computed(pool, prompt, 0)
    second = computed(pool, prompt, 2)  # its last block was computed anew
    let_go(pool, first)
    let_go(pool, second)
    pool.take(BLOCKS - 4 + 1)
    assert removed(pool) == [], "the other copy is left"
    pool.take(1)
    assert removed(pool) == [(prompt, 2, 3)]

    again = make_pool()
    let_go(again, computed(again, prompt, 0))
    let_go(again, computed(again, prompt, 2))
    again.take(BLOCKS - 4 + 2)
    assert removed(again) == [(prompt, 2, 3)]


def test_a_copy_of_its_first_block_does_not_hide_the_rest_of_a_run() -> None:
    pool = make_pool()
    let_go(pool, computed(pool, [1, 2, 3, 4], 0))
    let_go(pool, computed(pool, [1], 0))
    pool.take(BLOCKS - 5 + 2)
    assert removed(pool) == [([1, 2, 3, 4], 2, 4)]
    assert pool.match([1, 2, 3, 4], 4)[0] == 2


def full_patient_pool() -> tuple[PatientRunPool, Any]:
    """A pool whose last blocks hold what a request left behind that ended; nothing of it is due to go."""
    pool = PatientRunPool(BLOCKS, 4)
    pool.changes = CacheChanges(0)
    first = computed(pool, [1, 2, 3, 4], 0)
    pool.take(BLOCKS - 4)
    let_go(pool, first)
    pool.changes.fresh.clear()
    pool.changes.ignored = True
    return pool, pool.changes


def test_what_was_due_before_a_pass_is_planned_is_no_news() -> None:
    pool, changes = full_patient_pool()
    pool.take(1)
    pool.begin_plan()
    pool.take(2)
    assert not changes.fresh, "nobody has looked"
    assert pool.match([1, 2, 3, 4], 4)[0] == 1
    assert removed(pool) == [([1, 2, 3, 4], 1, 3)]
    assert changes.visible([1, 2, 3, 4], 1, 1, 4, 0) == 3, "as it was when the pass was planned"


def test_what_goes_between_passes_is_known() -> None:
    pool, changes = full_patient_pool()
    pool.begin_plan()
    pool.take(1)
    changes.ignored = True  # the pass ends
    pool.take(1)
    assert pool.match([1, 2, 3, 4], 4)[0] == 2
    assert not changes.fresh


def test_what_is_due_twice_in_a_pass_is_news_twice() -> None:
    pool, changes = full_patient_pool()
    pool.begin_plan()
    pool.take(1)
    pool.settle()
    pool.take(1)
    pool.settle()
    assert removed(pool) == [([1, 2, 3, 4], 3, 4), ([1, 2, 3, 4], 2, 3)]
    assert changes.visible([1, 2, 3, 4], 1, 2, 4, 0) == 4
