"""What pools of workers have in common, wherever the workers run."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.spica.batch import Batch
from aisimulate.spica.evaluate import unsendable
from aisimulate.spica.outcome import Reason, Status
from aisimulate.spica.time_budget import TimeBudget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisimulate.spica.batch import OnEnd
    from aisimulate.spica.evaluate import Prepared
    from aisimulate.spica.outcome import Outcome

# So many workers in a row may die before they are ready; then the rest of the batch fails.
_MAX_FAILED_STARTS = 3
_LONGEST_WAIT_S = 3600.0
# How often the memory of workers is looked at, where it is capped.
_MEMORY_LOOK_S = 0.1


class EvaluatorPoolError(AISimulateError, RuntimeError):
    """No worker could ever be started."""


class Hand(Protocol):
    """The near side of one worker.

    `ready` tells whether it has come up, `task` is the number of the task it works on, `started_s` the
    monotonic time it was given.
    """

    ready: bool
    task: int | None
    started_s: float

    def give(self, task: Prepared, number: int) -> None:
        """Hand it a task. Raises whatever pickling the task raises."""
        ...


HandT = TypeVar("HandT", bound=Hand)


class Crew(ABC, Generic[HandT]):
    """Keeps up to `workers` workers busy with the tasks of a batch, which may grow.

    A task's deadline starts when a worker takes it, so queued tasks are not charged. Passing it ends only
    that worker, which is replaced; the same holds for a worker that dies. Siblings go on, and the task is
    tried a second time, by another worker, before it counts as timed out or failed. When workers keep dying
    before they are ready, the waiting tasks of that run fail and the next run tries to start workers anew.
    Once `time_budget` is spent no task is begun, and running ones end. A worker that takes more than
    `max_worker_mb` of memory is ended and replaced as one that dies.

    Raises:
        EvaluatorPoolError: from `run`, when no worker ever became ready.
        InputError: from `run`, the cap of memory is below what a worker needs before its first task.
    """

    _kind: ClassVar[str]
    """How messages call a worker."""
    _hint: ClassVar[str]
    """What to do when none can be started."""

    def __init__(
        self,
        workers: int,
        max_eval_seconds: float | None,
        on_end: OnEnd | None,
        time_budget: TimeBudget | None,
        max_worker_mb: int | None,
    ) -> None:
        self._size = workers
        self._cap_mb = max_worker_mb
        self._deadline_s = max_eval_seconds
        self._on_end = on_end
        self._time = time_budget or TimeBudget()
        self._workers: list[HandT] = []
        self._ever_ready = False
        self._failed_starts = 0
        self._last_failure = ""

    def run(self, tasks: Sequence[Prepared]) -> Iterator[Outcome]:
        """Keep the workers busy with the tasks; yield the outcomes in task order."""
        self._failed_starts = 0
        return self._in_order(Batch(tasks, self._on_end))

    @abstractmethod
    def _hire(self) -> None:
        """Start one more worker, or count a failed start. Raises EvaluatorPoolError."""

    @abstractmethod
    def _hear(self, batch: Batch) -> None:
        """Wait for the next event of any worker, `_patience_s` at most, and act on what there is."""

    @abstractmethod
    def _stop(self, workers: list[HandT]) -> None:
        """End workers at once, whatever they work on."""

    def _in_order(self, batch: Batch) -> Iterator[Outcome]:
        try:
            number = 0
            while number < len(batch.tasks):
                while number not in batch.outcomes:
                    is_over = self._time.is_spent
                    if is_over and not self._busy:
                        return
                    # Of a search that ends with its time, what was suggested first counts.
                    batch.take_new(in_order=self._time.seconds is not None)
                    self._advance(batch, is_over=is_over)
                if not self._time.is_spent:
                    self._dispatch(batch)
                batch.tell()
                yield batch.outcomes.pop(number)
                number += 1
        finally:
            batch.tell()
            self._stop(self._busy)

    @property
    def _busy(self) -> list[HandT]:
        return [worker for worker in self._workers if worker.task is not None]

    def _advance(self, batch: Batch, *, is_over: bool) -> None:
        """Start what can be started, unless time `is_over`; then wait for the next event of any worker."""
        if not is_over:
            self._refill(batch)
            if not self._workers:
                batch.fail_waiting(f"replay failed: no {self._kind} could be started ({self._last_failure})")
                return
            self._dispatch(batch)
        batch.tell()
        self._hear(batch)

    def _refill(self, batch: Batch) -> None:
        wanted = min(self._size, len(batch.waiting) + len(self._busy))
        while len(self._workers) < wanted and self._failed_starts < _MAX_FAILED_STARTS:
            self._hire()

    def _dispatch(self, batch: Batch) -> None:
        for worker in self._workers:
            while worker.ready and worker.task is None and batch.waiting:
                number = batch.waiting.popleft()
                try:
                    worker.give(batch.tasks[number], number)
                except Exception as error:  # not picklable: this candidate's own fault
                    worker.task = None
                    batch.end(number, unsendable(batch.tasks[number], error), 0.0)

    def _patience_s(self) -> float | None:
        """Tell how long to wait for news: until the next deadline or look at memory, None for ever.

        The system cannot wait longer than some weeks at a time, so a far deadline is waited for in parts.
        """
        started = [worker.started_s for worker in self._busy]
        if not started or (self._deadline_s is None and self._cap_mb is None):
            return None
        longest_s = _LONGEST_WAIT_S if self._cap_mb is None else _MEMORY_LOOK_S
        if self._deadline_s is None:
            return longest_s
        return min(max(0.0, min(started) + self._deadline_s - time.monotonic()), longest_s)

    def _welcome(self, worker: HandT) -> None:
        """Take note that a worker has come up."""
        worker.ready = self._ever_ready = True
        self._failed_starts = 0

    def _take(self, worker: HandT, outcome: Outcome, batch: Batch) -> None:
        """Take the outcome of the task that a worker works on, if that still counts."""
        if worker.task is not None:
            batch.end(worker.task, outcome, time.monotonic() - worker.started_s)
        worker.task = None

    def _mourn(self, worker: HandT, batch: Batch, ending: str, *, hopeless: bool = False) -> None:
        """Take note that a worker is gone. `hopeless`: as `_count_failed_start` if it had not come up."""
        if not worker.ready:
            self._count_failed_start(ending, hopeless=hopeless)
        elif worker.task is not None:
            reason = f"replay failed: its {self._kind} died ({ending})"
            batch.lose(worker.task, Status.FAILED, Reason.REPLAY_RUNTIME, reason)

    def _check_deadline(self, worker: HandT, batch: Batch) -> None:
        if worker.task is None or self._deadline_s is None:
            return
        if time.monotonic() - worker.started_s >= self._deadline_s:
            self._stop([worker])
            reason = f"exceed runtime: the replay took longer than {self._deadline_s:g} s"
            batch.lose(worker.task, Status.TIMED_OUT, Reason.RUNTIME_TIMEOUT, reason)

    def _is_glutton(self, taken_mb: float) -> bool:
        """Whether a worker takes more memory than it may."""
        return self._cap_mb is not None and taken_mb > self._cap_mb

    def _end_glutton(self, worker: HandT, batch: Batch, taken_mb: float) -> None:
        """End a worker that took more memory than it may. What it has just measured does not count."""
        self._stop([worker])
        if worker.task is None:
            raise InputError(
                f"sweep.max_worker_mb: {self._cap_mb}: a worker takes {taken_mb:.0f} MB before it replays "
                "anything"
            )
        reason = f"exceed memory: the replay took more than {self._cap_mb} MB"
        batch.lose(worker.task, Status.FAILED, Reason.RUNTIME_MEMORY, reason)

    def _count_failed_start(self, failure: str, *, hopeless: bool) -> None:
        """Note a worker that never came up. `hopeless`: it ended by itself, so the next one will as well."""
        self._failed_starts += 1
        self._last_failure = failure
        if not self._ever_ready and (hopeless or self._failed_starts >= _MAX_FAILED_STARTS):
            raise EvaluatorPoolError(f"{self._hint} ({failure})")
