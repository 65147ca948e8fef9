"""One evaluation worker: a spawned process and the pipe to it.

Every worker has a pipe of its own and shares no lock, queue or semaphore with the others. So a worker that
dies, at whatever moment, takes nothing along but the candidate it holds, and leaves nothing to clean up.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import contextmanager, suppress
from enum import Enum
from multiprocessing import resource_tracker
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from aisimulate.spica.evaluate import EvaluationContext, Prepared, measure
from aisimulate.spica.evaluator import ReplayEvaluator, load_simulator
from aisimulate.spica.outcome import Outcome
from aisimulate.spica.process_memory import peak_mb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

_SPAWN = multiprocessing.get_context("spawn")

# How long a worker that was told to end may take before it is killed.
_GRACE_S = 1.0


class Signal(Enum):
    """What a worker may tell besides an outcome."""

    READY = "has imported everything and waits for tasks"
    SILENT = "has said nothing new"
    DEAD = "has ended"


Message: TypeAlias = "Outcome | Signal"


class Worker:
    """The parent's side of one worker process; making it starts the process.

    It imports what it needs, takes what `join` sends it, and is ready then. One that `will_replay` imports
    the simulator at once, others when what they are sent needs it. `task` is the number of the task it works
    on, `started_s` the monotonic time it was given.

    Raises:
        OSError: the system has no room for another process.
        RuntimeError: this process is itself one that is being started (a script without a guard).
    """

    def __init__(self, *, will_replay: bool = False) -> None:
        self.ready = False
        self.task: int | None = None
        self.started_s = 0.0
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(theirs, will_replay), name="spica-worker")
        try:
            self._process.start()
        finally:
            theirs.close()

    @property
    def handles(self) -> tuple[Connection[Any, Message], int]:
        """What to wait for: the pipe, and the end of the process."""
        return self._pipe, self._process.sentinel

    @property
    def ending(self) -> str:
        """How a dead worker ended, for a message."""
        code = self._process.exitcode or 0
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    @property
    def peak_mb(self) -> float:
        """The most memory it has taken so far, in MB."""
        return peak_mb(self._process.pid or 0)

    @property
    def was_killed(self) -> bool:
        """Whether a signal from outside ended it, such as the kernel's when memory runs out."""
        return (self._process.exitcode or 0) < 0

    def join(self, context: EvaluationContext) -> None:
        """Tell it what all tasks share. One that has died meanwhile shows it at the next `receive`.

        Raises whatever pickling the context raises.
        """
        with suppress(OSError):
            self._pipe.send(context)

    def give(self, task: Prepared, number: int) -> None:
        """Send it a task. A worker that died meanwhile shows it at the next `receive`.

        Raises whatever pickling the task raises.
        """
        self.task, self.started_s = number, time.monotonic()
        with suppress(OSError):
            self._pipe.send(task)

    def receive(self) -> Message:
        """Take what it last said, without waiting. Its last words are heard before its death."""
        alive = self._process.is_alive()
        try:
            if self._pipe.poll():
                message: Message = self._pipe.recv()
                return message
        except (EOFError, OSError):
            # The pipe closes a moment before the process has ended and can tell how.
            self._process.join(_GRACE_S)
            return Signal.DEAD
        return Signal.SILENT if alive else Signal.DEAD

    def terminate(self) -> None:
        """Ask it to end, without waiting."""
        self._process.terminate()

    def stop(self) -> None:
        """End it and wait until it has ended."""
        self._process.terminate()
        self._process.join(_GRACE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._pipe.close()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Block Ctrl-C in this thread; a process started meanwhile never receives it, from its very start.

    A terminal sends Ctrl-C to the whole process group; only the main process is to act on it.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Starting the first process starts this helper of multiprocessing too, which unblocks the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection[Message, Any], will_replay: bool) -> None:
    """Work as a worker process: one task after the other, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=end_with_parent, daemon=True).start()
    if will_replay:
        load_simulator()
    try:
        context: EvaluationContext = pipe.recv()
    except EOFError:
        return
    if isinstance(context.evaluator, ReplayEvaluator):
        load_simulator()
    with suppress(EOFError, OSError):
        pipe.send(Signal.READY)
        while True:
            pipe.send(measure(pipe.recv(), context))


def end_with_parent() -> None:
    """End this process as soon as its parent has, however that was ended, even in a long evaluation."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
