"""The random stream is fixed bit for bit (spec 02 section 3)."""

import math

import pytest

from aisimulate.core.rng import ChaChaRng, _expand_seed, _words


def poisson_starts_ms(seed, rate, number):
    rng = ChaChaRng(seed)
    starts = [0.0]
    for _ in range(number - 1):
        starts.append(starts[-1] - 1000.0 / rate * math.log(1.0 - rng.f64()))
    return starts


@pytest.mark.parametrize(
    ("seed", "starts"),
    [
        (
            42,
            [
                0.0,
                74.77246176406965,
                153.01953951913882,
                254.207536844964,
                306.2785951560703,
                309.7732343327897,
            ],
        ),
        (
            7,
            [
                0.0,
                3.0786437168091014,
                39.76362317455055,
                55.153612583970286,
                133.35520869913557,
                165.16896241890325,
            ],
        ),
    ],
)
def test_exponential_gaps_are_the_published_ones(seed, starts):
    assert poisson_starts_ms(seed, 10.0, 6) == starts


def test_bounded_draws_are_the_published_ones():
    rng = ChaChaRng(0)
    assert [rng.below(3) for _ in range(12)] == [2, 2, 1, 2, 2, 0, 2, 1, 2, 0, 0, 2]


def test_u64_takes_its_low_half_first_also_across_a_refill():
    words, wide = ChaChaRng(5), ChaChaRng(5)
    words.u32(), wide.u32()  # an odd start puts one draw across the border of every refill
    for _ in range(500):
        low = words.u32()
        assert wide.u64() == low | words.u32() << 32


def test_the_stream_depends_on_all_64_seed_bits_and_does_not_repeat():
    first = {ChaChaRng(seed).u64() for seed in (0, 1, 2**32, 2**63, 2**64 - 1)}
    assert len(first) == 5
    rng = ChaChaRng(9)
    assert len({rng.u64() for _ in range(5_000)}) == 5_000


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, 2**31 + 1, 2**32 - 1])
def test_bounded_draws_stay_below_the_bound_and_spread(bound):
    rng = ChaChaRng(11)
    draws = [rng.below(bound) for _ in range(2_000)]
    assert min(draws) >= 0
    assert max(draws) < bound
    assert abs(sum(draws) / len(draws) - (bound - 1) / 2) <= bound * 0.03


def test_floats_are_in_the_half_open_unit_interval():
    rng = ChaChaRng(3)
    draws = [rng.f64() for _ in range(2_000)]
    assert all(0.0 <= draw < 1.0 for draw in draws)
    assert abs(sum(draws) / len(draws) - 0.5) < 0.03


def test_large_bounds_take_a_second_word_to_correct_the_bias():
    rng = ChaChaRng(1)
    draws = [rng.below(4_000_000_000) for _ in range(200)]
    assert draws[:3] == [3299810500, 3188318560, 785692656]
    assert sum(draws) == 396351697883


def test_the_block_counter_has_64_bits():
    key = _expand_seed(42)
    assert _words(key, 16)[:2] == [2028344471, 401438797]
    assert _words(key, 2**32 + 16)[:2] == [3541176762, 815896477]
