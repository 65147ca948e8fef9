"""Runs prepared candidates on a Ray cluster (the extra `ray`), with the results of local workers.

The rules are those of `WorkerPool`: outcomes in task order, a deadline that starts when a worker takes the
task, and a second try for a task whose worker died or ran out of time.
"""

from __future__ import annotations

import importlib
import os
import time
from typing import TYPE_CHECKING, Any, Self

from aisimulate.spica.batch import Batch, in_order
from aisimulate.spica.evaluate import EvaluationContext, Prepared, measure, unsendable
from aisimulate.spica.executor import LONGEST_WAIT_S, EvaluatorPoolError
from aisimulate.spica.outcome import Outcome, Reason, Status
from aisimulate.spica.time_budget import TimeBudget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisimulate.spica.batch import OnEnd

# A worker that does not come up so often in a row is given up, with the waiting tasks of its batch.
_MAX_FAILED_STARTS = 3


_HINT = (
    "the Ray workers could not run: every node needs this package, and the module of an evaluator of your own"
)


class RayWorker:
    """Lives on some node of the cluster."""

    def __init__(self, context: EvaluationContext) -> None:
        self._context = context

    def ready(self) -> None:
        """Answer when everything is imported."""

    def measure(self, task: Prepared) -> Outcome:
        """Replay one candidate."""
        return measure(task, self._context)


class _Actor:
    """The near side of a worker: its handle, the answer it owes, and the task it works on."""

    def __init__(self, handle: Any) -> None:  # noqa: ANN401 - of a library that may be missing
        self.handle = handle
        self.owed = handle.ready.remote()
        self.is_ready = False
        self.task: int | None = None
        self.started_s = 0.0

    def give(self, task: Prepared, number: int) -> None:
        """Hand it a task. Raises whatever pickling the task raises."""
        self.owed = self.handle.measure.remote(task)
        self.task, self.started_s = number, time.monotonic()


class RayPool:
    """Evaluates on the cluster that `RAY_ADDRESS` names, or that runs already; else on one of its own here.

    Workers take one CPU each; those for which the cluster has no room wait for it.

    Raises:
        EvaluatorPoolError: Ray cannot be reached or started, or from `run`, no worker ever became ready.
    """

    def __init__(
        self,
        context: EvaluationContext,
        *,
        workers: int,
        max_eval_seconds: float | None,
        on_end: OnEnd | None = None,
        time_budget: TimeBudget | None = None,
    ) -> None:
        self._context = context
        self._size = workers
        self._deadline_s = max_eval_seconds
        self._on_end = on_end
        self._time = time_budget or TimeBudget()
        self._actors: list[_Actor] = []
        self._failed_starts = 0
        self._last_failure = ""
        self._ever_ready = False
        self._is_ours = False

    def __enter__(self) -> Self:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = importlib.import_module("ray")
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            self._connect()
        self._remote = self._ray.remote(num_cpus=1, max_restarts=0)(RayWorker)
        self._shared = self._ray.put(self._context)
        return self

    def _connect(self) -> None:
        try:
            self._ray.init(logging_level="error", log_to_driver=False)
        except Exception as error:  # whatever Ray raises for an address or a machine that does not do
            text = " ".join(str(error).split())
            raise EvaluatorPoolError(f"sweep.executor: Ray cannot be reached or started: {text}") from error

    def __exit__(self, *exc_info: object) -> None:
        self._end(list(self._actors))
        if self._is_ours:
            self._ray.shutdown()

    def run(self, tasks: Sequence[Prepared]) -> Iterator[Outcome]:
        """Keep the workers busy with the tasks; yield the outcomes in task order."""
        self._failed_starts = 0
        return in_order(Batch(tasks, self._on_end), self, self._time)

    def stop_busy(self) -> None:
        """End the workers that work on a task."""
        self._end(self._busy)

    @property
    def is_busy(self) -> bool:
        """Whether a worker works on a task."""
        return bool(self._busy)

    @property
    def _busy(self) -> list[_Actor]:
        return [actor for actor in self._actors if actor.task is not None]

    def advance(self, batch: Batch, *, is_over: bool) -> None:
        """Start what can be started, unless time `is_over`; then wait for the next answer."""
        if not is_over:
            self._refill(batch)
            if not self._actors:
                problem = f"replay failed: no Ray worker could be started ({self._last_failure})"
                batch.fail_waiting(problem)
                return
            self._dispatch(batch)
        batch.tell()
        owing = [actor for actor in self._actors if actor.owed is not None]
        answered, _ = self._ray.wait(
            [actor.owed for actor in owing], num_returns=1, timeout=self._patience_s(), fetch_local=False
        )
        for actor in owing:
            if actor.owed in answered:
                self._take(actor, batch)
            else:
                self._check_deadline(actor, batch)

    def _refill(self, batch: Batch) -> None:
        wanted = min(self._size, len(batch.waiting) + len(self._busy))
        while len(self._actors) < wanted and self._failed_starts < _MAX_FAILED_STARTS:
            self._actors.append(_Actor(self._remote.remote(self._shared)))

    def _dispatch(self, batch: Batch) -> None:
        for actor in self._actors:
            while actor.is_ready and actor.task is None and batch.waiting:
                number = batch.waiting.popleft()
                try:
                    actor.give(batch.tasks[number], number)
                except Exception as error:  # not picklable: this candidate's own fault
                    batch.end(number, unsendable(batch.tasks[number], error), 0.0)

    def _patience_s(self) -> float | None:
        started = [actor.started_s for actor in self._busy]
        if self._deadline_s is None or not started:
            return None
        return min(max(0.0, min(started) + self._deadline_s - time.monotonic()), LONGEST_WAIT_S)

    def _take(self, actor: _Actor, batch: Batch) -> None:
        """Take the answer of a worker, or learn that it is gone."""
        try:
            answer = self._ray.get(actor.owed)
        except Exception as error:  # whatever Ray raises for a worker or node that died
            self._bury(actor, batch, error)
            return
        actor.owed = None
        if actor.task is None:
            actor.is_ready = self._ever_ready = True
            self._failed_starts = 0
            return
        batch.end(actor.task, answer, time.monotonic() - actor.started_s)
        actor.task = None

    def _bury(self, actor: _Actor, batch: Batch, error: Exception) -> None:
        self._end([actor])
        if actor.task is None:
            self._failed_starts += 1
            self._last_failure = " ".join(str(error).split())
            if not self._ever_ready and self._failed_starts >= _MAX_FAILED_STARTS:
                raise EvaluatorPoolError(f"{_HINT} ({self._last_failure})")
            return
        reason = f"replay failed: its Ray worker died ({type(error).__name__})"
        batch.lose(actor.task, Status.FAILED, Reason.REPLAY_RUNTIME, reason)

    def _check_deadline(self, actor: _Actor, batch: Batch) -> None:
        if actor.task is None or self._deadline_s is None:
            return
        if time.monotonic() - actor.started_s >= self._deadline_s:
            self._end([actor])
            reason = f"exceed runtime: the replay took longer than {self._deadline_s:g} s"
            batch.lose(actor.task, Status.TIMED_OUT, Reason.RUNTIME_TIMEOUT, reason)

    def _end(self, actors: list[_Actor]) -> None:
        for actor in actors:
            self._ray.kill(actor.handle, no_restart=True)
            self._actors.remove(actor)
