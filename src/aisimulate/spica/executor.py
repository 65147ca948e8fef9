"""Runs prepared candidates, in this process or in spawned workers with a deadline per task.

Results always come in the order of the tasks, so a parallel search equals a serial one (spec 05 11.4).
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, Self

from pebble import ProcessExpired, ProcessPool

from aisimulate.core.errors import AISimulateError
from aisimulate.spica.evaluate import EvaluationContext, Prepared, measure
from aisimulate.spica.outcome import Outcome, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pebble import ProcessFuture

_UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError)

_POOL_HINT = (
    "the evaluation workers could not run: they are spawned processes, so a script that starts a search "
    'needs an `if __name__ == "__main__":` guard, and its evaluator must be importable and picklable; '
    "or run in this process with parallel_evals=1 and max_eval_seconds=None"
)


class EvaluatorPoolError(AISimulateError, RuntimeError):
    """The worker processes cannot be started or have all died."""


class EvaluationPool(Protocol):
    """Evaluates a batch of candidates. Use it as a context manager; leaving it stops all work."""

    def run(self, tasks: Sequence[Prepared]) -> Iterator[Outcome]:
        """Yield one outcome per task, in task order, as soon as it is known."""
        ...

    def __enter__(self) -> Self:
        """Start using the pool."""
        ...

    def __exit__(self, *exc_info: object) -> None:
        """Stop all work at once."""
        ...


class InProcessPool:
    """Evaluates in this process, one after the other. It cannot enforce a deadline."""

    def __init__(self, context: EvaluationContext) -> None:
        self._context = context

    def run(self, tasks: Sequence[Prepared]) -> Iterator[Outcome]:
        """Evaluate the tasks lazily, in order."""
        return (measure(task, self._context) for task in tasks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None


class WorkerPool:
    """Evaluates in spawned processes that live as long as the pool.

    A task's deadline starts when a worker takes it, so queued tasks are not charged. Passing it kills only
    that worker, which is replaced; the same holds for a worker that dies. Siblings go on.

    Raises:
        EvaluatorPoolError: from `run`, when no worker can be started or the state cannot be sent to one.
    """

    def __init__(self, context: EvaluationContext, *, workers: int, max_eval_seconds: float | None) -> None:
        self._deadline_s = max_eval_seconds
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPool(
            max_workers=workers, initializer=_start_worker, initargs=(context,), context=spawn
        )

    def run(self, tasks: Sequence[Prepared]) -> Iterator[Outcome]:
        """Queue every task, then yield the outcomes in task order."""
        futures = [self._submit(task) for task in tasks]
        for task, future in zip(tasks, futures, strict=True):
            yield self._collect(task, future)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()

    def _submit(self, task: Prepared) -> ProcessFuture[Outcome]:
        try:
            with _interrupts_held():
                return self._pool.schedule(_measure_in_worker, args=(task,), timeout=self._deadline_s)
        except (RuntimeError, OSError, *_UNPICKLABLE) as error:
            raise EvaluatorPoolError(f"{_POOL_HINT} ({error})") from error

    def _collect(self, task: Prepared, future: ProcessFuture[Outcome]) -> Outcome:
        try:
            return future.result()
        except TimeoutError:
            reason = f"exceed runtime: the replay took longer than {self._deadline_s:g} s"
            return _lost(task, Status.TIMED_OUT, Reason.RUNTIME_TIMEOUT, reason)
        except ProcessExpired as error:
            reason = f"replay failed: its worker process died (exit code {error.exitcode})"
            return _lost(task, Status.FAILED, Reason.REPLAY_RUNTIME, reason)
        except (BrokenProcessPool, *_UNPICKLABLE) as error:
            raise EvaluatorPoolError(f"{_POOL_HINT} ({error})") from error


def open_pool(
    context: EvaluationContext, *, parallel_evals: int, per_round: int, max_eval_seconds: float | None
) -> EvaluationPool:
    """Choose the pool: this process when one evaluation runs at a time without a cap, else workers.

    There are never more workers than usable cores: replays are pure computation, so more would only add
    start-up time and make deadlines depend on each other. The number does not change any result.
    """
    workers = min(parallel_evals, per_round)
    if workers == 1 and max_eval_seconds is None:
        return InProcessPool(context)
    return WorkerPool(context, workers=min(workers, _usable_cores()), max_eval_seconds=max_eval_seconds)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _lost(task: Prepared, status: Status, category: Reason, reason: str) -> Outcome:
    return Outcome(status, task.config, category=category, reason=reason, retryable=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C in this thread, so that threads and processes started meanwhile never receive it.

    A terminal sends it to the whole process group; only the main process is to act on it.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# The state of a worker process, sent once when it starts.
_worker_context: EvaluationContext | None = None


def _start_worker(context: EvaluationContext) -> None:
    global _worker_context
    _worker_context = context


def _measure_in_worker(task: Prepared) -> Outcome:
    if _worker_context is None:
        raise EvaluatorPoolError("the worker was not initialised")
    return measure(task, _worker_context)
