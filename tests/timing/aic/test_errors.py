from __future__ import annotations

import logging
from pathlib import Path

import pytest

from aisimulate.core.errors import InputError, TimingError
from aisimulate.timing.aic import errors
from aisimulate.timing.aic.errors import clean, translate
from aisimulate.timing.aic.key import EngineKey
from aisimulate.timing.aic.sdk import sdk_advisories, sdk_call

NAMED = {
    "PerfDataNotAvailableError": errors.AicDataGap,
    "EmpiricalNotImplementedError": errors.AicDataGap,
    "MissingSystemFlopsError": errors.AicUnsupportedDtype,
}
TEXTS = {
    "no KV budget: non-KV memory (1 bytes) meets/exceeds": errors.NoKvBudget,
    "wrapped: Invalid quantized MoE configuration: (1536 / 8)": errors.ShapeNotViable,
    "ep size cannot be larger than num_experts 8": errors.ShapeNotViable,
    "num_heads 64 should be divisible by tp_size 3": errors.ShapeNotViable,
    "Parallelism width mismatch: tp*attention_dp*cp = 8": InputError,
    "vllm/'0.1' looks like an old-style raw version query; h": errors.UnknownBackendVersion,
    "something nobody foresaw": TimingError,
}


@pytest.mark.parametrize(("name", "kind"), NAMED.items())
def test_by_class_even_when_wrapped(name: str, kind: type[Exception]) -> None:
    inner = type(name, (RuntimeError,), {})("no rows")
    assert type(translate(inner, "here")) is kind
    outer = ValueError("unsupported model")
    outer.__cause__ = inner
    assert type(translate(outer, "here")) is kind


@pytest.mark.parametrize(("text", "kind"), TEXTS.items())
def test_by_text(text: str, kind: type[Exception]) -> None:
    error = translate(AssertionError(text), "model m")
    assert type(error) is kind
    assert str(error) == f"model m: {text}"


def test_search_can_tell_infeasible_from_wrong() -> None:
    for kind in (errors.AicDataGap, errors.AicUnsupportedDtype, errors.ShapeNotViable, errors.NoKvBudget):
        assert issubclass(kind, TimingError)
        assert not issubclass(kind, InputError)
    for kind in (errors.ModelNotAvailable, errors.UnknownSystem, errors.UnknownBackendVersion):
        assert issubclass(kind, InputError)


def test_messages_are_one_line_without_the_installation_folder() -> None:
    assert (
        clean("no rows at /opt/x/aiconfigurator_core/systems/data/h200\n  again ")
        == "no rows at data/h200 again"
    )
    assert str(translate(KeyError(), "s")) == "s: KeyError"


def test_sdk_log_is_collected_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("aiconfigurator_core.sdk.perf_database")
    before = (
        logging.getLogger("aiconfigurator_core").propagate,
        logging.getLogger("aiconfigurator_core").handlers[:],
    )
    with sdk_call("test"):
        logger.warning("fallback rows at %s", Path("/a/aiconfigurator_core/systems/data/x"))
        logger.warning("fallback rows at data/x")
    assert caplog.records == []
    assert sdk_advisories().count("fallback rows at data/x") == 1
    after = (
        logging.getLogger("aiconfigurator_core").propagate,
        logging.getLogger("aiconfigurator_core").handlers[:],
    )
    assert after == before


def test_sdk_call_lets_our_own_errors_pass() -> None:
    with pytest.raises(InputError, match=r"^mine$"), sdk_call("test"):
        raise InputError("mine")
    with pytest.raises(TimingError, match=r"^test: theirs$"), sdk_call("test"):
        raise OSError("theirs")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tp": 0}, "AIC tp: 0 must be a positive integer"),
        ({"tp": 2.0}, "AIC tp: 2.0"),
        ({"pp": True}, "AIC pp: True"),
        ({"moe_tp": 1}, "must be set together"),
        ({"tp": 8, "moe_tp": 1, "moe_ep": 4}, "tp 8 \\* attention_dp 1 must equal moe_tp 1 \\* moe_ep 4"),
        ({"backend": "vlm"}, "did you mean 'vllm'"),
    ],
)
def test_contradicting_keys_are_refused(fields: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        EngineKey(**{"model": "m", "system": "s", "backend": "vllm", "backend_version": "1"} | fields)  # type: ignore[arg-type]
