"""Runs prepared candidates on a Ray cluster (the extra `ray`), with the results of local workers."""

from __future__ import annotations

import importlib
import os
import time
from typing import TYPE_CHECKING, Any, Self

from aisimulate.core.errors import InputError
from aisimulate.spica.crew import Crew, EvaluatorPoolError
from aisimulate.spica.evaluate import EvaluationContext, Prepared, measure
from aisimulate.spica.evaluator import ReplayEvaluator, load_simulator
from aisimulate.spica.outcome import Outcome
from aisimulate.spica.process_memory import can_watch_memory, peak_mb

if TYPE_CHECKING:
    from aisimulate.spica.batch import Batch, OnEnd
    from aisimulate.spica.time_budget import TimeBudget

# The methods of a worker that answer while it replays.
_WATCH = "watch"


class RayWorker:
    """Lives on some node of the cluster. Its answers end with the most memory it has taken, as `peak_mb`."""

    def __init__(self, context: EvaluationContext) -> None:
        self._context = context
        if isinstance(context.evaluator, ReplayEvaluator):
            load_simulator()

    def ready(self) -> tuple[None, float | None]:
        """Answer when everything is imported."""
        return None, self.peak_mb()

    def measure(self, task: Prepared) -> tuple[Outcome, float | None]:
        """Replay one candidate."""
        return measure(task, self._context), self.peak_mb()

    def peak_mb(self) -> float | None:
        """Give the most memory this process has taken, in MB; None where the system does not tell."""
        return peak_mb(os.getpid()) if can_watch_memory() else None


class _Actor:
    """The near side of a worker: its handle, the answer it owes, and the task it works on.

    `look` is the answer it owes about its memory, None when there is none to come.
    """

    def __init__(self, handle: Any) -> None:  # noqa: ANN401 - of a library that may be missing
        self.handle = handle
        self.owed = handle.ready.remote()
        self.look: Any = None
        self.ready = False
        self.task: int | None = None
        self.started_s = 0.0

    def give(self, task: Prepared, number: int) -> None:
        """Hand it a task. Raises whatever pickling the task raises."""
        self.owed = self.handle.measure.remote(task)
        self.task, self.started_s = number, time.monotonic()

    def look_at(self) -> None:
        """Ask what memory it takes."""
        self.look = self.handle.peak_mb.options(concurrency_group=_WATCH).remote()


class RayPool(Crew[_Actor]):
    """Evaluates on the cluster that `RAY_ADDRESS` names, or that runs already; else on one of its own here.

    Workers take one CPU each; those for which the cluster has no room wait for it.

    Raises:
        EvaluatorPoolError: Ray cannot be reached or started, or from `run`, no worker ever became ready.
        InputError: from `run`, `max_worker_mb` is too small or memory cannot be watched on a node.
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
        max_worker_mb: int | None = None,
        on_end: OnEnd | None = None,
        time_budget: TimeBudget | None = None,
    ) -> None:
        super().__init__(workers, max_eval_seconds, on_end, time_budget, max_worker_mb)
        self._context = context
        self._is_ours = False

    def __enter__(self) -> Self:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = importlib.import_module("ray")
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            self._connect()
        options = {"num_cpus": 1, "max_restarts": 0, "concurrency_groups": {_WATCH: 1}}
        self._remote = self._ray.remote(**options)(RayWorker)
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
            elif not self._took_too_much(actor, batch):
                self._check_deadline(actor, batch)

    def _listen(self, actor: _Actor, batch: Batch) -> None:
        """Take the answer of a worker, or learn that it is gone."""
        try:
            outcome, taken_mb = self._ray.get(actor.owed)
        except Exception as error:  # whatever Ray raises for a worker or node that died
            self._stop([actor])
            self._mourn(actor, batch, type(error).__name__ if actor.ready else _one_line(error))
            return
        actor.owed = None
        if self._is_glutton(self._known_mb(taken_mb)):
            self._end_glutton(actor, batch, taken_mb)
        elif outcome is None:
            self._welcome(actor)
        else:
            self._take(actor, outcome, batch)

    def _known_mb(self, taken_mb: float | None) -> float:
        if taken_mb is None and self._cap_mb is not None:
            raise InputError(
                "sweep.max_worker_mb: the memory of processes cannot be watched on every node of the cluster"
            )
        return taken_mb or 0.0

    def _took_too_much(self, actor: _Actor, batch: Batch) -> bool:
        """End a worker that took too much memory when it was last looked at; else have it looked at again."""
        if self._cap_mb is None or actor.task is None:
            return False
        if actor.look is None:
            actor.look_at()
            return False
        answered, _ = self._ray.wait([actor.look], timeout=0)
        if not answered:
            return False
        look, actor.look = actor.look, None
        try:
            taken_mb = self._ray.get(look) or 0.0
        except Exception:  # whatever Ray raises for a worker that died: what it owes tells so, too
            return False
        if not self._is_glutton(taken_mb):
            return False
        self._end_glutton(actor, batch, taken_mb)
        return True

    def _stop(self, workers: list[_Actor]) -> None:
        for actor in workers:
            self._ray.kill(actor.handle, no_restart=True)
            self._workers.remove(actor)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
