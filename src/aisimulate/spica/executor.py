"""Runs prepared candidates, in this process or in spawned workers with a deadline per task.

Results always come in the order of the tasks, so a parallel search equals a serial one (spec 05 11.4).
"""

from __future__ import annotations

import importlib
import os
import time
from multiprocessing import connection
from typing import TYPE_CHECKING, Protocol, Self

from aisimulate.core.errors import InputError
from aisimulate.spica.batch import Batch, OnEnd
from aisimulate.spica.crew import Crew, EvaluatorPoolError
from aisimulate.spica.evaluate import EvaluationContext, Prepared, measure
from aisimulate.spica.outcome import Outcome
from aisimulate.spica.process_memory import can_watch_memory
from aisimulate.spica.time_budget import TimeBudget
from aisimulate.spica.worker import Signal, Worker, interrupts_held

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisimulate.spica.config import SweepConfig


class EvaluationPool(Protocol):
    """Evaluates a batch of candidates. Use it as a context manager; leaving it stops all work."""

    def run(self, tasks: Sequence[Prepared]) -> Iterator[Outcome]:
        """Yield one outcome per task, in task order, as soon as it is known.

        Tasks may be added to the list while outcomes are taken. It ends early, at the first task that was
        not begun, once the time budget of the search is spent.
        """
        ...

    def __enter__(self) -> Self:
        """Start using the pool."""
        ...

    def __exit__(self, *exc_info: object) -> None:
        """Stop all work at once."""
        ...


class InProcessPool:
    """Evaluates in this process, one after the other. It cannot enforce a deadline or a memory cap."""

    def __init__(
        self,
        context: EvaluationContext,
        on_end: OnEnd | None = None,
        *,
        time_budget: TimeBudget | None = None,
    ) -> None:
        self._context = context
        self._on_end = on_end
        self._time = time_budget or TimeBudget()

    def run(self, tasks: Sequence[Prepared]) -> Iterator[Outcome]:
        """Evaluate the tasks lazily, in order."""
        for task in tasks:
            if self._time.is_spent:
                return
            yield self._measure(task)

    def _measure(self, task: Prepared) -> Outcome:
        started_s = time.monotonic()
        outcome = measure(task, self._context)
        if self._on_end is not None:
            self._on_end(task, outcome, time.monotonic() - started_s)
        return outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None


_HINT = (
    "the evaluation workers could not run: they are spawned processes, so a script that starts a search "
    'needs an `if __name__ == "__main__":` guard, and its evaluator must be importable and picklable; '
    "or run in this process with parallel_evals=1 and max_eval_seconds=None"
)


class Recruits:
    """Worker processes that import what they need while the search is still being planned.

    Use it as a context manager; leaving it ends those that no pool took.

    Raises:
        EvaluatorPoolError: this process may not start others. One for which there is no room is no error: the
            pool will try.
    """

    def __init__(self, count: int, *, will_replay: bool = False) -> None:
        self._waiting: list[Worker] = []
        try:
            with interrupts_held():
                while len(self._waiting) < count:
                    self._waiting.append(Worker(will_replay=will_replay))
        except OSError:
            return
        except RuntimeError as error:
            raise EvaluatorPoolError(f"{_HINT} ({error})") from error

    def take(self) -> Worker | None:
        """Take one that has been started, or none."""
        return self._waiting.pop(0) if self._waiting else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with interrupts_held():
            _end(self._waiting)
            self._waiting.clear()


