"""The texts that errors are made of."""

from __future__ import annotations

import pytest

from aisimulate.core.errors import (
    AISimulateError,
    InputError,
    ReplayError,
    TimingError,
    UnsupportedError,
    cause_chain,
    nearest,
)


def chained(*errors: BaseException) -> BaseException:
    """Raise the errors one from the other, last one first, and give the first one."""
    cause: BaseException | None = None
    for error in reversed(errors):
        error.__cause__ = cause
        cause = error
    return errors[0]


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ([ReplayError("outer")], "outer"),
        ([ReplayError("outer"), TimingError("middle"), KeyError("k")], "outer: middle: 'k'"),
        ([ReplayError("outer"), MemoryError()], "outer: MemoryError"),
        ([ReplayError("  spaced \n"), ValueError("\t")], "spaced: ValueError"),
        ([ReplayError("same"), TimingError("same"), ValueError("other")], "same: other"),
        ([ReplayError("field: why"), ImportError("why")], "field: why"),
        ([ReplayError("whyever"), ImportError("ever")], "whyever: ever"),
    ],
)
def test_a_chain_of_causes_is_one_text(errors, text):
    assert cause_chain(chained(*errors)) == text


def test_only_deliberate_causes_are_told():
    try:
        try:
            raise KeyError("while handling this")
        except KeyError:
            raise ReplayError("told")  # noqa: B904 - the context without a cause is what is tested
    except ReplayError as error:
        assert error.__context__ is not None
        assert cause_chain(error) == "told"


@pytest.mark.parametrize(
    ("name", "legal", "hint"),
    [
        ("round_robbin", ["kv_router", "round_robin"], "; did you mean 'round_robin'?"),
        ("vlm", ("vllm", "sglang"), "; did you mean 'vllm'?"),
        ("xyz", ["vllm", "sglang"], ""),
        ("vllm", [], ""),
        ("it's", ["its'"], '; did you mean "its\'"?'),
    ],
)
def test_the_nearest_legal_name(name, legal, hint):
    assert nearest(name, legal) == hint


def test_legal_names_may_be_read_once():
    assert nearest("ttft", iter(["ttft_ms"])) == "; did you mean 'ttft_ms'?"


@pytest.mark.parametrize("kind", [InputError, UnsupportedError, TimingError, ReplayError])
def test_every_error_is_ours(kind):
    assert issubclass(kind, AISimulateError)


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (InputError, ValueError),
        (UnsupportedError, InputError),
        (TimingError, RuntimeError),
        (ReplayError, RuntimeError),
    ],
)
def test_errors_are_also_what_python_would_raise(kind, builtin):
    with pytest.raises(builtin, match="text"):
        raise kind("text")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("H200", "h200_sxm"),
        ("h100", "h100_sxm"),
        ("GB200", "gb200"),
        ("H200_SXM", "h200_sxm"),
        ("gb20", "gb200"),
    ],
)
def test_a_name_begun_in_any_case_is_closest(name, hint):
    legal = ["gb200", "h100_sxm_x", "h100_sxm", "h200_sxm", "l4", "l40s"]
    assert nearest(name, legal) == f"; did you mean {hint!r}?"
