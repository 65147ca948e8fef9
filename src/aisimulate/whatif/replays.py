"""Running many replays, in this process or in several; results come in the order of the tasks."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from aisimulate.core.errors import AISimulateError, InputError, ReplayError, TimingError, cause_chain
from aisimulate.replay.execute import execute
from aisimulate.replay.stretched import execute_stretched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.whatif.payloads import Payload

_MOST_PROCESSES = 8


@dataclass(frozen=True, slots=True)
class Task:
    """One replay: its payload, and by how much lengths are stretched. `label` tells of it while it runs."""

    label: str
    payload: Payload
    prompts: float = 1.0
    outputs: float = 1.0


@dataclass(frozen=True, slots=True)
class Result:
    """The report of a replay without records, or why there is none.

    `lacks_data`: there are no pass times. `is_input`: what was asked cannot be replayed.
    """

    report: dict[str, Any] | None
    failure: str = ""
    lacks_data: bool = False
    is_input: bool = False


# Told of each replay that ended: its task, how many ended, and of how many.
OnEnd: TypeAlias = Callable[[Task, int, int], None]


def run_replays(tasks: Sequence[Task], jobs: int = 1, on_end: OnEnd | None = None) -> list[Result]:
    """Run the tasks, up to `jobs` at a time; how many does not change any result.

    A replay that fails has its reason in its result. Raises ReplayError when a process dies, and
    KeyboardInterrupt, after which none is left.
    """
    told = on_end or (lambda task, done, total: None)
    if jobs <= 1 or len(tasks) <= 1:
        results = []
        for number, task in enumerate(tasks, start=1):
            results.append(run_replay(task))
            told(task, number, len(tasks))
        return results
    return _in_processes(tasks, min(jobs, len(tasks)), told)


def usable_jobs() -> int:
    """Give how many replays may run at a time on this machine."""
    return max(1, min(_MOST_PROCESSES, os.cpu_count() or 1))


def run_replay(task: Task) -> Result:
    """Run one task. Every failure but Ctrl-C is a result."""
    try:
        if task.prompts == 1.0 and task.outputs == 1.0:
            return Result(execute(task.payload))
        return Result(execute_stretched(task.payload, prompts=task.prompts, outputs=task.outputs))
    except AISimulateError as error:
        return Result(None, cause_chain(error), isinstance(error, TimingError), isinstance(error, InputError))
    except MemoryError:
        return Result(None, "needs more memory than there is")


def _in_processes(tasks: Sequence[Task], jobs: int, told: OnEnd) -> list[Result]:
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_end_on_interrupt)
    try:
        running = {pool.submit(run_replay, task): number for number, task in enumerate(tasks)}
        results = _collect(tasks, running, told)
    except BaseException as error:
        # What runs would go on to its end, and keep this program waiting.
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise ReplayError("a process that replays died; --jobs 1 does without them") from error
        raise
    pool.shutdown()
    return results


def _collect(tasks: Sequence[Task], running: dict[Future[Result], int], told: OnEnd) -> list[Result]:
    results: dict[int, Result] = {}
    waiting = set(running)
    while waiting:
        ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in sorted(ended, key=running.__getitem__):
            number = running[future]
            results[number] = future.result()
            told(tasks[number], len(results), len(tasks))
    return [results[number] for number in range(len(tasks))]


def _end_on_interrupt() -> None:
    """Let Ctrl-C end a process at once, without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
