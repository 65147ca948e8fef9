"""Runs prepared candidates on a Ray cluster (the extra `ray`), with the results of local workers."""

from __future__ import annotations

import importlib
import os
import time
from typing import TYPE_CHECKING, Any, Self

from aisimulate.spica.crew import Crew, EvaluatorPoolError
from aisimulate.spica.evaluate import EvaluationContext, Prepared, measure
from aisimulate.spica.evaluator import ReplayEvaluator, load_simulator
from aisimulate.spica.outcome import Outcome

if TYPE_CHECKING:
    from aisimulate.spica.batch import Batch, OnEnd
    from aisimulate.spica.time_budget import TimeBudget


class RayWorker:
    """Lives on some node of the cluster."""

    def __init__(self, context: EvaluationContext) -> None:
        self._context = context
        if isinstance(context.evaluator, ReplayEvaluator):
            load_simulator()

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
        self.ready = False
        self.task: int | None = None
        self.started_s = 0.0

    def give(self, task: Prepared, number: int) -> None:
        """Hand it a task. Raises whatever pickling the task raises."""
        self.owed = self.handle.measure.remote(task)
        self.task, self.started_s = number, time.monotonic()


class RayPool(Crew[_Actor]):
    """Evaluates on the cluster that `RAY_ADDRESS` names, or that runs already; else on one of its own here.

    Workers take one CPU each; those for which the cluster has no room wait for it.

    Raises:
        EvaluatorPoolError: Ray cannot be reached or started, or from `run`, no worker ever became ready.
    """

    _kind = "Ray worker"
    _hint = (
        "the Ray workers could not run: every node needs this package, and the module of an evaluator of "
        "your own"
    )

    def __init__(
        self,
        context: EvaluationContext,
        *,
        workers: int,
        max_eval_seconds: float | None,
        on_end: OnEnd | None = None,
        time_budget: TimeBudget | None = None,
    ) -> None:
        super().__init__(workers, max_eval_seconds, on_end, time_budget)
        self._context = context
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
            raise EvaluatorPoolError(
                f"sweep.executor: Ray cannot be reached or started: {_one_line(error)}"
            ) from error

    def __exit__(self, *exc_info: object) -> None:
        self._stop(list(self._workers))
        if self._is_ours:
            self._ray.shutdown()

    def _hire(self) -> None:
        self._workers.append(_Actor(self._remote.remote(self._shared)))

    def _hear(self, batch: Batch) -> None:
        owing = [actor for actor in self._workers if actor.owed is not None]
        answered, _ = self._ray.wait(
            [actor.owed for actor in owing], num_returns=1, timeout=self._patience_s(), fetch_local=False
        )
        for actor in owing:
            if actor.owed in answered:
                self._listen(actor, batch)
            else:
                self._check_deadline(actor, batch)

    def _listen(self, actor: _Actor, batch: Batch) -> None:
        """Take the answer of a worker, or learn that it is gone."""
        try:
            answer = self._ray.get(actor.owed)
        except Exception as error:  # whatever Ray raises for a worker or node that died
            self._stop([actor])
            self._mourn(actor, batch, type(error).__name__ if actor.ready else _one_line(error))
            return
        actor.owed = None
        if actor.ready:
            self._take(actor, answer, batch)
        else:
            self._welcome(actor)

    def _stop(self, workers: list[_Actor]) -> None:
        for actor in workers:
            self._ray.kill(actor.handle, no_restart=True)
            self._workers.remove(actor)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
