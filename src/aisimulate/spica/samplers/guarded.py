"""An object in a process of its own, whose calls may neither stall nor eat up the memory."""

from __future__ import annotations

import multiprocessing
import signal
import time
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from aisimulate.spica.process_memory import peak_mb
from aisimulate.spica.worker import end_with_parent, interrupts_held

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

_SPAWN = multiprocessing.get_context("spawn")
_LOOK_S = 0.2


class GuardTripped(Exception):
    """A call went wrong; its process has been ended. The text says why."""


class Guarded:
    """Makes `make(*arguments)` in a spawned process and calls its methods there, one at a time.

    A call that takes longer than `max_seconds` (the first one contains the start) or more memory than
    `max_mb`, or that raises, ends the process and raises `GuardTripped`.
    """

    def __init__(
        self,
        make: Callable[..., object],
        arguments: tuple[object, ...],
        *,
        max_seconds: float,
        max_mb: float,
    ) -> None:
        self._max_seconds = max_seconds
        self._max_mb = max_mb
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_serve, args=(theirs, make, arguments), name="spica-sampler", daemon=True
        )
        try:
            with interrupts_held():
                self._process.start()
        finally:
            theirs.close()

    def call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - whatever the method returns
        """Call a method there and return its result."""
        end_s = time.monotonic() + self._max_seconds
        try:
            self._pipe.send((method, arguments))
            while not self._pipe.poll(_LOOK_S):
                self._check(end_s)
            problem, result = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(_LOOK_S)
            self._trip(f"its process ended (exit code {self._process.exitcode})")
        if problem is not None:
            self._trip(problem)
        return result

    def close(self) -> None:
        """End the process."""
        with suppress(OSError):
            self._process.kill()
        self._process.join()
        self._pipe.close()

    def _check(self, end_s: float) -> None:
        if time.monotonic() >= end_s:
            self._trip(f"took longer than {self._max_seconds:g} s")
        if peak_mb(self._process.pid or 0) > self._max_mb:
            self._trip(f"took more than {self._max_mb:g} MB")

    def _trip(self, reason: str) -> None:
        self.close()
        raise GuardTripped(reason)


def _serve(pipe: Connection[Any, Any], make: Callable[..., object], arguments: tuple[object, ...]) -> None:
    """Work as the process: make the object, then answer calls until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=end_with_parent, daemon=True).start()
    made: object = None
    answer: tuple[str | None, Any]
    with suppress(EOFError, OSError):
        while True:
            method, values = pipe.recv()
            try:
                made = make(*arguments) if made is None else made
                answer = (None, getattr(made, method)(*values))
            except Exception as error:
                answer = (f"raised {type(error).__name__}: {error}", None)
            pipe.send(answer)
