"""Workers, placement and the clock of a step-by-step replay (spec 02 sections 5 and 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aisimulate.core.units import clock_ns

from .content import Identities
from .driver import Driver
from .graph import GraphDriver
from .request import Request
from .scheduler import RankScheduler
from .sglang import Pass as SglangPass
from .sglang import SglangScheduler
from .traffic import read_traffic

# A single instant takes a handful of rounds; more means that nothing moves any more.
MAX_ROUNDS_PER_INSTANT = 10_000


class Worker:
    """`dp_size` ranks that start and end their passes together."""

    def __init__(self, engine: dict[str, Any], identities: Identities, number: int = 0) -> None:
        size = engine.get("dp_size", 1)
        self.ranks: list[Any] = self._ranks(engine["rank"], size, identities, number * size)
        self.interval = engine["rank"].get("prefill_schedule_interval", 1) if size > 1 else 1
        self.step = 0  # passes since the group had nothing to do
        self.next_rank = 0
        self.passes: list[tuple[Any, Any]] = []  # (rank, its pass)
        self.end_ns: int | None = None

    def _ranks(self, rank: dict[str, Any], dp_size: int, identities: Identities, first: int) -> list[Any]:
        return [RankScheduler(rank, identities, first + index) for index in range(dp_size)]

    def place(self, request: Request) -> int:
        """Queue a request on the next rank in rotation; returns that rank's index."""
        rank = self.next_rank
        self.next_rank = (rank + 1) % len(self.ranks)
        self.ranks[rank].waiting.append(request)
        return rank

    def start(self, now_ns: int) -> bool:
        """Start a pass on every rank that has something to do; False when none has."""
        if self.end_ns is not None:
            return False
        self.passes = self._plan([rank for rank in self.ranks if rank.ready], now_ns)
        if not self.passes:
            return False
        # The barrier: nobody's results are visible before the slowest rank is done.
        self.end_ns = now_ns + max(work.duration_ns for _, work in self.passes)
        return True

    def _plan(self, ready: list[Any], now_ns: int) -> list[tuple[Any, Any]]:
        for rank in self.ranks:
            late = self.step % self.interval > 0
            rank.deferring = late and not rank.capacity_bound and rank.has_decoder
        return [(rank, rank.plan(now_ns)) for rank in ready]

    def finish(self) -> list[Request]:
        """End the pass; returns the requests that became terminal."""
        assert self.end_ns is not None
        ended = [request for rank, work in self.passes for request in rank.settle(work, self.end_ns)]
        self.end_ns = None
        self.step = self.step + 1 if any(rank.ready for rank in self.ranks) else 0
        return ended


class SglangWorker(Worker):
    """A worker whose ranks all pause prefilling for some rounds after any of them prefilled."""

    pause = 0  # rounds left

    def _ranks(self, rank: dict[str, Any], dp_size: int, identities: Identities, first: int) -> list[Any]:
        return [SglangScheduler(rank, identities, dp_size, first + index) for index in range(dp_size)]

    def _plan(self, ready: list[Any], now_ns: int) -> list[tuple[Any, Any]]:
        paused = self.pause > 0
        passes: list[tuple[SglangScheduler, SglangPass]] = [
            (rank, rank.plan(now_ns, not paused)) for rank in ready
        ]
        if paused and not any(work.ran_model for _, work in passes):
            for rank in ready:
                rank.ratio = rank.first_ratio
        self.pause = max(0, self.pause - 1)
        if any(work.prefills for _, work in passes):
            self.pause = self.ranks[0].interval
        return passes

    def start(self, now_ns: int) -> bool:
        """Start a pass; a worker that could but has no requests at all forgets about the pause."""
        idle = self.end_ns is None
        started = super().start(now_ns)
        if idle and not started:
            self.pause = 0
        return started


