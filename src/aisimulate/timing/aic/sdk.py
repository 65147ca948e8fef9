"""The one doorway to the SDK: quiet, and with its exceptions translated."""

from __future__ import annotations

import logging
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from aisimulate.core.errors import AISimulateError
from aisimulate.timing.aic.errors import clean, translate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

_LOGGER_NAME = "aiconfigurator_core"
_advisories: dict[str, None] = {}


class _Collector(logging.Handler):
    """Keep warnings, which the SDK writes by the dozen on first use of a data set, out of the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Remember the message once."""
        if record.levelno >= logging.WARNING:
            _advisories.setdefault(clean(record.getMessage()))


_COLLECTOR = _Collector()


@contextmanager
def sdk_call(subject: str, *, is_compiled: bool = False) -> Iterator[None]:
    """Run SDK code: its log is collected and its exceptions become ours, named after `subject`.

    What `is_compiled` reads no YAML, so that nothing is imported to read it. Calls may be nested. Raises: the
    errors of `aisimulate.timing.aic.errors`; `TimingError` for anything unforeseen.
    """
    try:
        with _collected_log(nullcontext() if is_compiled else _native_yaml()):
            yield
    except AISimulateError:
        raise
    except Exception as error:
        raise translate(error, subject) from None


@contextmanager
def _collected_log(inside: AbstractContextManager[None]) -> Iterator[None]:
    logger = logging.getLogger(_LOGGER_NAME)
    if _COLLECTOR in logger.handlers:
        # Already collecting: only the outermost call may let the log out again.
        yield
        return
    propagated = logger.propagate
    logger.propagate = False
    logger.addHandler(_COLLECTOR)
    try:
        with inside:
            yield
    finally:
        logger.removeHandler(_COLLECTOR)
        logger.propagate = propagated


@contextmanager
def _native_yaml() -> Iterator[None]:
    """Let the SDK parse YAML with libyaml, where PyYAML has it.

    It reads the same small files again for every estimate, by the parser that is written in Python: most of
    the time of an estimate. The values are the same.
    """
    import yaml  # noqa: PLC0415 - costs start-up time

    ours = getattr(yaml, "CSafeLoader", None)
    if ours is None:
        yield
        return
    theirs = yaml.SafeLoader
    yaml.SafeLoader = ours  # type: ignore[misc]
    try:
        yield
    finally:
        yaml.SafeLoader = theirs  # type: ignore[misc]


def sdk_advisories() -> tuple[str, ...]:
    """All warnings the SDK logged in this process so far, in order of first appearance.

    They depend on what the process did before, so they are for people, never for results.
    """
    return tuple(_advisories)
