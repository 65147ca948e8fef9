"""Our own models on series that nobody tuned them on: what they must learn, and never do worse than."""

import json
import math
import random
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.forecast import OWN_PRESETS, TrafficForecaster, Window, make_forecaster
from aisimulate.forecast.make import series_forecaster
from aisimulate.forecast.models import ExponentialSmoothing, LastValue, RunningMean, WindowMean
from aisimulate.forecast.pool import Pool
from aisimulate.forecast.restraint import Restraint
from aisimulate.forecast.ridge import RidgeAutoregression
from aisimulate.spica.load_predictor_sweep import score_preset

DATA = Path(__file__).parents[1] / "data" / "forecast" / "held_out.json"
HELD_OUT = json.loads(DATA.read_text())["series"]


def fed(model, points):
    for point in points:
        model.observe(point)
    return model


def poisson(rng, mean):
    """Count what arrives in a window; the normal approximation does above a few requests."""
    if mean > 50:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    count, left = 0, rng.expovariate(1)
    while left < mean:
        count, left = count + 1, left + rng.expovariate(1)
    return count


def series_of(rate, seed, windows=120):
    rng = random.Random(seed)
    walk = [0.0]
    for _ in range(windows):
        walk.append(walk[-1] + rng.gauss(0, 0.15))
    counts = [poisson(rng, rate(index, walk[index])) for index in range(windows)]
    return [
        Window(count, 3000 * rng.uniform(0.8, 1.2), 200 * rng.uniform(0.8, 1.2)) if count else Window(0, 0, 0)
        for count in counts
    ]


RATES = {
    "flat": lambda index, walk: 150,
    "ramp": lambda index, walk: 20 + 3 * index,
    "steps": lambda index, walk: 300 if index // 30 % 2 else 80,
    "sine": lambda index, walk: 200 + 150 * math.sin(2 * math.pi * index / 17.3),
    "slow sine": lambda index, walk: 200 + 150 * math.sin(2 * math.pi * index / 61),
    "walk": lambda index, walk: 100 * math.exp(walk),
    "bursts": lambda index, walk: 400 if index % 15 < 4 else 0,
    "sparse": lambda index, walk: 0.6,
    "stop": lambda index, walk: 150 if index < 8 else 0,
    "jump": lambda index, walk: 50 if index < 9 else 500,
    "drop": lambda index, walk: 500 if index < 30 else 20,
}
LOSS = {preset: partial(score_preset, preset, warmup=5) for preset in ("pool_log1p", "constant_last")}


@pytest.mark.parametrize("windows", [7, 9, 12, 20, 120])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RATES)
def test_the_pool_is_never_much_worse_than_the_last_value(name, seed, windows):
    series = series_of(RATES[name], seed, windows)
    pool, last = (loss(series).loss for loss in LOSS.values())
    assert pool <= 1.1 * last


TOKENS = st.one_of(st.floats(0, 1e6), st.floats(0, 1e100))
COUNTS = st.one_of(st.just(0), st.integers(1, 500), st.integers(1, 10**9))


@given(st.lists(st.builds(Window, COUNTS, TOKENS, TOKENS), min_size=6, max_size=40))
def test_nothing_makes_the_pool_much_worse_than_the_last_value(windows):
    pool, last = (loss([Window(1, 1, 1), *windows]).loss for loss in LOSS.values())
    assert pool <= 1.1 * last + 1e-9


@given(st.lists(st.one_of(st.floats(), st.floats(0, 100)), min_size=6, max_size=40))
def test_nor_does_anything_in_a_series_of_its_own(values):
    losses = []
    for preset in LOSS:
        forecaster, loss = make_forecaster(preset), 0.0
        for value in (1.0, *values):
            actual = value if 0 <= value < math.inf else 0.0
            loss += abs(math.log1p(forecaster.predict()) - math.log1p(actual))
            forecaster.observe(value)
        losses.append(loss)
    assert losses[0] <= 1.1 * losses[1] + 1e-9


@pytest.mark.parametrize("name", HELD_OUT)
def test_the_pool_holds_on_other_traces(name):
    windows = [Window(*row) for row in HELD_OUT[name]]
    pool, last = (loss(windows).loss for loss in LOSS.values())
    few = len(windows) <= 20  # of which five only warm up
    assert pool <= (1.1 if few else 1.01) * last


