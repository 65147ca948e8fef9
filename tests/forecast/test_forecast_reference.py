"""Forecasts and losses of the reference's families, and our own default beside them (spec 03 C3-C5, F.5)."""

import pytest
from reference import SERIES, WARMUP, forecasts_of, loss_of, windows_of

from aisimulate.forecast import DEFAULT_PRESET

KALMAN = [(series, preset) for series in SERIES for preset in SERIES[series]["predictions"]]


@pytest.mark.parametrize(("series", "preset"), KALMAN)
def test_kalman_forecasts(series, preset):
    for forecast, expected in zip(
        forecasts_of(preset, series), SERIES[series]["predictions"][preset], strict=True
    ):
        assert forecast == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("series", SERIES)
def test_constant_forecasts(series):
    assert forecasts_of("constant_last", series)[0] == (0, 0, 0)
    assert forecasts_of("constant_last", series)[1:] == windows_of(series)[:-1]


@pytest.mark.parametrize("series", SERIES)
def test_losses(series):
    # The stored forecasts have nine digits, and so have the losses made of them.
    for preset, expected in SERIES[series]["losses"].items():
        if preset.startswith(("constant", "kalman")):
            assert loss_of(preset, series) == pytest.approx(expected, rel=1e-6)


def test_the_default_is_hard_to_beat():
    losses = {series: loss_of(DEFAULT_PRESET, series) for series in SERIES}
    best = {series: min(SERIES[series]["losses"].values()) for series in SERIES}
    assert sum(losses[series] <= best[series] for series in SERIES) >= 5
    # A loss over fewer windows than that says nothing; the last value's bounds it all the same.
    counted = [series for series in SERIES if len(windows_of(series)) - WARMUP >= 8]
    assert len(counted) == 6
    assert max(losses[series] / best[series] for series in counted) <= 1.1
    assert all(losses[series] <= 1.1 * loss_of("constant_last", series) for series in SERIES)
