"""The doorway to the SDK keeps its log out of the terminal."""

import logging

import pytest
import yaml

from aisimulate.core.errors import TimingError
from aisimulate.timing.aic.sdk import sdk_advisories, sdk_call

NOISE = logging.getLogger("aiconfigurator_core.sdk.noise")


def test_a_nested_call_does_not_let_the_log_out(capsys):
    """A model in a folder is read inside another call; all of the outer one's log must stay in."""
    with sdk_call("outer"):
        with sdk_call("inner"):
            NOISE.warning("from inside")
        NOISE.warning("from /x/aiconfigurator_core/systems/data after the inner call")
    assert capsys.readouterr().err == ""
    assert {"from inside", "from data after the inner call"} <= set(sdk_advisories())


def test_an_error_inside_closes_the_doorway_too(capsys):
    with pytest.raises(TimingError, match=r"^inner: no$"), sdk_call("outer"), sdk_call("inner"):
        raise RuntimeError("no")
    logger = logging.getLogger("aiconfigurator_core")
    assert (logger.handlers, logger.propagate) == ([], True)


def test_yaml_is_parsed_by_libyaml_inside_only(monkeypatch):
    theirs, text = yaml.SafeLoader, "a: {b: [1, 2.5, yes, null, 2026-11-30], c: 'x'}"
    whole = yaml.safe_load(text)
    with sdk_call("outer"), sdk_call("inner"):
        assert yaml.SafeLoader is yaml.CSafeLoader
        assert yaml.safe_load(text) == whole
    with pytest.raises(TimingError), sdk_call("outer"):
        raise RuntimeError("no")
    assert yaml.SafeLoader is theirs
    monkeypatch.delattr(yaml, "CSafeLoader")
    with sdk_call("without it"):
        assert yaml.SafeLoader is theirs
