"""Our own models on series that nobody tuned them on: what they must learn, and never do worse than."""

import json
import math
import random
from pathlib import Path

import pytest

from aisimulate.forecast import OWN_PRESETS, Window, make_forecaster
from aisimulate.forecast.models import ExponentialSmoothing, LastValue, RunningMean
from aisimulate.forecast.pool import Pool
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
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RATES)
def test_the_pool_is_never_much_worse_than_the_last_value(name, seed):
    windows = series_of(RATES[name], seed)
    pool, last = (score_preset(entry, windows, warmup=5).loss for entry in ("pool_log1p", "constant_last"))
    assert pool <= 1.1 * last


@pytest.mark.parametrize("name", HELD_OUT)
def test_the_pool_holds_on_other_traces(name):
    windows = [Window(*row) for row in HELD_OUT[name]]
    pool, last = (score_preset(entry, windows, warmup=5).loss for entry in ("pool_log1p", "constant_last"))
    few = len(windows) < 20  # of which five only warm up
    assert pool <= (1.1 if few else 1.01) * last


@pytest.mark.parametrize("name", ["flat", "sine"])
def test_the_pool_is_better_where_there_is_something_to_learn(name):
    windows = series_of(RATES[name], seed=7)
    pool, last = (score_preset(entry, windows, warmup=5).loss for entry in ("pool_log1p", "constant_last"))
    assert pool < 0.85 * last


def test_smoothing():
    model = fed(ExponentialSmoothing(0.25), [8, 16, 0])
    assert model.predict(1) == model.predict(7) == 10 - 0.25 * 10


def test_the_running_mean():
    assert fed(RunningMean(), [1, 2, 6]).predict(1) == 3


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
    forecaster = make_forecaster("pool_log1p")
    for value in (100, 200):
        forecaster.observe(value)
    # The last value says 200, a half step of smoothing the geometric mean.
    assert 140 < forecaster.predict() < 200


@pytest.mark.parametrize("preset", OWN_PRESETS)
def test_less_than_half_a_request_is_none(preset):
    forecaster = make_forecaster(preset)
    for value in (1, *[0] * 30):
        forecaster.observe(value)
    assert forecaster.predict() == 0