def test_the_pool_stays_with_the_last_value_until_it_knows_a_little():
    windows = series_of(RATES["sine"], seed=1, windows=6)
    pool, last = (TrafficForecaster(preset, interval_s=60) for preset in LOSS)
    for window in windows:
        assert pool.predict() == last.predict()
        pool.observe(window)
        last.observe(window)
    assert pool.predict() != last.predict()


@pytest.mark.parametrize("name", ["flat", "sine"])
def test_the_pool_is_better_where_there_is_something_to_learn(name):
    windows = series_of(RATES[name], seed=7)
    pool, last = (loss(windows).loss for loss in LOSS.values())
    assert pool < 0.85 * last


def distance(one, other):
    return sum(abs(math.log1p(a) - math.log1p(b)) for a, b in zip(one, other, strict=True))


def test_nothing_is_ventured_before_anything_is_earned():
    assert Restraint(distance).restrain((9.0,), (99.0,), (99.0,)) == (9.0,)


def test_a_forecast_goes_as_far_as_was_earned():
    restraint = Restraint(distance)
    restraint.settle((9.0,), (99.0,), (99.0,))
    # The last value was wrong by log(10), and a share of that may be lost.
    moved = restraint.restrain((9.0,), (99.0,), (99.0,))
    assert distance(moved, (9.0,)) == pytest.approx(0.09 * math.log(10), rel=0.01)
    restraint.settle((9.0,), (99.0,), (99.0,))
    assert distance(restraint.restrain((9.0,), (99.0,), (99.0,)), (9.0,)) > 2 * distance(moved, (9.0,))
    for _ in range(5):
        restraint.settle((9.0,), (99.0,), (99.0,))
    assert restraint.restrain((9.0,), (99.0,), (50.0,)) == (50.0,), "free in the end, and further ahead"


def test_smoothing():
    model = fed(ExponentialSmoothing(0.25), [8, 16, 0])
    assert model.predict(1) == model.predict(7) == 10 - 0.25 * 10


def test_the_running_mean():
    assert fed(RunningMean(), [1, 2, 6]).predict(1) == 3


def test_the_mean_of_a_window():
    assert fed(WindowMean(2), [1, 2, 6]).predict(1) == 4


def test_ridge_learns_a_period_and_looks_ahead():
    period = [10, 40, 20, 5, 25]
    model = fed(RidgeAutoregression(8), period * 40)
    for steps in (1, 2, 3, 4, 5, 6):
        assert model.predict(steps) == pytest.approx(period[(steps - 1) % 5], rel=0.1)


def test_ridge_has_fewer_lags_while_it_knows_little():
    model = fed(RidgeAutoregression(8), [3.0, 5.0])
    assert model.predict(1) == 5.0, "two points have no past to regress on"
    assert 3.0 <= fed(model, [4.0, 3.5]).predict(1) <= 5.0


def test_ridge_stays_near_what_it_saw():
    model = fed(RidgeAutoregression(2), [2.0**power for power in range(10)])
    assert model.predict(50) <= 512 + 0.25 * 511


def test_ridge_forgets():
    model = fed(RidgeAutoregression(2), [1000.0] * 300 + [3.0, 4.0] * 128)
    assert 2.5 <= model.predict(1) <= 4.5


def test_the_pool_follows_the_member_that_is_right():
    class Off(LastValue):
        def predict(self, steps):
            return super().predict(steps) + 5

    points = [10.0] * 30
    pool = fed(Pool([(1.0, LastValue()), (1.0, Off())]), points)
    assert pool.predict(1) == pytest.approx(10.0, abs=1e-3)
    assert fed(Pool([(1.0, LastValue()), (1.0, Off())]), points[:1]).predict(1) == 12.5, "nothing known yet"


def test_the_pool_changes_its_mind():
    slow_then_fast = [10.0, 12.0] * 40 + [100.0 + 50 * (index // 8) for index in range(80)]
    pool = fed(Pool([(1.0, LastValue()), (1.0, RunningMean())]), slow_then_fast)
    assert pool.predict(1) == pytest.approx(slow_then_fast[-1], rel=0.02)


def test_the_pool_averages_geometrically_in_log_space():
    free = series_forecaster("pool_log1p")
    for value in (100, 200) * 3:
        free.observe(value)
    assert 100 < free.predict() < 150, "the arithmetic mean"


@pytest.mark.parametrize("preset", OWN_PRESETS)
def test_less_than_half_a_request_is_none(preset):
    forecaster = make_forecaster(preset)
    for value in (1, *[0] * 30):
        forecaster.observe(value)
    assert forecaster.predict() == 0
