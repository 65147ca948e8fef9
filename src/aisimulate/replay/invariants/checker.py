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
    check_placement,
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
from aisimulate.replay.observe.roster import Roster

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
        self._roster = Roster()
        self._now_ns = 0
        self._ends: dict[WatchedWorker, int] = {}  # of the last passes
        self._audits_in: dict[WatchedWorker, int] = {}  # pass ends until the next audit
        self._admissions: dict[Sequence, int] = {}
        self._max_model_len: int | None = None

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Take note of the workers."""
        self._roster.begin(workers)
        self._ends = dict.fromkeys(workers, 0)
        self._audits_in = dict.fromkeys(workers, 0)
        self._max_model_len = workers[-1].ranks[0].max_model_len

    def starting(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note of another worker."""
        self._roster.starting(worker)
        self._ends[worker], self._audits_in[worker] = now_ns, 0

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Let a worker get requests."""
        self._roster.joined(worker)
        self._ends[worker] = now_ns

    def draining(self, worker: WatchedWorker, now_ns: int) -> None:
        """Let a worker get no more requests."""
        del now_ns
        self._roster.draining(worker)

    def left(self, worker: WatchedWorker, now_ns: int) -> None:
        """Check the blocks of a worker that is removed: it holds none."""
        self._check_rest(worker, now_ns)
        self._roster.left(worker)

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Check that a request went to a worker that takes any."""
        check_placement(worker, self._roster.state(worker), sequence, self._now_ns)

    def before(self, now_ns: int) -> None:
        """Check the clock."""
        if now_ns < self._now_ns:
            raise Invariant.CLOCK.broken("event loop", f"from {self._now_ns} ns to {now_ns} ns")
        self._now_ns = now_ns

    def started(self, worker: WatchedWorker) -> None:
        """Check the passes that began."""
        now_ns = self._now_ns
        check_overlap(worker, self._ends[worker], now_ns)
        for work in worker.doing:
            check_limits(worker, work, now_ns)
            for sequence in work.admitted:
                check_admission(worker, work, sequence, now_ns)
                self._admissions[sequence] = self._admissions.get(sequence, 0) + 1

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Check the blocks at the end of the passes."""
        now_ns = self._ends[worker] = self._now_ns
        is_audit = self._thorough or self._audits_in[worker] <= 0
        steps = 0
        for number in range(len(worker.ranks)):
            check_block_counters(worker, number, now_ns)
            if is_audit:
                steps += check_block_audit(worker, number, now_ns)
                check_tiers(worker, number, now_ns)
        self._audits_in[worker] += steps // _STEPS_PER_PASS - 1

    def finish(self, end_ns: int) -> None:
        """Check the clock once more, and the blocks of workers at rest."""
        if end_ns < self._now_ns:
            raise Invariant.CLOCK.broken("event loop", f"ended at {end_ns} ns, after {self._now_ns} ns")
        for worker in self._roster.workers():
            if not worker.busy:
                self._check_rest(worker, end_ns)

    def _check_rest(self, worker: WatchedWorker, now_ns: int) -> None:
        for number in range(len(worker.ranks)):
            check_block_audit(worker, number, now_ns)

    def reported(self, outcome: ReplayOutcome, report: Report) -> None:
        """Check the requests, and the report against them."""
        requests = outcome.sequences
        check_request_counts(requests, report)
        check_tokens(requests, self._max_model_len)
        check_causality(requests)
        self._check_admissions(requests)
        check_gaps(requests, outcome.gap_logs)
        check_totals(outcome, report)
        check_statistics(report)

    def _check_admissions(self, requests: list[Sequence]) -> None:
        """I7 again: nobody was admitted but when a pass began (or, between pools, when one was in vain)."""
        for request in requests:
            seen, admissions = self._admissions.get(request, 0), len(request.admissions)
            if seen != admissions and not (self._roster.has_prefill_pool and seen < admissions):
                values = f"{admissions} admissions, {seen} of them at the start of a pass"
                raise Invariant.ADMISSION.broken(request_name(request), values)
