"""Forecasts and losses of the reference's families, and our own default beside them (spec 03 C3-C5, F.5)."""

import pytest
from reference import SERIES, forecasts_of, loss_of, windows_of

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
    assert max(losses[series] / best[series] for series in SERIES) <= 1.1
