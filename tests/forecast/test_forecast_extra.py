"""ARIMA and Prophet: as the reference where their libraries are installed, and told where they are not."""

import importlib
import logging
import math
import warnings
from importlib.util import find_spec

import pytest
from reference import SERIES, loss_of

from aisimulate.core.errors import UnsupportedError
from aisimulate.forecast import make_forecaster
from aisimulate.forecast.extra import quiet

ARIMA = find_spec("pmdarima") is not None
PROPHET = find_spec("prophet") is not None
NEEDS = r"'{}' needs the optional extra 'forecast' \(pip install 'aisimulate\[forecast\]'\): "


def check(installed, preset, test):
    """Run `test`, or without the library see that this is told (`make extra` installs it)."""
    if installed:
        test()
        return
    with pytest.raises(UnsupportedError, match=NEEDS.format(preset.partition("_")[0])):
        make_forecaster(preset)


def fed(preset, values):
    forecaster = make_forecaster(preset)
    for value in values:
        forecaster.observe(value)
    return forecaster


@pytest.mark.parametrize("preset", ["arima_raw", "prophet_w20_raw"])
def test_a_missing_library_is_told(preset, monkeypatch):
    def missing(module):
        raise ModuleNotFoundError(f"No module named {module!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UnsupportedError, match=NEEDS.format(preset.partition("_")[0]) + "No module named"):
        make_forecaster(preset)


@pytest.mark.parametrize("preset", ["arima_raw", "arima_log1p"])
@pytest.mark.parametrize("series", ["sine@180", "sine@600"])
def test_arima_losses(series, preset):
    def losses():
        # The order and the digits depend on the versions of pmdarima and scipy.
        assert loss_of(preset, series) == pytest.approx(SERIES[series]["losses"][preset], rel=0.05)

    check(ARIMA, preset, losses)


@pytest.mark.parametrize("preset", ["arima_raw", "arima_log1p"])
def test_arima_speaks_after_five_points_and_repeats_equal_ones(preset):
    def speaks():
        assert fed(preset, [10, 30, 20, 40]).predict() == 40
        assert fed(preset, [30] * 8).predict() == 30
        forecaster = fed(preset, [30] * 8 + [10, 50, 20])
        assert 10 < forecaster.predict() < 50
        assert all(0 <= forecaster.predict(steps) < math.inf for steps in (1, 2, 9))
        assert forecaster.failures == 0

    check(ARIMA, preset, speaks)


@pytest.mark.parametrize("preset", ["prophet_w20_raw", "prophet_w50_log1p"])
def test_prophet_losses(preset):
    def losses():
        assert loss_of(preset, "sine@600") == pytest.approx(SERIES["sine@600"]["losses"][preset], rel=0.05)

    check(PROPHET, preset, losses)


def test_prophet_has_a_window_and_looks_ahead():
    def looks():
        rising = fed("prophet_w20_raw", [900] * 30 + list(range(100, 300, 10)))
        assert rising.predict() == pytest.approx(300, rel=0.05), "the 900s are out of the window"
        assert rising.predict(4) == pytest.approx(330, rel=0.05)
        assert fed("prophet_w20_raw", range(100, 0, -10)).predict(5) == 0

    check(PROPHET, "prophet_w20_raw", looks)


def test_what_was_loud_before_is_loud_afterwards(caplog):
    with quiet(), warnings.catch_warnings(record=True) as caught:
        logging.getLogger("cmdstanpy").error("chain started")
        warnings.warn("no convergence", stacklevel=1)
    assert (caplog.records, caught) == ([], [])
    logging.getLogger("cmdstanpy").error("heard")
    assert [record.message for record in caplog.records] == ["heard"]