class WorkerPool(Crew[Worker]):
    """Evaluates in spawned processes that live as long as the pool; the first are taken from `recruits`.

    Raises:
        EvaluatorPoolError: from `run`, when no worker ever became ready.
        InputError: the memory of processes cannot be watched here, or from `run`, the cap is below what a
            worker needs before its first task.
    """

    _kind = "worker process"
    _hint = _HINT

    def __init__(
        self,
        context: EvaluationContext,
        *,
        workers: int,
        max_eval_seconds: float | None,
        max_worker_mb: int | None = None,
        on_end: OnEnd | None = None,
        time_budget: TimeBudget | None = None,
        recruits: Recruits | None = None,
    ) -> None:
        if max_worker_mb is not None and not can_watch_memory():
            raise InputError("sweep.max_worker_mb: the memory of processes cannot be watched on this system")
        super().__init__(workers, max_eval_seconds, on_end, time_budget, max_worker_mb)
        self._context = context
        self._recruits = recruits

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with interrupts_held():
            self._stop(list(self._workers))

    def _hire(self) -> None:
        try:
            with interrupts_held():
                worker = (self._recruits and self._recruits.take()) or Worker()
                self._workers.append(worker)
                worker.join(self._context)
        except OSError as error:
            self._count_failed_start(str(error), hopeless=False)
        except Exception as error:  # whatever the parts of a context raise when they are pickled
            raise EvaluatorPoolError(f"{self._hint} ({error})") from error

    def _hear(self, batch: Batch) -> None:
        connection.wait([handle for worker in self._workers for handle in worker.handles], self._patience_s())
        for worker in list(self._workers):
            self._listen(worker, batch)

    def _listen(self, worker: Worker, batch: Batch) -> None:
        message = worker.receive()
        taken_mb = 0.0 if self._cap_mb is None or message is Signal.DEAD else worker.peak_mb
        if self._is_glutton(taken_mb):
            self._end_glutton(worker, batch, taken_mb)
        elif isinstance(message, Outcome):
            self._take(worker, message, batch)
        elif message is Signal.READY:
            self._welcome(worker)
        elif message is Signal.DEAD:
            self._stop([worker])
            self._mourn(worker, batch, worker.ending, hopeless=not worker.was_killed)
        else:
            self._check_deadline(worker, batch)

    def _stop(self, workers: list[Worker]) -> None:
        _end(workers)
        for worker in workers:
            self._workers.remove(worker)


def _end(workers: Sequence[Worker]) -> None:
    """End workers and wait until they have ended."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.stop()


def recruit(sweep: SweepConfig, *, will_replay: bool = True) -> Recruits:
    """Start the workers that the pool of a search will want. `will_replay`: they will need our simulator."""
    if sweep.executor != "local":
        return Recruits(0)
    workers = min(sweep.parallel_evals, sweep.per_round)
    count = _processes(workers, sweep.max_eval_seconds, sweep.max_worker_mb)
    return Recruits(count, will_replay=will_replay)


def open_pool(
    context: EvaluationContext,
    *,
    parallel_evals: int,
    per_round: int,
    max_eval_seconds: float | None,
    max_worker_mb: int | None = None,
    on_end: OnEnd | None = None,
    time_budget: TimeBudget | None = None,
    executor: str = "local",
    recruits: Recruits | None = None,
) -> EvaluationPool:
    """Choose the pool: this process when one evaluation runs at a time without caps, else workers.

    With the executor `ray` they are those of a cluster, as many as are asked for.

    There are never more workers than usable cores: replays are pure computation, so more would only add
    start-up time and make deadlines depend on each other. The number does not change any result.
    """
    workers = min(parallel_evals, per_round)
    if executor == "ray":
        pool: EvaluationPool = importlib.import_module("aisimulate.spica.ray_pool").RayPool(
            context,
            workers=workers,
            max_eval_seconds=max_eval_seconds,
            max_worker_mb=max_worker_mb,
            on_end=on_end,
            time_budget=time_budget,
        )
        return pool
    processes = _processes(workers, max_eval_seconds, max_worker_mb)
    if not processes:
        return InProcessPool(context, on_end, time_budget=time_budget)
    return WorkerPool(
        context,
        workers=processes,
        max_eval_seconds=max_eval_seconds,
        max_worker_mb=max_worker_mb,
        on_end=on_end,
        time_budget=time_budget,
        recruits=recruits,
    )


def _processes(workers: int, max_eval_seconds: float | None, max_worker_mb: int | None) -> int:
    """Count the local processes that `workers` evaluations at a time take; none when this one does."""
    if workers == 1 and max_eval_seconds is None and max_worker_mb is None:
        return 0
    return min(workers, _usable_cores())


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
