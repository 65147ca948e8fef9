"""SIGTERM ends a command in order: files under construction are removed, worker processes are ended."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from aisimulate.cli.exit_codes import TERMINATED
from aisimulate.core.errors import Terminated

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def cleaning_up() -> Iterator[None]:
    """Let SIGTERM unwind what is under way, then exit with 143."""
    try:
        before = signal.signal(signal.SIGTERM, _exit)
    except ValueError:  # only the main thread of a program hears of signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: object) -> NoReturn:
    del number, frame
    raise Terminated(TERMINATED)
