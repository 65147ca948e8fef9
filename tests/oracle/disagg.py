"""A disaggregated fleet, event by event (spec 02 sections 5 and 6)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from aisimulate.core.units import clock_ns

from .content import Identities
from .driver import Driver
from .fleet import MAX_ROUNDS_PER_INSTANT
from .handoff import DecodeRank, Handoff, PrefillRank
from .request import Request
from .scheduler import Pass
from .traffic import read_traffic

Action = Callable[[Handoff], None]


class Worker:
    """Ranks that start and end their passes together; `deferred` actions wait for that end."""

    def __init__(self, ranks: list[Any], interval: int = 1) -> None:
        self.ranks = ranks
        self.interval = interval if len(ranks) > 1 else 1  # of passes that begin prefills
        self.step = 0  # passes since the group had nothing to do
        self.passes: list[tuple[Any, Pass]] = []
        self.end_ns: int | None = None
        self.deferred: list[tuple[int, Action, Handoff]] = []  # with the rank they are for
        self.stalled = False  # computes in vain, until something else happens here

    @property
    def busy(self) -> bool:
        """Whether a pass is in flight."""
        return self.end_ns is not None

    def start(self, now_ns: int) -> bool:
        """Start a pass if that would do anything."""
        if self.stalled:
            return False
        for rank in self.ranks:
            late = self.step % self.interval > 0
            rank.deferring = late and not rank.capacity_bound and rank.has_decoder
        self.passes = [(rank, rank.plan(now_ns)) for rank in self.ranks if rank.ready]
        if not any(_has_effect(rank, work) for rank, work in self.passes):
            circles = any(getattr(rank, "goes_in_circles", False) for rank in self.ranks)
            self.stalled = circles or any(work.preempted_any for _, work in self.passes)
            return False
        self.end_ns = now_ns + max(work.duration_ns for _, work in self.passes)
        return True

    def finish(self) -> list[Request]:
        """End the pass; returns the requests that ended on this worker."""
        end_ns, self.end_ns = self.end_ns, None
        assert end_ns is not None
        ended = [request for rank, work in self.passes for request in rank.settle(work, end_ns)]
        self.step = self.step + 1 if any(map(_is_occupied, self.ranks)) else 0
        return ended


def _is_occupied(rank: Any) -> bool:
    return bool(rank.ready or getattr(rank, "expects", False))  # SGLang has no such cadence


def _has_effect(rank: Any, work: Pass) -> bool:
    if work.emitting or work.finished or work.rejected or work.duration_ns:
        return True
    # Blocks for bursts are held by others: who always comes for nothing does not come again before them.
    in_vain = isinstance(rank, DecodeRank) and rank.goes_in_circles
    return bool(work.computed or work.preempted_any) and not in_vain


class DisaggFleet:
    """Prefill and decode workers behind two rotations, driven to the end of the traffic or to a limit."""

    def __init__(self, payload: dict[str, Any]) -> None:
        spec = payload["spec"]
        topology, engine = spec["topology"], spec["engine"]
        prefill, decode = engine["prefill"], engine["decode"]
        identities = [Identities(), Identities()]
        self.prefill, self.decode = self._pools(topology, prefill, decode, identities)
        self.driver = Driver(read_traffic(payload["traffic"], decode, len(self.decode)))
        limit_ms = spec.get("max_sim_time_ms")
        self.limit_ns = None if limit_ms is None else clock_ns(float(limit_ms))
        self.latency_ms = topology.get("handoff_latency_ms", 0.0)
        self.link = prefill["rank"]
        self.handoffs: list[Handoff] = []
        self.of: dict[Request, Handoff] = {}
        self.transfers: list[tuple[int, int, Handoff]] = []
        self.actions: list[tuple[Action, Handoff]] = []
        self.prefill_turn = self.decode_turn = 0
        # What follows from an arrival, a computed prompt, a reserved destination.
        self.arrived: Action = self._submit
        self.computed: Action = self._reserve
        self.reserved: Action = self._transfer
        self.now_ns = 0

    def _pools(
        self, topology: Any, prefill: Any, decode: Any, identities: list[Identities]
    ) -> tuple[list[Worker], list[Worker]]:
        from .ahead_pair import AheadDecodeRank, AheadPrefillRank

        first = AheadPrefillRank if prefill["rank"].get("scheduling_look_ahead") else PrefillRank
        second = AheadDecodeRank if decode["rank"].get("scheduling_look_ahead") else DecodeRank
        return (
            _workers(topology["prefill"], prefill, lambda _: first(prefill["rank"], identities[0])),
            _workers(topology["decode"], decode, lambda n: second(decode["rank"], identities[1], n)),
        )

    # The clock ----------------------------------------------------------------------------------------

    def run(self) -> DisaggFleet:
        """Process instant after instant."""
        while (instant := self._next_instant()) is not None:
            if self.limit_ns is not None and instant > self.limit_ns:
                break
            self.now_ns = instant
            rounds = 0
            while self._round():
                rounds += 1
                assert rounds < MAX_ROUNDS_PER_INSTANT, "time stands still"
        return self

    def _next_instant(self) -> int | None:
        instants = [worker.end_ns for worker in self.prefill + self.decode]
        instants += [self.driver.due_ns(), min(self.transfers)[0] if self.transfers else None]
        instant = min((instant for instant in instants if instant is not None), default=None)
        stuck = [rank for worker in self.decode for rank in worker.ranks if rank.stuck]
        if instant is None and stuck:
            for worker in self.decode:
                worker.stalled = False
            for rank in stuck:
                rank.last_resort = True
            return self.now_ns
        return instant

    def _round(self) -> bool:
        """Ends of passes, ends of transfers, actions, arrivals, starts; True when anything happened."""
        moved = False
        for worker in self.prefill + self.decode:
            if worker.end_ns == self.now_ns:
                moved = True
                self._finish(worker)
        for due in sorted(self.transfers):
            if due[0] == self.now_ns:
                self.transfers.remove(due)
                self.actions.append((self._activate, due[2]))
        while self.actions:
            moved = True
            action, handoff = self.actions.pop(0)
            action(handoff)
        for request in self.driver.take(self.now_ns):
            moved = True
            self._arrive(request)
        for worker in self.prefill + self.decode:
            moved = self._start(worker) or moved
        return moved

    def _start(self, worker: Worker) -> bool:
        started = 0
        while not worker.busy:
            assert started < MAX_ROUNDS_PER_INSTANT, "zero-length passes without end"
            if worker.start(self.now_ns):
                if worker.end_ns == self.now_ns:
                    self._finish(worker)
            elif not (any(rank.waiting for rank in worker.ranks) and self._retry_all(worker)):
                break
            started += 1
        return started > 0

    def _finish(self, worker: Worker) -> None:
        for rank in range(len(worker.ranks)):
            self.actions += [(action, handoff) for at, action, handoff in worker.deferred if at == rank]
        worker.deferred = []
        for request in worker.finish():
            handoff = self.of[request]
            if request is handoff.request:
                self.driver.ended(request, self.now_ns)
            elif request.status:
                self._end(handoff, "rejected", request.reason)
            else:
                handoff.held_ns = self.now_ns
                self.actions.append((self.computed, handoff))
        self._retry_all(worker)

    def _retry_all(self, worker: Worker) -> bool:
        if worker not in self.decode:
            return False
        reserved = [self._retry(rank) for rank in worker.ranks]
        worker.stalled = worker.stalled and not any(reserved)
        return any(reserved)

    # The life of a request ----------------------------------------------------------------------------

    def _arrive(self, request: Request) -> None:
        request.number = len(self.handoffs)
        handoff = Handoff(request.number, request)
        self.handoffs.append(handoff)
        self.of[request] = self.of[handoff.source] = handoff
        self.actions.append((self.arrived, handoff))

    def _submit(self, handoff: Handoff) -> None:
        ranks = [(worker, rank) for worker in self.prefill for rank in worker.ranks]
        handoff.source.scheduler = self.prefill_turn % len(ranks)
        self.prefill_turn += 1
        worker, rank = ranks[handoff.source.scheduler]
        handoff.prefill, handoff.reached_prefill = self.prefill.index(worker), True
        rank.waiting.append(handoff.source)

    def _reserve(self, handoff: Handoff) -> None:
        ranks = [(worker, rank) for worker in self.decode for rank in worker.ranks]
        handoff.request.scheduler = self.decode_turn % len(ranks)
        self.decode_turn += 1
        worker, rank = ranks[handoff.request.scheduler]
        worker.stalled = False
        handoff.decode, handoff.rank = self.decode.index(worker), worker.ranks.index(rank)
        reason = rank.accept(handoff)
        if reason:
            handoff.decode = None
            self._end(handoff, "failed", reason)
            if handoff.held_ns is not None:
                self.actions.append((self._release, handoff))
        elif not worker.busy:
            self._retry(rank)

    def _retry(self, rank: DecodeRank) -> bool:
        handoff = rank.attempt()
        if handoff is None:
            return False
        handoff.reserved_ns = self.now_ns
        self.actions.append((self.reserved, handoff))
        return True

    def _transfer(self, handoff: Handoff) -> None:
        delay_ns = self._delay_ns(handoff)
        if delay_ns:
            self.transfers.append((self.now_ns + delay_ns, handoff.number, handoff))
        else:
            self.actions.append((self._activate, handoff))

    def _delay_ns(self, handoff: Handoff) -> int:
        size, speed = self.link.get("kv_transfer_bytes_per_token"), self.link.get("kv_transfer_bandwidth")
        if not size or not speed:
            return clock_ns(float(self.latency_ms))
        missing_only = self.link.get("kv_transfer_timing_mode") == "destination_missing"
        tokens = handoff.missing_tokens if missing_only else handoff.request.isl
        return round(Fraction(tokens * size) / Fraction(speed))  # 1 GB/s is one byte per ns

    def _activate(self, handoff: Handoff) -> None:
        assert handoff.decode is not None
        worker = self.decode[handoff.decode]
        if worker.busy:
            worker.deferred.append((handoff.rank, self._activate, handoff))
            return
        rank = worker.ranks[handoff.rank]
        worker.stalled = False
        rank.activate(handoff)
        handoff.activated_ns = self.now_ns
        self.actions.append((self._release, handoff))
        self._retry(rank)

    def _release(self, handoff: Handoff) -> None:
        worker = self.prefill[handoff.prefill]
        rank = handoff.source.scheduler % len(worker.ranks)
        if worker.busy:
            worker.deferred.append((rank, self._release, handoff))
            return
        worker.ranks[rank].release(handoff.source)
        if handoff.activated_ns is not None:
            handoff.released_ns = self.now_ns

    def _end(self, handoff: Handoff, status: str, reason: str | None) -> None:
        handoff.request.end(self.now_ns, status, reason)
        self.driver.ended(handoff.request, self.now_ns)


def _workers(pool: dict[str, Any], role: dict[str, Any], make_rank: Callable[[int], Any]) -> list[Worker]:
    size, interval = role.get("dp_size", 1), role["rank"].get("prefill_schedule_interval", 1)
    from .ahead_pair import AheadPairWorker

    kind = AheadPairWorker if role["rank"].get("scheduling_look_ahead") else Worker
    return [
        kind([make_rank(first + index) for index in range(size)], interval)
        for first in range(0, pool["initial_workers"] * size, size)
    ]


def replay_disaggregated(payload: dict[str, Any]) -> DisaggFleet:
    """Run a `{spec, traffic}` payload with a disaggregated topology."""
    return DisaggFleet(payload).run()
