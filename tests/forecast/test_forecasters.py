"""What holds for a forecaster of any family: no NaN, nothing below zero, idle windows, steps, errors."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.forecast import (
    DEFAULT_PRESET,
    OWN_PRESETS,
    PRESETS,
    REFERENCE_PRESETS,
    TrafficForecaster,
    Window,
    make_forecaster,
    minimum_points,
    predictor_fields,
)
from aisimulate.forecast.forecaster import SeriesForecaster
from aisimulate.forecast.make import check_family
from aisimulate.forecast.models import LastValue, LocalLinearTrend

LIGHT = [name for name in PRESETS if not name.startswith(("arima", "prophet"))]
LINEAR = [f"kalman_{kind}_raw" for kind in ("default", "reactive")]


@pytest.mark.parametrize("preset", LIGHT)
@given(
    values=st.lists(st.one_of(st.floats(), st.floats(0, 1e6), st.just(0.0)), max_size=40),
    steps=st.integers(1, 30),
)
def test_a_forecast_is_a_finite_number_of_requests(preset, values, steps):
    forecaster = make_forecaster(preset)
    for value in values:
        assert 0 <= forecaster.predict(steps) < math.inf
        forecaster.observe(value)
    assert 0 <= forecaster.predict(steps) < math.inf


@pytest.mark.parametrize("preset", LIGHT)
def test_looking_changes_nothing(preset):
    quiet, nosy = make_forecaster(preset), make_forecaster(preset)
    for value in (3, 8, 5, 13, 2, 21, 8, 9):
        nosy.predict(3)
        quiet.observe(value)
        nosy.observe(value)
        nosy.predict(1)
    assert nosy.predict() == quiet.predict()


@pytest.mark.parametrize("preset", LIGHT)
def test_equal_points_are_repeated(preset):
    forecaster = make_forecaster(preset)
    for _ in range(12):
        forecaster.observe(40)
    assert [forecaster.predict(steps) for steps in (1, 5)] == pytest.approx([40, 40])


@pytest.mark.parametrize("preset", LIGHT)
def test_forecasts_start_at_zero_and_ignore_idle_windows_before_traffic(preset):
    early, late = make_forecaster(preset), make_forecaster(preset)
    assert early.predict() == 0
    late.observe(0)
    late.observe(math.nan)
    for value in (0.0, 10.0, 20.0, 0.0, 40.0, 45.0, 50.0):
        early.observe(value)
        late.observe(value)
    assert late.predict() == early.predict() > 0


def test_the_last_value_is_repeated_until_there_are_enough_points():
    forecaster = make_forecaster("kalman_default_raw")
    for value in (0.0, 10.0, 20.0, 30.0, 40.0):
        forecaster.observe(value)
    assert forecaster.predict() == 40.0, "the leading zero is no point, so these are four of five"
    forecaster.observe(50.0)
    assert forecaster.predict() > 50.0


def test_a_falling_trend_ends_at_zero_and_nan_is_zero():
    forecaster = make_forecaster({"load_predictor": "kalman", "kalman_min_points": 1})
    for value in (100.0, 50.0, math.nan, 0.0):
        forecaster.observe(value)
    assert forecaster.predict() == 0.0


def test_a_trend_is_followed():
    model = LocalLinearTrend(1.0, 0.1, 10.0)
    for value in range(60):
        model.observe(float(value))
    assert model.predict(1) == pytest.approx(60, abs=0.05)


@pytest.mark.parametrize("preset", LINEAR)
def test_a_trend_is_drawn_out_over_several_steps(preset):
    forecaster = make_forecaster(preset)
    for value in range(100, 160):
        forecaster.observe(float(value))
    steps = [forecaster.predict(steps) for steps in (1, 2, 3, 11)]
    assert [later - steps[0] for later in steps] == pytest.approx([0, 1, 2, 10], rel=0.05)


def test_no_forecast_of_what_is_known():
    with pytest.raises(ValueError, match="at least 1 step ahead, got 0"):
        make_forecaster("constant_last").predict(0)


@pytest.mark.parametrize("said", [math.nan, math.inf, RuntimeError("no convergence")])
def test_a_failing_model_is_counted_and_replaced_by_the_last_value(said):
    class Failing(LastValue):
        def predict(self, steps):
            if isinstance(said, Exception):
                raise said
            return said

    forecaster = SeriesForecaster(Failing(), 1, log1p=False)
    forecaster.observe(7)
    assert (forecaster.predict(), forecaster.failures) == (7, 1)


def test_an_idle_window_keeps_the_last_lengths():
    forecaster = TrafficForecaster("constant_last", interval_s=60)
    assert forecaster.predict() == Window(0, 0, 0)
    for window in (Window(0, 0, 0), Window(4, 100, 20), Window(0, 0, 0)):
        forecaster.observe(window)
    assert forecaster.predict() == Window(0, 100, 20)


def test_the_presets():
    assert len(REFERENCE_PRESETS) == 11
    assert DEFAULT_PRESET in OWN_PRESETS
    assert set(PRESETS) == {*REFERENCE_PRESETS, *OWN_PRESETS}
    warmups = {name: minimum_points(predictor_fields(name)) for name in PRESETS}
    assert {name: points for name, points in warmups.items() if points != 1} == {
        **dict.fromkeys([name for name in PRESETS if name.startswith(("arima", "prophet", "pool"))], 5),
        **{f"kalman_default_{space}": 5 for space in ("raw", "log1p")},
        **{f"kalman_reactive_{space}": 3 for space in ("raw", "log1p")},
    }


@pytest.mark.parametrize(
    ("entry", "other"),
    [
        ({"smoothing_alpha": 0.1}, {"smoothing_alpha": 0.9}),
        ({"smoothing_alpha": 0.1}, {"smoothing_alpha": 0.1, "load_predictor_log1p": True}),
        ({"load_predictor": "ridge", "ridge_lags": 2}, {"load_predictor": "ridge", "ridge_lags": 6}),
        ({"load_predictor": "pool"}, {"load_predictor": "pool", "load_predictor_log1p": True}),
    ],
)
def test_an_option_acts(entry, other):
    values = [5, 90, 20, 60, 30, 7, 80, 22, 61, 33, 9, 85, 19, 57]
    forecasts = []
    for options in (entry, other):
        forecaster = make_forecaster({"load_predictor": "smoothing", **options})
        for value in values:
            forecaster.observe(value)
        forecasts.append(forecaster.predict())
    assert forecasts[0] != pytest.approx(forecasts[1], rel=1e-3)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("poool_log1p", "did you mean 'pool_log1p'"),
        ("arima", "unknown load predictor 'arima'"),
        ({"load_predictor": "lstm"}, "must be one of"),
        ({}, "must be one of"),
    ],
)
def test_unknown_forecasters(entry, told):
    with pytest.raises(ValueError, match=told):
        make_forecaster(entry)


def test_forecasters_repeat_exactly():
    runs = []
    for _ in range(2):
        forecaster = make_forecaster(DEFAULT_PRESET)
        forecasts = []
        for value in itertools.islice(itertools.cycle([3, 50, 12, 7, 30]), 60):
            forecasts.append(forecaster.predict(2))
            forecaster.observe(value)
        runs.append(forecasts)
    assert runs[0] == runs[1]


def test_the_past_is_learnt_and_idle_windows_after_it_say_nothing():
    forecaster = TrafficForecaster("constant_last", interval_s=60)
    forecaster.warm([Window(0, 0, 0), Window(4, 100, 20), Window(0, 0, 0), Window(6, 200, 10)])
    forecaster.observe(Window(0, 0, 0))
    assert forecaster.predict() == Window(6, 200, 10), "nobody has come yet"
    forecaster.observe(Window(1, 50, 5))
    forecaster.observe(Window(0, 0, 0))
    assert forecaster.predict() == Window(0, 50, 5)


def test_a_preset_in_place_of_a_family_is_written_out():
    written = "names a preset: write load_predictor: 'ridge', load_predictor_log1p: true, ridge_lags: 8"
    with pytest.raises(ValueError, match=written):
        check_family("ridge_ar8_log1p")
