"""How far the passes of a worker have come that are in flight."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from aisimulate.engine.group import PassGroup
from aisimulate.engine.run_worker import RunWorker

if TYPE_CHECKING:
    from collections.abc import Callable


def pass_end_of(worker: object) -> Callable[[int], int]:
    """Make the function that tells when so many passes in flight have ended, which `passes_by` counted."""
    if isinstance(worker, RunWorker):
        return lambda passes: _end_of_one(worker, passes)
    assert isinstance(worker, PassGroup)
    return lambda passes: worker._start_ns + worker._totals[passes - 1]


def passes_by(worker: object) -> Callable[[int], int]:
    """Make the function that counts the passes in flight that end by some instant."""
    if isinstance(worker, RunWorker):
        return lambda now_ns: _count_of_one(worker, now_ns)
    assert isinstance(worker, PassGroup)
    return lambda now_ns: _count_of_group(worker, now_ns)


def _count_of_one(worker: RunWorker, now_ns: int) -> int:  # type: ignore[type-arg]
    rank = worker._rank
    if not worker.busy or not rank.run_batch:
        return 0
    elapsed = now_ns - worker._start_ns
    run = rank.run_batch, rank.run_context
    passes, total = worker._timer.passes_until(*run, worker._passes, elapsed + 1)
    return int(passes) if total <= elapsed else int(passes) - 1


def _end_of_one(worker: RunWorker, passes: int) -> int:  # type: ignore[type-arg]
    rank = worker._rank
    return worker._start_ns + int(worker._timer.run_ns(rank.run_batch, rank.run_context, passes))


def _count_of_group(worker: PassGroup, now_ns: int) -> int:  # type: ignore[type-arg]
    if not worker.busy:
        return 0
    elapsed, totals = now_ns - worker._start_ns, worker._totals
    while len(worker._durations) < worker._passes and totals[-1] <= elapsed:
        worker._price_more()
    return bisect_right(totals, elapsed, 0, min(worker._passes, len(totals)))
