"""Who gets a request at given costs (spec 03 section A5)."""

from __future__ import annotations

from math import exp, sqrt

import pytest

from aisimulate.core.rng import ChaChaRng
from aisimulate.router.choice import LowestCost, RandomTie, Softmax

DRAWS = 4000


def softmax(temperature: float, costs: list[float], seed: int = 7) -> list[int]:
    choice = Softmax(temperature, ChaChaRng(seed))
    return [choice.pick(costs, range(len(costs)), [0.0] * len(costs)) for _ in range(DRAWS)]


@pytest.mark.parametrize("gap", [0.125, 3.0, 1e6])
@pytest.mark.parametrize("temperature", [0.2, 0.5, 1.0, 2.0])
def test_two_targets_are_drawn_by_temperature_alone(temperature: float, gap: float) -> None:
    """Costs count by their range, so how far apart two of them are says nothing."""
    share = softmax(temperature, [5.0 + gap, 5.0]).count(1) / DRAWS
    best = 1 / (1 + exp(-1 / temperature))
    assert abs(share - best) < 3 * sqrt(best * (1 - best) / DRAWS)


def test_several_targets_are_drawn_by_their_place_in_the_range() -> None:
    picked = softmax(1.0, [0.0, 5.0, 10.0])
    weights = [1.0, exp(-0.5), exp(-1.0)]
    for index, weight in enumerate(weights):
        expected = weight / sum(weights)
        assert abs(picked.count(index) / DRAWS - expected) < 3 * sqrt(expected / DRAWS)


def test_equal_costs_are_drawn_alike() -> None:
    picked = softmax(0.2, [4.0] * 4)
    assert all(abs(picked.count(index) / DRAWS - 0.25) < 3 * sqrt(0.25 / DRAWS) for index in range(4))


def test_the_lowest_cost_wins() -> None:
    assert LowestCost().pick([3.0, 1.0, 2.0], [4, 5, 6], [0.0] * 7) == 1


def test_ties_go_to_the_fewest_active_blocks_then_to_the_first() -> None:
    blocks = [9.0, 4.0, 7.0, 4.0]
    assert LowestCost().pick([1.0, 1.0, 2.0, 1.0], [0, 1, 2, 3], blocks) == 1
    # Active blocks are those of the targets, wherever they are in the list.
    assert LowestCost().pick([1.0, 1.0], [0, 2], blocks) == 1


def test_random_ties_are_drawn_from_the_equal_ones_only() -> None:
    choice = RandomTie(ChaChaRng(3))
    picked = [choice.pick([1.0, 2.0, 1.0], [0, 1, 2], [0.0, 0.0, 9.0]) for _ in range(DRAWS)]
    assert set(picked) == {0, 2}
    assert abs(picked.count(0) / DRAWS - 0.5) < 3 * sqrt(0.25 / DRAWS)


def test_equal_seeds_draw_alike() -> None:
    assert softmax(0.5, [1.0, 2.0, 4.0], seed=1) == softmax(0.5, [1.0, 2.0, 4.0], seed=1)
    assert softmax(0.5, [1.0, 2.0, 4.0], seed=1) != softmax(0.5, [1.0, 2.0, 4.0], seed=2)


def test_a_tiny_temperature_is_greedy() -> None:
    assert set(softmax(5e-324, [1.0, 0.0, 0.5])) == {1}
