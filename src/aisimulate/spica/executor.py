"""Runs prepared candidates, in this process or in spawned workers with a deadline per task.

Results always come in the order of the tasks, so a parallel search equals a serial one (spec 05 11.4).
"""

from __future__ import annotations

import importlib
import os
import time
from multiprocessing import connection
from typing import TYPE_CHECKING, Protocol, Self

from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.spica.batch import Batch, OnEnd, in_order
from aisimulate.spica.evaluate import EvaluationContext, Prepared, measure, unsendable
from aisimulate.spica.outcome import Outcome, Reason, Status
from aisimulate.spica.process_memory import can_watch_memory
from aisimulate.spica.time_budget import TimeBudget
from aisimulate.spica.worker import Signal, Worker, interrupts_held

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# So many workers in a row may die before they are ready; then the rest of the batch fails.
_MAX_FAILED_STARTS = 3

# How often the memory of workers is looked at, where it is capped.
_MEMORY_LOOK_S = 0.1
LONGEST_WAIT_S = 3600.0

_POOL_HINT = (
    "the evaluation workers could not run: they are spawned processes, so a script that starts a search "
    'needs an `if __name__ == "__main__":` guard, and its evaluator must be importable and picklable; '
    "or run in this process with parallel_evals=1 and max_eval_seconds=None"
)


class EvaluatorPoolError(AISimulateError, RuntimeError):
    """No worker process could ever be started."""


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