def make_worker(engine: dict[str, Any], identities: Identities, number: int, interval: int = 1) -> Worker:
    """Worker `number`, with the rules of its backend."""
    from .ahead import AheadWorker
    from .polling import PollingAheadWorker, PollingSglangWorker, PollingWorker

    if engine["rank"].get("scheduling_look_ahead"):
        if interval <= 1:
            return AheadWorker(engine, identities, number)
        ahead = PollingAheadWorker(engine, identities, number)
        ahead.receive_interval = interval
        return ahead
    if engine["rank"].get("state_cache"):
        from .state import StateWorker

        return StateWorker(engine, identities, number)
    is_sglang = engine["rank"].get("backend") == "sglang"
    if interval > 1:
        worker = (PollingSglangWorker if is_sglang else PollingWorker)(engine, identities, number)
        worker.receive_interval = interval
        return worker
    return (SglangWorker if is_sglang else Worker)(engine, identities, number)


@dataclass
class Outcome:
    """Every request that arrived, in dispatch order, and the last processed instant."""

    requests: list[Request]
    end_ns: int


class Fleet:
    """N workers behind round robin, driven to the end of the traffic or to `max_sim_time_ms`."""

    def __init__(self, payload: dict[str, Any]) -> None:
        spec = payload["spec"]
        workers = spec["topology"]["workers"]["initial_workers"]
        identities = Identities()
        traffic = payload["traffic"]
        self.driver: Driver | GraphDriver
        if traffic.get("trace_format") == "agentic_mooncake":
            self.driver = GraphDriver(traffic)
        else:
            self.driver = Driver(read_traffic(traffic, spec["engine"], workers))
        interval = (spec.get("frontend") or {}).get("receive_interval", 1)
        self.workers = [
            make_worker(spec["engine"], identities, number, interval) for number in range(workers)
        ]
        limit_ms = spec.get("max_sim_time_ms")
        self.limit_ns = None if limit_ms is None else clock_ns(float(limit_ms))
        self.next_worker = 0
        self.requests: list[Request] = []
        self.now_ns = 0

    def run(self) -> Outcome:
        """Process instant after instant."""
        while (instant := self._next_instant()) is not None:
            if self.limit_ns is not None and instant > self.limit_ns:
                break
            self.now_ns = instant
            rounds = 0
            while self._round():
                rounds += 1
                assert rounds < MAX_ROUNDS_PER_INSTANT, "time stands still"
        return Outcome(self.requests, self.now_ns)

    def _next_instant(self) -> int | None:
        instants = [worker.end_ns for worker in self.workers] + [self.driver.due_ns()]
        return min((instant for instant in instants if instant is not None), default=None)

    def _round(self) -> bool:
        """Ends of passes, then arrivals, then starts; True when anything happened."""
        moved = False
        for worker in self.workers:
            if worker.end_ns == self.now_ns:
                moved = True
                self._finish(worker)
        for request in self.driver.take(self.now_ns):
            moved = True
            self._place(request)
        for worker in self.workers:
            moved = self._start(worker) or moved
        return moved

    def _start(self, worker: Worker) -> bool:
        """Start a pass; one of zero length ends at once, and the worker goes on before anybody else acts."""
        started = 0
        while worker.start(self.now_ns):
            started += 1
            assert started < MAX_ROUNDS_PER_INSTANT, "zero-length passes without end"
            if worker.end_ns != self.now_ns:
                break
            self._finish(worker)
        return started > 0

    def _finish(self, worker: Worker) -> None:
        for request in worker.finish():
            self.driver.ended(request, self.now_ns)

    def _place(self, request: Request) -> None:
        index = self.next_worker
        self.next_worker = (index + 1) % len(self.workers)
        worker = self.workers[index]
        request.number = len(self.requests)
        request.scheduler = index * len(worker.ranks) + worker.place(request)
        self.requests.append(request)


def replay(payload: dict[str, Any]) -> Outcome:
    """Run a `{spec, traffic}` payload of `run_replay_json`."""
    return Fleet(payload).run()
