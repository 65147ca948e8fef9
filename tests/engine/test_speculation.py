"""How many tokens a forward yields: exact for rates of 0 and 1, else right on average, and reproducible."""

from itertools import islice, pairwise

import pytest

from aisimulate.engine.speculation import Acceptance


def bursts(acceptance, request=0, number=20):
    return list(islice(acceptance.stream(request), number))


@pytest.mark.parametrize(
    ("nextn", "rates", "tokens"),
    [(2, (0.0, 1.0), 1), (2, (1.0, 1.0), 3), (3, (1.0, 0.0, 1.0), 2), (5, (1.0,), 2), (1, (1.0, 1.0), 2)],
)
def test_certain_rates_leave_nothing_to_chance(nextn, rates, tokens):
    acceptance = Acceptance(nextn, rates, 42)

    assert set(bursts(acceptance)) == {tokens}
    assert acceptance.expected_tokens == tokens
    assert acceptance.most_tokens == nextn + 1


def test_the_mean_is_that_of_conditional_rates():
    rates = (0.7, 0.5, 0.2)
    acceptance = Acceptance(3, rates, 42)
    number = 200_000
    mean = sum(bursts(acceptance, number=number)) / number

    assert acceptance.expected_tokens == pytest.approx(1 + 0.7 + 0.7 * 0.5 + 0.7 * 0.5 * 0.2)
    assert mean == pytest.approx(acceptance.expected_tokens, abs=0.01)


def test_shares_of_each_length():
    number = 100_000
    drawn = bursts(Acceptance(2, (0.8, 0.6), 1), number=number)

    assert [drawn.count(n) / number for n in (1, 2, 3)] == pytest.approx([0.2, 0.32, 0.48], abs=0.01)


def test_streams_belong_to_seed_and_request():
    rates = (0.8, 0.6, 0.4)
    first = bursts(Acceptance(3, rates, 42))

    assert bursts(Acceptance(3, rates, 42)) == first
    assert bursts(Acceptance(3, rates, 43)) != first
    assert bursts(Acceptance(3, rates, 42), request=1) != first
    assert bursts(Acceptance(3, rates, 2**64 + 42)) == first


@pytest.mark.parametrize("rates", [(0.8, 0.6), (1.0, 1.0), (0.0,), (1.0, 0.5)])
@pytest.mark.parametrize("tokens", [0, 1, 2, 3, 50, 1000])
def test_lengths_drawn_ahead_are_those_of_the_stream(rates, tokens):
    acceptance = Acceptance(2, rates, 7)
    lengths = acceptance.lengths(5, 100, 100 + tokens)

    assert (lengths[0], lengths[-1]) == (100, 100 + tokens)
    gains = [after - before for before, after in pairwise(lengths)]
    drawn = bursts(acceptance, request=5, number=len(gains))
    assert gains[:-1] == drawn[:-1]
    assert not gains or 1 <= gains[-1] <= drawn[-1]
