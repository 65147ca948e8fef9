"""An observer that checks every invariant and raises at the first one that is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.replay.invariants.catalogue import Invariant
from aisimulate.replay.invariants.passes import (
    check_admission,
    check_block_audit,
    check_block_counters,
    check_limits,
    check_overlap,
    check_tiers,
)
from aisimulate.replay.invariants.report import check_statistics, check_totals
from aisimulate.replay.invariants.requests import (
    check_causality,
    check_gaps,
    check_request_counts,
    check_tokens,
    request_name,
)
from aisimulate.replay.observe.hub import Observer

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker
    from aisimulate.replay.outcome import ReplayOutcome
    from aisimulate.replay.report import Report

# A block audit of n steps is followed by n / this many pass ends that only look at the counters.
_STEPS_PER_PASS = 16


class InvariantChecker(Observer):
    """Checks a replay; raises `InvariantError` with the number, the request or worker, and the values.

    `thorough` counts the blocks one by one at every pass end, else so seldom that it costs little.
    """

    def __init__(self, *, thorough: bool = False) -> None:
        self._thorough = thorough
        self._workers: list[WatchedWorker] = []
        self._now_ns = 0
        self._ends: list[int] = []  # of the last passes, by worker
        self._audits_in: list[int] = []  # pass ends until the next audit, by worker
        self._admissions: dict[Sequence, int] = {}

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Take note of the workers."""
        self._workers = workers
        self._ends = [0] * len(workers)
        self._audits_in = [0] * len(workers)

    def before(self, now_ns: int) -> None:
        """Check the clock."""
        if now_ns < self._now_ns:
            raise Invariant.CLOCK.broken("event loop", f"from {self._now_ns} ns to {now_ns} ns")
        self._now_ns = now_ns

    def started(self, worker: WatchedWorker) -> None:
        """Check the passes that began."""
        now_ns = self._now_ns
        check_overlap(worker, self._ends[worker.index], now_ns)
        for work in worker.doing:
            check_limits(worker, work, now_ns)
            for sequence in work.admitted:
                check_admission(worker, work, sequence, now_ns)
                self._admissions[sequence] = self._admissions.get(sequence, 0) + 1

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Check the blocks at the end of the passes."""
        index, now_ns = worker.index, self._now_ns
        self._ends[index] = now_ns
        is_audit = self._thorough or self._audits_in[index] <= 0
        steps = 0
        for number in range(len(worker.ranks)):
            check_block_counters(worker, number, now_ns)
            if is_audit:
                steps += check_block_audit(worker, number, now_ns)
                check_tiers(worker, number, now_ns)
        self._audits_in[index] += steps // _STEPS_PER_PASS - 1

    def finish(self, end_ns: int) -> None:
        """Check the clock once more, and the blocks of workers at rest."""
        if end_ns < self._now_ns:
            raise Invariant.CLOCK.broken("event loop", f"ended at {end_ns} ns, after {self._now_ns} ns")
        for worker in self._workers:
            for number in range(0 if worker.busy else len(worker.ranks)):
                check_block_audit(worker, number, end_ns)

    def reported(self, outcome: ReplayOutcome, report: Report) -> None:
        """Check the requests, and the report against them."""
        requests = outcome.sequences
        check_request_counts(requests, report)
        check_tokens(requests, self._workers[-1].ranks[0].max_model_len)
        check_causality(requests)
        self._check_admissions(requests)
        check_gaps(requests, outcome.gap_logs)
        check_totals(outcome, report)
        check_statistics(report)

    def _check_admissions(self, requests: list[Sequence]) -> None:
        """I7 again: nobody was admitted but when a pass began (or, between pools, when one was in vain)."""
        are_pools = any(worker.prefills for worker in self._workers)
        for request in requests:
            seen, admissions = self._admissions.get(request, 0), len(request.admissions)
            if seen != admissions and not (are_pools and seen < admissions):
                values = f"{admissions} admissions, {seen} of them at the start of a pass"
                raise Invariant.ADMISSION.broken(request_name(request), values)
