"""Metrics of the latest forward pass of each rank, for scaling policies (spec 01 section 4.6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from aisimulate.core.forward_pass import ForwardPass
from aisimulate.core.units import NS_PER_S
from aisimulate.replay.observe.hub import Observer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.engine.pass_view import RankPass
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker

_SILENCE_NS = NS_PER_S


class Lengths(NamedTuple):
    """How many lengths, their sum and the sum of their squares (tokens)."""

    number: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, lengths: Iterable[int]) -> Lengths:
        """Sum up lengths."""
        known = list(lengths)
        return cls(len(known), sum(known), sum([length * length for length in known]))

    def plus(self, length: int, sign: int = 1) -> Lengths:
        """Add a length, or take it away."""
        return Lengths(self.number + sign, self.total + sign * length, self.squares + sign * length * length)

    @property
    def variance(self) -> float:
        """Population variance; 0 of nothing."""
        if not self.number:
            return 0.0
        return (self.number * self.squares - self.total * self.total) / (self.number * self.number)


class _RankLog:
    """The queue of one rank, the pass it has in flight and the last one that ended."""

    __slots__ = ("fresh", "in_flight", "latest", "preempted", "published_ns")

    def __init__(self, now_ns: int) -> None:
        self.fresh = Lengths()
        self.preempted = Lengths()
        self.in_flight: ForwardPass | None = None  # its first pass, without duration
        self.latest: ForwardPass | None = None  # since it was last asked for
        self.published_ns = now_ns  # when the latest pass ended, or the rank was last reported idle

    def leave(self, sequence: Sequence, readmitted: bool) -> None:
        """Take a request out of the queue."""
        if readmitted:
            self.preempted = self.preempted.plus(sequence.tokens, -1)
        elif self.fresh.number:  # a decode worker of a pair does not hear of whom it is to expect
            self.fresh = self.fresh.plus(sequence.input_tokens, -1)


class ForwardPassLog(Observer):
    """Keeps the latest pass of every rank; `collect` gives those that ended since it was last called."""

    def __init__(self) -> None:
        self._workers: dict[int, WatchedWorker] = {}
        self._logs: dict[int, list[_RankLog]] = {}
        self._now_ns = 0

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Open a log for each rank."""
        for worker in workers:
            self.joined(worker, 0)

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Open the logs of a worker that is ready since `now_ns`."""
        self._workers[worker.index] = worker
        self._logs[worker.index] = [_RankLog(now_ns) for _ in worker.ranks]

    def left(self, worker: WatchedWorker, now_ns: int) -> None:
        """Close the logs of a worker."""
        del now_ns
        del self._workers[worker.index], self._logs[worker.index]

    def before(self, now_ns: int) -> None:
        """Move the clock."""
        self._now_ns = now_ns

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Count a queued prompt."""
        log = self._logs[worker.index][sequence.rank]
        log.fresh = log.fresh.plus(sequence.input_tokens)

    def started(self, worker: WatchedWorker) -> None:
        """Describe the passes that began."""
        for log in self._logs[worker.index]:
            log.in_flight = None
        for work in worker.doing:
            log = self._logs[worker.index][work.rank]
            for sequence in work.dequeued:
                log.leave(sequence, readmitted=len(sequence.admissions) > 1)
            for sequence in work.rejected:
                log.leave(sequence, readmitted=bool(sequence.admissions))
            for sequence in work.preempted:
                log.preempted = log.preempted.plus(sequence.tokens)
            self._look_at_queue(worker, work, log)
            log.in_flight = _describe(worker, work, log)

    def _look_at_queue(self, worker: WatchedWorker, work: RankPass, log: _RankLog) -> None:
        """Correct what the log knows of the queue; nothing to do where every request is submitted."""

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Keep the last of the passes that ended."""
        for number, log in enumerate(self._logs[worker.index]):
            log.latest = _nth(
                worker, log.in_flight or ForwardPass(worker.index, number), worker.planned_passes
            )
            log.published_ns = self._now_ns

    def collect(self, now_ns: int) -> list[ForwardPass]:
        """Give the latest pass of each rank that ended one by `now_ns`, or has been silent for a second.

        Ordered by worker and rank; each pass is given once.
        """
        workers = sorted(self._workers)
        return [item for index in workers for item in self._collect_worker(self._workers[index], now_ns)]

    def _collect_worker(self, worker: WatchedWorker, now_ns: int) -> list[ForwardPass]:
        items = []
        passes, boundary_ns = worker.passes_by(now_ns) if worker.busy else (0, 0)
        for number, log in enumerate(self._logs[worker.index]):
            if passes and boundary_ns > log.published_ns:
                first = log.in_flight or ForwardPass(worker.index, number)
                log.latest, log.published_ns = _nth(worker, first, passes), boundary_ns
            silences = (now_ns - log.published_ns) // _SILENCE_NS
            if silences:
                log.latest = ForwardPass(worker.index, number)
                log.published_ns += silences * _SILENCE_NS
            if log.latest is not None:
                items.append(log.latest)
                log.latest = None
        return items


class DecodePassLog(ForwardPassLog):
    """The log of a decode pool, whose requests enter the queue with their prompt and wait as decodes."""

    def _look_at_queue(self, worker: WatchedWorker, work: RankPass, log: _RankLog) -> None:
        """Take the queue as it is."""
        log.fresh = Lengths()
        log.preempted = Lengths.of(worker.ranks[work.rank].waiting_lengths)


def _describe(worker: WatchedWorker, work: RankPass, log: _RankLog) -> ForwardPass:
    chunks = [*work.prefills, *(chunk for chunk in work.dropped if chunk.start < chunk.sequence.input_tokens)]
    prompts = Lengths.of(chunk.sequence.input_tokens for chunk in chunks)
    decodes = Lengths.of(worker.ranks[work.rank].decode_lengths(work))
    return ForwardPass(
        worker.index,
        work.rank,
        num_prefill_requests=prompts.number,
        sum_prefill_tokens=sum(chunk.end - chunk.start for chunk in chunks),
        var_prefill_length=prompts.variance,
        sum_prefill_kv_tokens=sum(chunk.start for chunk in chunks),
        num_decode_requests=decodes.number,
        sum_decode_kv_tokens=decodes.total,
        var_decode_kv_tokens=decodes.variance,
        num_queued_prefill=log.fresh.number,
        sum_queued_prefill_tokens=log.fresh.total,
        var_queued_prefill_length=log.fresh.variance,
        num_queued_decode=log.preempted.number,
        sum_queued_decode_kv_tokens=log.preempted.total,
        var_queued_decode_kv_tokens=log.preempted.variance,
    )


def _nth(worker: WatchedWorker, first: ForwardPass, number: int) -> ForwardPass:
    """Describe one of the passes in flight, counted from 1; in a run all grow by a token a pass."""
    return replace(
        first,
        wall_time=worker.pass_ns(number) / NS_PER_S,
        sum_decode_kv_tokens=first.sum_decode_kv_tokens + (number - 1) * first.num_decode_requests,
    )
