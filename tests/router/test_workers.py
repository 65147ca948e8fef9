"""A router whose workers come and go."""

from __future__ import annotations

from aisimulate.core.traffic import Session, Turn
from aisimulate.engine.sequence import Origin, Sequence
from aisimulate.router.clock import RouterClock
from aisimulate.router.kv_router import KvRouter
from aisimulate.router.options import RouterOptions


def request(ordinal: int, blocks: int = 4) -> Sequence:
    turn = Turn(4 * blocks, 2)
    return Sequence(ordinal, Origin(turn, Session("a", [turn], 0.0), 0, 0.0), 0, 4 * blocks, 2, None)


def router(workers: int, ranks: int = 1, **options: object) -> KvRouter:
    made = KvRouter(RouterOptions(**options), 4, RouterClock(), max_batched_tokens=16)
    for worker in range(workers):
        made.add_worker(worker, [None] * ranks)
        made.worker_ready(worker, 0)
    return made


def test_a_draining_worker_gets_nothing_and_keeps_its_load() -> None:
    made = router(3)
    first = request(0)
    assert [made.place(request) for request in (first, request(1), request(2))] == [(0, 0), (1, 0), (2, 0)]
    made.worker_draining(2, 10)
    assert [made.place(request(number)) for number in (3, 4)] == [(0, 0), (1, 0)]
    made.request_terminal(first, 20)
    assert made.place(request(5)) == (0, 0)
    assert made._blocks.distinct == [8, 8, 4]


def test_a_new_worker_takes_part_from_when_it_is_ready() -> None:
    made = router(2)
    made.add_worker(3, [None])
    assert {made.place(request(number))[0] for number in range(4)} == {0, 1}
    made.worker_ready(3, 10)
    assert [made.place(request(number))[0] for number in range(4, 7)] == [3, 3, 0]


def test_a_removed_worker_is_forgotten() -> None:
    made = router(2)
    gone = request(0)
    assert made.place(gone) == (0, 0)
    made.worker_draining(0, 5)
    made.request_terminal(gone, 6)
    made.worker_removed(0, 6)
    assert made.place(request(1)) == (1, 0)
    made.request_terminal(gone, 7)  # nothing is left of it
    assert made._requests == [0, 1]


def test_ranks_are_targets_of_their_own() -> None:
    made = router(2, ranks=2)
    placed = [made.place(request(number)) for number in range(5)]
    assert placed == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 0)]


def test_a_settled_topology_lets_in_who_waits() -> None:
    made = router(1, queue_threshold=0.5)
    assert [made.offer(request(number)) for number in range(3)] == [True, False, False]
    made.add_worker(1, [None])
    made.worker_ready(1, 30)
    let_in: list[Sequence] = []
    made.on_settled = lambda: let_in.extend(made.release())
    made.topology_settled(30)
    assert [waiting.ordinal for waiting in let_in] == [1]
    assert made.place(let_in[0]) == (1, 0)


def test_a_draining_worker_does_not_hold_the_queue_back() -> None:
    """Only workers that take requests count as room."""
    made = router(2, queue_threshold=0.5)
    assert [made.offer(request(number)) for number in range(3)] == [True, True, False]
    made.worker_draining(0, 5)
    idle = request(0)
    made.request_terminal(idle, 6)
    assert made.release() == []


def test_workers_may_get_ready_in_another_order() -> None:
    made = router(1)
    for worker in (1, 2):
        made.add_worker(worker, [None, None])
    made.worker_ready(2, 0)
    made.worker_ready(1, 5)
    placed = [made.place(request(number)) for number in range(5)]
    assert placed == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)]
