"""Round robin over workers and ranks (spec 02 section 6)."""

from aisimulate.core.traffic import Session, Turn
from aisimulate.engine.sequence import Origin, Sequence
from aisimulate.router.round_robin import RoundRobin


def request(dp_rank=None):
    turn = Turn(8, 2, dp_rank=dp_rank)
    return Sequence(0, Origin(turn, Session("a", [turn], 0.0), 0, 0.0), 0, 8, 2, None)


def test_workers_take_turns_by_id():
    router = RoundRobin([7, 2, 5], 1)
    assert [router.place(request()) for _ in range(5)] == [(2, 0), (5, 0), (7, 0), (2, 0), (5, 0)]


def test_ranks_of_one_worker_take_turns():
    """c20: one worker of two ranks serves 0, 1, 0."""
    router = RoundRobin([0], 2)
    assert [router.place(request())[1] for _ in range(3)] == [0, 1, 0]


def test_every_worker_rotates_its_own_ranks():
    router = RoundRobin([0, 1], 2)
    placed = [router.place(request()) for _ in range(6)]
    assert placed == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 0), (1, 0)]


def test_an_authored_rank_narrows_the_choice_and_leaves_the_rotation():
    router = RoundRobin([0, 1], 3)
    placed = [router.place(request(rank)) for rank in (None, 2, 2, 0, None, None)]
    assert placed == [(0, 0), (1, 2), (0, 2), (1, 0), (0, 1), (1, 0)]