class WorkerPool:
    """Evaluates in spawned processes that live as long as the pool.

    A task's deadline starts when a worker takes it, so queued tasks are not charged. Passing it ends only
    that worker, which is replaced; the same holds for a worker that dies or takes more than `max_worker_mb`.
    Siblings go on, and the task is tried a second time, in another process, before it counts as timed out or
    failed. When workers keep dying before they are ready, the waiting tasks of that run fail and the next
    run tries to start workers anew. Once `time_budget` is spent no task is begun, and running ones end.

    Raises:
        EvaluatorPoolError: from `run`, when no worker ever became ready.
        InputError: the memory of processes cannot be watched here, or from `run`, the cap is below what a
            worker needs before its first task.
    """

    def __init__(
        self,
        context: EvaluationContext,
        *,
        workers: int,
        max_eval_seconds: float | None,
        max_worker_mb: int | None = None,
        on_end: OnEnd | None = None,
        time_budget: TimeBudget | None = None,
    ) -> None:
        if max_worker_mb is not None and not can_watch_memory():
            raise InputError("sweep.max_worker_mb: the memory of processes cannot be watched on this system")
        self._context = context
        self._on_end = on_end
        self._size = workers
        self._deadline_s = max_eval_seconds
        self._cap_mb = max_worker_mb
        self._time = time_budget or TimeBudget()
        self._workers: list[Worker] = []
        self._ever_ready = False
        self._failed_starts = 0
        self._last_failure = ""

    def run(self, tasks: Sequence[Prepared]) -> Iterator[Outcome]:
        """Keep the workers busy with the tasks; yield the outcomes in task order."""
        self._failed_starts = 0
        return in_order(Batch(tasks, self._on_end), self, self._time)

    def stop_busy(self) -> None:
        """End the workers that work on a task."""
        self._stop([worker for worker in self._workers if worker.task is not None])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with interrupts_held():
            self._stop(list(self._workers))

    @property
    def is_busy(self) -> bool:
        """Whether a worker works on a task."""
        return any(worker.task is not None for worker in self._workers)

    def advance(self, batch: Batch, *, is_over: bool) -> None:
        """Start what can be started, unless time `is_over`; then wait for the next event of any worker."""
        if not is_over:
            self._refill(batch)
            if not self._workers:
                problem = f"replay failed: no worker process could be started ({self._last_failure})"
                batch.fail_waiting(problem)
                return
            self._dispatch(batch)
        batch.tell()
        connection.wait([handle for worker in self._workers for handle in worker.handles], self._patience_s())
        for worker in list(self._workers):
            self._listen(worker, batch)

    def _refill(self, batch: Batch) -> None:
        busy = sum(worker.task is not None for worker in self._workers)
        wanted = min(self._size, len(batch.waiting) + busy)
        while len(self._workers) < wanted and self._failed_starts < _MAX_FAILED_STARTS:
            self._start()

    def _start(self) -> None:
        try:
            with interrupts_held():
                self._workers.append(Worker(self._context))
        except OSError as error:
            self._count_failed_start(str(error), hopeless=False)
        except Exception as error:  # whatever the parts of a context raise when they are pickled
            raise EvaluatorPoolError(f"{_POOL_HINT} ({error})") from error

    def _dispatch(self, batch: Batch) -> None:
        for worker in self._workers:
            while worker.ready and worker.task is None and batch.waiting:
                number = batch.waiting.popleft()
                try:
                    worker.give(batch.tasks[number], number, time.monotonic())
                except Exception as error:  # not picklable: this candidate's own fault
                    worker.task = None
                    batch.end(number, unsendable(batch.tasks[number], error), 0.0)

    def _patience_s(self) -> float | None:
        """Tell how long to wait for news: until the next deadline or look at memory, None for ever.

        The system cannot wait longer than some weeks at a time, so a far deadline is waited for in parts.
        """
        started = [worker.started_s for worker in self._workers if worker.task is not None]
        waits = [_MEMORY_LOOK_S] if started and self._cap_mb is not None else []
        if started and self._deadline_s is not None:
            left_s = min(started) + self._deadline_s - time.monotonic()
            waits.append(min(max(0.0, left_s), LONGEST_WAIT_S))
        return min(waits, default=None)

    def _listen(self, worker: Worker, batch: Batch) -> None:
        message = worker.receive()
        if self._cap_mb is not None and message is not Signal.DEAD and worker.peak_mb > self._cap_mb:
            self._end_glutton(worker, batch, self._cap_mb)
        elif isinstance(message, Outcome):
            if worker.task is not None:
                batch.end(worker.task, message, time.monotonic() - worker.started_s)
            worker.task = None
        elif message is Signal.READY:
            worker.ready = self._ever_ready = True
            self._failed_starts = 0
        elif message is Signal.DEAD:
            self._bury(worker, batch)
        else:
            self._check_deadline(worker, batch)

    def _bury(self, worker: Worker, batch: Batch) -> None:
        self._stop([worker])
        if not worker.ready:
            self._count_failed_start(worker.ending, hopeless=not worker.was_killed)
        elif worker.task is not None:
            reason = f"replay failed: its worker process died ({worker.ending})"
            batch.lose(worker.task, Status.FAILED, Reason.REPLAY_RUNTIME, reason)

    def _check_deadline(self, worker: Worker, batch: Batch) -> None:
        if worker.task is None or self._deadline_s is None:
            return
        if time.monotonic() - worker.started_s >= self._deadline_s:
            self._stop([worker])
            reason = f"exceed runtime: the replay took longer than {self._deadline_s:g} s"
            batch.lose(worker.task, Status.TIMED_OUT, Reason.RUNTIME_TIMEOUT, reason)

    def _end_glutton(self, worker: Worker, batch: Batch, cap_mb: int) -> None:
        """End a worker that took more memory than it may. What it has just measured does not count."""
        taken_mb = worker.peak_mb
        self._stop([worker])
        if worker.task is None:
            raise InputError(
                f"sweep.max_worker_mb: {cap_mb}: a worker takes {taken_mb:.0f} MB before it replays anything"
            )
        reason = f"exceed memory: the replay took more than {cap_mb} MB"
        batch.lose(worker.task, Status.FAILED, Reason.RUNTIME_MEMORY, reason)

    def _count_failed_start(self, failure: str, *, hopeless: bool) -> None:
        """Note a worker that never came up. `hopeless`: it ended by itself, so the next one will as well."""
        self._failed_starts += 1
        self._last_failure = failure
        if not self._ever_ready and (hopeless or self._failed_starts >= _MAX_FAILED_STARTS):
            raise EvaluatorPoolError(f"{_POOL_HINT} ({failure})")

    def _stop(self, workers: list[Worker]) -> None:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.stop()
            self._workers.remove(worker)


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
            on_end=on_end,
            time_budget=time_budget,
        )
        return pool
    if workers == 1 and max_eval_seconds is None and max_worker_mb is None:
        return InProcessPool(context, on_end, time_budget=time_budget)
    return WorkerPool(
        context,
        workers=min(workers, _usable_cores()),
        max_eval_seconds=max_eval_seconds,
        max_worker_mb=max_worker_mb,
        on_end=on_end,
        time_budget=time_budget,
    )


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
