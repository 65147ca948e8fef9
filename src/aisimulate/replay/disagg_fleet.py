"""The event loop of a disaggregated replay: prefill workers, decode workers, and what passes between them.

At one instant, in this order until nothing more happens: passes end, transfers end, actions on workers are
carried out in the order they came up, requests arrive, idle prefill and then idle decode workers start
passes. So what arrives at the end of a pass does not join the next one, unless the worker was idle.
Actions that change the blocks of a worker wait until it is between passes (spec 02 section 5).
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

from aisimulate.core.errors import ReplayError
from aisimulate.engine.decode_worker import DecodeWorker
from aisimulate.engine.handoff import Handoff
from aisimulate.engine.prefill_worker import PrefillWorker
from aisimulate.engine.sequence import FAILED, REJECTED
from aisimulate.replay.fleet import NEVER, Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from collections.abc import Sequence as ListOf

    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.transfer import TransferTime
    from aisimulate.replay.fleet import Placement
    from aisimulate.workload.drivers import Driver


class Source(Protocol):
    """What the event loop needs of a prefill rank besides its passes."""

    def release(self, sequence: Sequence) -> None: ...  # noqa: D102


class Destination(Protocol):
    """What the event loop needs of a decode rank besides its passes."""

    @property
    def has_candidates(self) -> bool: ...  # noqa: D102
    @property
    def pending(self) -> Collection[Handoff]: ...  # noqa: D102
    @property
    def is_freed(self) -> bool: ...  # noqa: D102
    def come_to(self, now_ns: int) -> None: ...  # noqa: D102
    def accept(self, handoff: Handoff) -> bool: ...  # noqa: D102
    def attempt(self) -> Handoff | None: ...  # noqa: D102
    def activate(self, handoff: Handoff) -> None: ...  # noqa: D102
    def receive(self) -> Handoff | None: ...  # noqa: D102
    def unblock(self) -> bool: ...  # noqa: D102


class Gate(Protocol):
    """Where prompts may have to wait for a prefill worker; it has to be told of what they may wait for."""

    on_release: Callable[[], None]

    def offer(self, sequence: Sequence) -> bool: ...  # noqa: D102
    def pop_released(self) -> list[Sequence]: ...  # noqa: D102
    def completed(self, sequence: Sequence) -> None: ...  # noqa: D102


class DisaggFleet(Fleet):
    """Serves all traffic on a prefill and a decode pool.

    Workers are numbered prefill first. The prompt is computed before its destination is reserved
    ("source first", as vLLM and TensorRT-LLM do), or after that (`DestinationFirstFleet`).
    """

    def __init__(
        self,
        pools: tuple[list[Worker], list[Worker]],
        ranks: tuple[ListOf[ListOf[Source]], ListOf[ListOf[Destination]]],
        placements: tuple[Placement, Placement],
        driver: Driver,
        transfer: TransferTime,
        limit_ns: int | None = None,
    ) -> None:
        prefill, decode = pools
        super().__init__([*prefill, *decode], driver, placements[0], limit_ns)
        self._sources, self._destinations = ranks
        self._decode_placement = placements[1]
        self._transfer = transfer
        self._delay_ns = transfer.equal_delay_ns
        self._first_decode = len(prefill)  # index of the first decode worker
        self._transfers: list[tuple[int, int, Handoff]] = []
        # Actions to carry out, and those (with their rank) that wait for the end of a pass, by worker.
        self._actions: deque[tuple[Callable[[Handoff], None], Handoff]] = deque()
        self._deferred: dict[int, list[tuple[int, Callable[[Handoff], None], Handoff]]] = {}
        self._idle: list[int] = []  # workers that may start a pass at this instant
        self._blocked: list[int] = []
        self._now_ns = self._boundary_ns = 0
        # Decode workers that may fall behind the clock because nobody needs to know when a request ends, and
        # since when they do.
        is_open = limit_ns is None and driver.is_independent
        self._laggards = [
            worker if is_open and isinstance(worker, DecodeWorker) else None for worker in self._workers
        ]
        self._since = [NEVER] * len(self._workers)
        # Prefill workers that are told of nothing but what `_end_prompts` and `_start_prompts` tell them.
        self._are_plain = [
            type(self) is DisaggFleet and type(worker) is PrefillWorker for worker in self._workers
        ]
        # Prompts that wait, by ordinal; those that were let in come before all other actions.
        self._gate: Gate | None = None
        self._at_gate: dict[int, Handoff] = {}
        self._entering = 0
        # What follows from an arrival, a computed prompt, a reserved destination.
        self._arrived: Callable[[Handoff], None] = self._submit
        self._computed: Callable[[Handoff], None] = self._reserve
        self._reserved: Callable[[Handoff], None] = self._start_transfer

    @property
    def first_decode(self) -> int:
        """Index of the first decode worker; prefill workers that come move it up."""
        return self._first_decode

    def add_worker(self, index: int, worker: Worker) -> None:
        """Insert an idle worker that keeps to the clock; those behind it move up."""
        super().add_worker(index, worker)
        self._laggards.insert(index, None)
        self._since.insert(index, NEVER)
        self._are_plain.insert(index, False)

    def run(self) -> None:
        """Run to the end of the traffic, or to the limit. Raises ReplayError when requests remain."""
        if self._run_clock():
            return
        unserved = self._transfers or any(worker.busy or worker.has_work for worker in self._workers)
        if unserved or self._is_anybody_waiting() or self._driver.next_ready_ns() is not None:
            raise ReplayError("requests remain where the clock ends: they arrive too late, or take too long")

    def _run_clock(self) -> bool:
        """Run event by event; return whether the limit ended the run."""
        ends, workers, laggards = self._ends, self._workers, self._laggards
        last_ns = NEVER - 1 if self._limit_ns is None else min(self._limit_ns, NEVER - 1)
        self._look_for_arrivals()
        while True:
            end_ns = min(ends)
            if end_ns < self._arrival_ns:
                worker = workers[index := ends.index(end_ns)]
                if not worker.exact:
                    worker.settle()
                    ends[index] = worker.end_ns
                    continue
                if end_ns > last_ns:
                    return self._is_stopped()
                ends[index] = NEVER
                if min(ends) > end_ns:
                    self.end_ns = self._now_ns = self._boundary_ns = end_ns
                    self._go_between(index, laggards[index])
                    continue
                ends[index] = end_ns
            elif self._arrival_ns < NEVER:
                end_ns = self._next_exact_ns()
            else:
                end_ns = self._unblock()
            if end_ns > last_ns:
                return self._is_stopped()
            self._settle_instant(end_ns)

    def _next_exact_ns(self) -> int:
        """Find the next instant, where a pass may end together with an arrival."""
        ends, arrival_ns = self._ends, self._arrival_ns
        while (end_ns := min(ends)) <= arrival_ns:
            worker = self._workers[index := ends.index(end_ns)]
            if worker.exact:
                return end_ns
            worker.settle()
            ends[index] = worker.end_ns
        return arrival_ns

    def _go_between(self, index: int, laggard: DecodeWorker | None) -> None:
        """Let a worker be between passes, when nothing else happens at this instant but what follows."""
        now_ns = self._now_ns
        if self._are_plain[index]:
            self._idle = [index]
            self._end_prompts(index, now_ns)
        elif laggard is not None and laggard.is_over and self._delay_ns == 0 and index not in self._deferred:
            self._idle = []
            laggard.finish()
            self._hand_over(index, laggard)
        else:
            self._idle = [index]
            self._finish(index, now_ns)
            self._act()
        if self._idle == [index] and self._are_plain[index]:
            self._start_prompts(index, now_ns)
        elif self._idle:
            self._settle_rounds(now_ns, now_ns, self._idle)

    def _end_prompts(self, index: int, now_ns: int) -> None:
        """End the pass of a plain prefill worker, and all that follows: `_finish` and `_act` in one."""
        self._ends[index] = NEVER
        terminal = self._workers[index].finish()
        for _, _, handoff in self._deferred.pop(index, ()):
            self._give_back(handoff, now_ns)
        for source in terminal:
            if source.status is None:
                source.handoff.held_ns = now_ns
                self._reserve(source.handoff)
            else:
                self._end_early(source.handoff, source.status, source.reason)
        if self._actions:
            self._act()

    def _start_prompts(self, index: int, now_ns: int) -> None:
        """Go on with a plain prefill worker, the only one that may: what `_settle_rounds` mostly comes to."""
        worker = self._workers[index]
        if worker.start(now_ns):
            self._ends[index] = worker.end_ns
            if worker.end_ns == now_ns:
                self._finish(index, now_ns)
                self._settle_rounds(now_ns, now_ns, [index])
                return
        if self._arrival_ns <= now_ns:
            self._settle_rounds(now_ns, now_ns, [])

    def _hand_over(self, index: int, laggard: DecodeWorker) -> None:
        """Reserve and activate what waits on a decode worker, one after the other: transfers take no time."""
        now_ns, workers, ends = self._now_ns, self._workers, self._ends
        (rank,) = self._destinations[index - self._first_decode]
        ends[index] = NEVER
        while (handoff := rank.receive()) is not None:
            handoff.reserved_ns = handoff.activated_ns = now_ns
            source = handoff.source
            worker = workers[source.worker]
            if worker.busy:
                if type(worker) is PrefillWorker and (boundary_ns := worker.boundary_within(now_ns)):
                    self._give_back(handoff, boundary_ns)
                    continue
                worker.cut(now_ns)
                end_ns = ends[source.worker] = worker.end_ns
                if end_ns > now_ns:
                    self._defer(source.worker, source.rank, self._release, handoff)
                    continue
            elif not worker.has_work:
                self._give_back(handoff, now_ns)  # for which it did not wait
                continue
            self._release(handoff)
        if laggard.is_alone:
            self._since[index] = now_ns
        else:
            self._idle.append(index)

    def _act(self) -> None:
        """Carry out the actions that have come up, in order."""
        actions = self._actions
        while actions:
            action, handoff = actions.popleft()
            action(handoff)

    def _unblock(self) -> int:
        """Nothing happens any more by itself, so no decode rank may wait for something to happen."""
        if max(self._ends) > NEVER:
            return NEVER  # a pass goes on when the clock ends
        self._catch_up()
        for index, ranks in enumerate(self._destinations, self._first_decode):
            unblocked = [rank.unblock() for rank in ranks]
            if any(unblocked):
                self._blocked.append(index)
        for index in self._idle_linked() if self._linked else ():
            sleeper = self._sleepers[index]
            if sleeper is not None and sleeper.give_up():
                self._blocked.append(index)
        return self.end_ns if self._blocked else NEVER

    def _catch_up(self) -> None:
        """Let the decode workers that fell behind do all they can do by themselves."""
        for index, worker in enumerate(self._laggards):
            if worker is not None and self._since[index] < NEVER:
                self.end_ns = max(self.end_ns, worker.advance(self._since[index], NEVER))
                self._since[index] = NEVER

    def _look_for_arrivals(self) -> None:
        super()._look_for_arrivals()
        if self._transfers:
            self._arrival_ns = min(self._arrival_ns, self._transfers[0][0])

    def _settle_instant(self, now_ns: int) -> None:
        """Let everything happen that happens at `now_ns`."""
        self.end_ns = self._now_ns = self._boundary_ns = now_ns
        self._settle_rounds(now_ns, now_ns, self._end_and_act(now_ns))

    def _end_and_act(self, now_ns: int) -> list[int]:
        """End passes and transfers and carry out actions; return the workers that became idle."""
        idle = self._idle = self._finish_passes([], now_ns)
        if self._blocked:
            idle += self._blocked
            self._blocked = []
        if self._arrival_ns <= now_ns:
            self._end_transfers(now_ns)
        self._act()
        return idle

    def _settle_rounds(self, now_ns: int, boundary_ns: int, idle: list[int]) -> None:
        """Let requests arrive and passes start on `idle` workers, until nothing more happens at `now_ns`."""
        self._boundary_ns = boundary_ns
        while True:
            if self._arrival_ns <= now_ns:
                self._actions += [
                    (self._arrived, Handoff(sequence)) for sequence in self._driver.pop_ready(now_ns)
                ]
                self._look_for_arrivals()
            self._start_passes(idle, now_ns)
            if not self._actions and self._arrival_ns > now_ns and min(self._ends) > now_ns:
                return
            # Passes that started in an earlier round of this instant run to a later boundary.
            self._boundary_ns = now_ns + 1
            idle = self._end_and_act(now_ns)

    def _end_transfers(self, now_ns: int) -> None:
        transfers = self._transfers
        while transfers and transfers[0][0] <= now_ns:
            self._actions.append((self._activate, heappop(transfers)[2]))

    # Passes -------------------------------------------------------------------------------------------

    def _finish(self, index: int, now_ns: int) -> None:
        """End the passes of a worker; what waited for that comes before what follows from it."""
        self._ends[index] = NEVER
        if index in self._deferred:
            deferred = self._deferred.pop(index)
            if len(deferred) > 1:
                deferred.sort(key=_rank_order)
            self._actions += [(action, handoff) for _, action, handoff in deferred]
        was_busy = self._workers[index].busy
        terminal = self._workers[index].finish()
        if index < self._first_decode:
            for source in terminal:
                if source.status is None:
                    source.handoff.held_ns = now_ns
                    self._actions.append((self._computed, source.handoff))
                else:
                    self._end_early(source.handoff, source.status, source.reason)
            return
        if terminal:
            for request in terminal:
                self._driver.on_terminal(request, now_ns)
            self._look_for_arrivals()
        if was_busy:  # else it just woke up, and tries them when no pass starts
            self._retry_all(index)

    def _start_passes(self, candidates: list[int], now_ns: int) -> None:
        if self._linked:  # what others did may let any of those that share go on
            candidates = [*candidates, *self._idle_linked()]
        if len(candidates) > 1:
            candidates = sorted(set(candidates))
        self._start_all(candidates, now_ns)
        while self._linked and (idle := self._idle_linked()):
            self._start_all(idle, now_ns)
            if idle == self._idle_linked():
                break
        if self._may_sleep:
            self._set_alarms(candidates, now_ns)

    def _idle_linked(self) -> list[int]:
        sleepers = enumerate(self._sleepers)
        linked = (index for index, sleeper in sleepers if sleeper is not None and sleeper.is_linked)
        return [index for index in linked if not self._workers[index].busy]

    def _start_all(self, candidates: list[int], now_ns: int) -> None:
        """Start passes on idle workers in worker order."""
        for index in candidates:
            worker = self._workers[index]
            laggard = self._laggards[index]
            if laggard is not None and laggard.is_alone and not worker.busy:
                self._since[index] = now_ns
                continue
            while not worker.busy:
                if worker.start(now_ns):
                    if worker.end_ns == now_ns and not worker.exact:
                        worker.settle()
                    self._ends[index] = worker.end_ns
                    if worker.end_ns == now_ns:
                        self._finish(index, now_ns)
                elif index < self._first_decode or not self._ends_without_work(index):
                    break

    def _ends_without_work(self, index: int) -> bool:
        """Try destinations at the end of a pass in which all of the queue had to wait."""
        ranks = self._destinations[index - self._first_decode]
        is_tried = any(rank.has_candidates for rank in ranks) or self._is_freed(index)
        return is_tried and self._retry_all(index)

    def _is_freed(self, index: int) -> bool:
        """Whether blocks of a decode worker have become free beside its passes."""
        return any(rank.is_freed for rank in self._destinations[index - self._first_decode])

    def _between_passes(self, index: int) -> bool:
        """Whether a worker is idle at this instant; a run in flight ends at its next boundary."""
        if (since_ns := self._since[index]) < NEVER:
            self._since[index] = NEVER
            laggard = self._laggards[index]
            assert laggard is not None
            if laggard.catch_up(since_ns, self._now_ns, self._boundary_ns):
                self._ends[index] = laggard.end_ns
                return False
        elif (worker := self._workers[index]).busy:
            self._cut(index, self._now_ns, self._boundary_ns)
            if worker.busy:
                return False
        if index not in self._idle:
            self._idle.append(index)
        return True

    def _defer(self, index: int, rank: int, action: Callable[[Handoff], None], handoff: Handoff) -> None:
        self._deferred.setdefault(index, []).append((rank, action, handoff))

    # The life of a request ----------------------------------------------------------------------------

    def close(self, gate: Gate) -> None:
        """Let prompts wait at `gate` before they are computed."""
        self._gate = gate
        gate.on_release = self._open

    def _open(self) -> None:
        """Let those in that the gate has released."""
        assert self._gate is not None
        for source in self._gate.pop_released():
            self._actions.insert(self._entering, (self._enter, self._at_gate.pop(source.ordinal)))
            self._entering += 1

    def _enter(self, handoff: Handoff) -> None:
        self._entering -= 1
        self._compute(handoff)

    def _submit(self, handoff: Handoff) -> None:
        if self._gate is None or self._gate.offer(handoff.source):
            self._compute(handoff)
        else:
            self._at_gate[handoff.source.ordinal] = handoff

    def _compute(self, handoff: Handoff) -> None:
        """Queue a prompt on a prefill worker."""
        source = handoff.source
        index, source.rank = self._placement.place(source)
        source.worker = index
        handoff.pools += ("prefill",)
        worker = self._workers[index]
        worker.submit(source)
        if worker.busy:
            self._cut(index, self._now_ns, self._boundary_ns)
        self._idle.append(index)

    def _reserve(self, handoff: Handoff) -> None:
        """Queue a destination on a decode worker, or end the request when it can never have one."""
        request = handoff.request
        request.worker, request.rank = self._decode_placement.place(request)
        handoff.pools += ("decode",)
        self._queue_destination(handoff)

    def _queue_destination(self, handoff: Handoff) -> None:
        """Do so on the decode worker that was chosen."""
        request = handoff.request
        rank = self._destinations[request.worker][request.rank]
        is_idle = self._between_passes(self._first_decode + request.worker)
        if not rank.accept(handoff):
            self._end_early(handoff, FAILED, request.reason)
        elif is_idle:
            self._retry(rank)

    def _retry(self, rank: Destination) -> bool:
        """Reserve blocks for the destination at the head of a rank's queue, if there are any now."""
        rank.come_to(self._now_ns)
        handoff = rank.attempt()
        if handoff is None:
            return False
        handoff.reserved_ns = self._now_ns
        self._actions.append((self._reserved, handoff))
        return True

    def _retry_all(self, index: int) -> bool:
        """Retry each rank of a decode worker."""
        reserved = False
        for rank in self._destinations[index - self._first_decode]:
            if rank.pending and self._retry(rank):
                reserved = True
        return reserved

    def _start_transfer(self, handoff: Handoff) -> None:
        delay_ns = self._delay_ns
        if delay_ns is None:
            delay_ns = self._transfer.delay_ns(handoff)
        if delay_ns:
            end_ns = self._now_ns + delay_ns
            heappush(self._transfers, (end_ns, handoff.request.ordinal, handoff))
            self._arrival_ns = min(self._arrival_ns, end_ns)
        else:
            self._actions.append((self._activate, handoff))

    def _activate(self, handoff: Handoff) -> None:
        """Let the request into the queue of its decode rank, when that is between passes."""
        request = handoff.request
        index = self._first_decode + request.worker
        if not self._between_passes(index):
            self._defer(index, request.rank, self._activate, handoff)
            return
        rank = self._destinations[request.worker][request.rank]
        rank.activate(handoff)
        handoff.activated_ns = self._now_ns
        self._actions.append((self._release, handoff))
        if rank.pending:
            self._retry(rank)

    def _release(self, handoff: Handoff) -> None:
        """Give back the blocks of the source, when its worker is between passes."""
        source = handoff.source
        if not self._between_passes(source.worker):
            self._defer(source.worker, source.rank, self._release, handoff)
            return
        self._give_back(handoff, self._now_ns)

    def _give_back(self, handoff: Handoff, now_ns: int) -> None:
        source = handoff.source
        self._sources[source.worker][source.rank].release(source)
        if handoff.activated_ns is not None:
            handoff.released_ns = now_ns
        if self._gate is not None:
            self._actions.append((self._complete, handoff))

    def _complete(self, handoff: Handoff) -> None:
        """End a handover: that comes after all else that came up before the source was given back."""
        assert self._gate is not None
        self._gate.completed(handoff.source)

    def _end_early(self, handoff: Handoff, status: str, reason: str | None) -> None:
        """End a request that never decodes, and give back what it holds elsewhere."""
        assert status in (REJECTED, FAILED)
        request = handoff.request
        request.status, request.reason, request.terminal_ns = status, reason, self._now_ns
        if handoff.held_ns is not None:
            self._actions.append((self._release, handoff))
        self._driver.on_terminal(request, self._now_ns)
        self._look_for_arrivals()


def _rank_order(deferred: tuple[int, Callable[[Handoff], None], Handoff]) -> int:
    return deferred[0]
