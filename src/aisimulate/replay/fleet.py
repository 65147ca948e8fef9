"""The event loop of a replay: workers, arrivals, and the order of things at one instant."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from aisimulate.core.errors import ReplayError
from aisimulate.core.units import to_ms
from aisimulate.engine.worker import RankWorker
from aisimulate.replay.closed_loop import closed_loop
from aisimulate.router.round_robin import RoundRobin
from aisimulate.workload.driver import SessionDriver

if TYPE_CHECKING:
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.sequence import Sequence
    from aisimulate.replay.settled import Settled
    from aisimulate.workload.drivers import Driver

NEVER = 1 << 62
# Requests that lanes dispatch at a time, and ended ones that wait for a long replay to be tidied up.
_BATCH = 1 << 14
_MOST_KEPT = 1 << 16


class Placement(Protocol):
    """Chooses workers for requests."""

    def place(self, sequence: Sequence) -> tuple[int, int]: ...  # noqa: D102


@runtime_checkable
class Sleeper(Protocol):
    """A worker that, though it is not busy, has to be started again at `wake_ns`.

    It has to be started at `background_ns` while more may happen in the fleet. What a *linked* one does may
    change what others find, who wait for it until they `give_up`. One that `interrupts` counts the passes of
    all others.
    """

    wake_ns: int
    background_ns: int
    is_linked: bool
    interrupts: bool

    def give_up(self) -> bool: ...  # noqa: D102


class Fleet:
    """Serves all traffic on a fixed set of workers.

    `limit_ns` stops the run before the first event later than it (events at the limit still happen).
    With `settled`, ended requests of a long replay move there from the driver's list.
    After `run()`, `end_ns` is the last processed event.
    """

    def __init__(
        self,
        workers: list[Worker],
        driver: Driver,
        placement: Placement,
        limit_ns: int | None = None,
        settled: Settled | None = None,
    ) -> None:
        self._workers = workers
        self._driver = driver
        self._placement = placement
        self._limit_ns = limit_ns
        self._arrival_ns = NEVER  # the next arrival known so far
        self._settled = settled
        self._tidy_above = NEVER if settled is None else _MOST_KEPT
        self._ends = [NEVER] * len(workers)  # end (or lower bound of it) of what is in flight
        self._sleepers = [worker if isinstance(worker, Sleeper) else None for worker in workers]
        self._may_sleep = any(self._sleepers)
        self._linked = any(sleeper is not None and sleeper.is_linked for sleeper in self._sleepers)
        self._is_plain = not self._may_sleep  # whether `_settle_instant` may be passed over
        self.end_ns = 0

    @property
    def workers(self) -> list[Worker]:
        """All workers, by index; the list that the event loop itself uses."""
        return self._workers

    def add_worker(self, index: int, worker: Worker) -> None:
        """Insert an idle worker, between two instants; those behind it move up."""
        self._workers.insert(index, worker)
        self._ends.insert(index, NEVER)
        sleeper = worker if isinstance(worker, Sleeper) else None
        self._sleepers.insert(index, sleeper)
        self._may_sleep = self._may_sleep or sleeper is not None

    def run(self) -> None:
        """Run to the end of the traffic, or to the limit. Raises ReplayError when the clock ends first."""
        if self._limit_ns is None and self._driver.is_independent and not self._linked:
            self._run_lanes()
        elif self._limit_ns is None and (loop := closed_loop(self._workers, self._driver, self._placement)):
            loop.run(self._tidy_up_in_time)
            self.end_ns = loop.end_ns
        else:
            self._let_passes_end_early()
            if self._run_clock():
                return
        unserved = any(worker.busy or worker.has_work for worker in self._workers)
        if unserved or self._is_anybody_waiting() or self._driver.next_ready_ns() is not None:
            end = f"{to_ms(NEVER):g} ms, where the clock ends"
            raise ReplayError(f"requests remain at {end}: they arrive too late, or passes take too long")

    def _is_anybody_waiting(self) -> bool:
        """Whether anybody has no end: who waits for a copy to or from the host is no work of a worker."""
        return None in map(attrgetter("status"), self._driver.sequences)

    def _let_passes_end_early(self) -> None:
        """Let workers end passes when they begin, unless the limit may come in between."""
        if self._limit_ns is not None:
            return
        extremes = self._driver.extremes if isinstance(self._driver, SessionDriver) else None
        for worker in self._workers:
            if type(worker) is RankWorker:  # its twin for a router tells of the end when it happens
                worker.ends_early = True
                if extremes is not None:
                    worker.ranks[0].expect(*extremes[:2])

    # Shared clock -----------------------------------------------------------------------------------

    def _run_clock(self) -> bool:
        """Run event by event; return whether the limit ended the run.

        Most often one pass ends, nothing else happens at that instant, and only its worker goes on.
        """
        ends, workers, is_plain = self._ends, self._workers, self._is_plain
        last_ns = NEVER - 1 if self._limit_ns is None else min(self._limit_ns, NEVER - 1)
        self._look_for_arrivals()
        while (end_ns := min(ends)) <= last_ns or self._arrival_ns <= last_ns:
            if end_ns > self._arrival_ns:
                self._settle_instant(self._arrival_ns)
                continue
            index = ends.index(end_ns)
            worker = workers[index]
            if not worker.exact:
                worker.settle()
                ends[index] = worker.end_ns
            elif not is_plain:
                self._settle_instant(end_ns)
            else:
                ends[index] = NEVER
                if (terminal := worker.finish()) and self._tell(index, terminal, end_ns):
                    continue
                if end_ns in ends:  # nothing ends earlier
                    self._settle_rounds(end_ns, end_ns, self._finish_passes([index], end_ns))
                    continue
                self.end_ns = end_ns
                if self._arrival_ns <= end_ns:
                    self._settle_rounds(end_ns, end_ns, [index])
                    continue
                if worker.start(end_ns):
                    ends[index] = worker.end_ns
                    if worker.end_ns == end_ns:
                        self._go_on(index, end_ns)
        return self._is_stopped()

    def _tell(self, index: int, terminal: list[Sequence], now_ns: int) -> bool:
        """Tell the traffic which requests ended with the pass of a worker, which is idle now.

        Where one request takes the place of another and nothing else happens, it is placed at once. Return
        whether all that happens at this instant has happened.
        """
        ends, driver = self._ends, self._driver
        if (
            len(terminal) > 1
            or not isinstance(driver, SessionDriver)
            or self._arrival_ns < NEVER
            or min(ends) <= now_ns
            or (sequence := driver.replace(now_ns)) is None
        ):
            self._end(terminal, now_ns)
            return False
        if len(driver.sequences) > self._tidy_above:
            self._tidy_up()
        other, sequence.rank = self._placement.place(sequence)
        sequence.worker = other
        worker = self._workers[other]
        worker.submit(sequence)
        if worker.busy:
            worker.cut(now_ns)
            ends[other] = worker.end_ns
        elif other != index:
            self._settle_rounds(now_ns, now_ns, [index, other])
            return True
        return False

    def _is_stopped(self) -> bool:
        """Account for the limit, if there is one, when the last event up to it happened."""
        if self._limit_ns is None or self._limit_ns >= NEVER:
            return False
        self._stop_at(self._limit_ns)
        return True

    def _look_for_arrivals(self) -> None:
        arrival_ns = self._driver.next_ready_ns()
        self._arrival_ns = NEVER if arrival_ns is None else arrival_ns

    def _go_on(self, index: int, now_ns: int) -> None:
        """See whether a pass that began lasts at all; if not, go on with its worker alone."""
        self._end_at_once(index, now_ns)
        self._start(index, now_ns)
        if self._arrival_ns <= now_ns:
            # What follows from requests that ended in no time is a later round.
            self._settle_rounds(now_ns, now_ns + 1, [])

    def _settle_instant(self, now_ns: int) -> None:
        """Let everything happen that happens at `now_ns`."""
        self._settle_rounds(now_ns, now_ns, self._finish_passes([], now_ns))

    def _settle_rounds(self, now_ns: int, boundary_ns: int, idle: list[int]) -> None:
        """Place arrivals and start passes on `idle` workers, until nothing more happens at `now_ns`.

        Runs that an arrival cuts end at their first boundary from `boundary_ns` on.
        """
        self.end_ns = now_ns
        while True:
            if self._arrival_ns <= now_ns:
                self._place_arrivals(now_ns, boundary_ns, idle)
            self._start_passes(idle, now_ns)
            if self._arrival_ns > now_ns and not (self._may_sleep and min(self._ends) <= now_ns):
                return
            # Passes that started in an earlier round of this instant run to a later boundary.
            boundary_ns = now_ns + 1
            idle = self._finish_passes([], now_ns)

    def _finish_passes(self, idle: list[int], now_ns: int) -> list[int]:
        """End the passes that end now, in worker order, and add the workers to the `idle` ones."""
        ends = self._ends
        while min(ends) == now_ns:
            index = ends.index(now_ns)
            worker = self._workers[index]
            if worker.exact:
                idle.append(index)
                self._finish(index, now_ns)
            else:
                worker.settle()
                ends[index] = worker.end_ns
        return idle

    def _finish(self, index: int, now_ns: int) -> None:
        self._ends[index] = NEVER
        if terminal := self._workers[index].finish():
            self._end(terminal, now_ns)

    def _end(self, terminal: list[Sequence], now_ns: int) -> None:
        """Tell the traffic which requests of a pass ended."""
        on_terminal = self._driver.on_terminal
        for sequence in terminal:
            on_terminal(sequence, now_ns)
        self._look_for_arrivals()

    def _place_arrivals(self, now_ns: int, boundary_ns: int, idle: list[int]) -> None:
        """Place what arrives now; runs in flight where it goes end at their next boundary."""
        driver, workers, place = self._driver, self._workers, self._placement.place
        for sequence in driver.pop_ready(now_ns):
            index, sequence.rank = place(sequence)
            sequence.worker = index
            worker = workers[index]
            worker.submit(sequence)
            if worker.busy:
                self._cut(index, now_ns, boundary_ns)
            if not worker.busy and (not idle or idle[-1] != index):
                idle.append(index)
        arrival_ns = driver.next_ready_ns()
        self._arrival_ns = NEVER if arrival_ns is None else arrival_ns
        if len(driver.sequences) > self._tidy_above:
            self._tidy_up()

    def _tidy_up_in_time(self) -> None:
        """Tidy up when there is enough to tidy up."""
        if len(self._driver.sequences) > self._tidy_above:
            self._tidy_up()

    def _tidy_up(self) -> None:
        """Keep of the requests that ended, and of the passes, only what the report needs."""
        if self._settled is not None:
            self._settled.absorb(self._driver.sequences)
            self._tidy_above = len(self._driver.sequences) + _MOST_KEPT
        for worker in self._workers:
            worker.pack_log()

    def _cut(self, index: int, now_ns: int, boundary_ns: int) -> None:
        """End the run in flight on a worker at its first boundary at or after `boundary_ns`."""
        worker = self._workers[index]
        worker.cut(boundary_ns)
        self._ends[index] = worker.end_ns
        if worker.end_ns == now_ns:
            worker.finish()  # a boundary in the middle of a run: nothing completes
            self._ends[index] = NEVER

    def _start_passes(self, candidates: list[int], now_ns: int) -> None:
        """Start passes on idle workers in worker order."""
        if self._linked:  # what others did may let any of them go on
            candidates = [index for index, worker in enumerate(self._workers) if not worker.busy]
        elif len(candidates) > 1:
            candidates.sort()
        for index in candidates:
            self._start(index, now_ns)
        while self._linked and self._arrival_ns > now_ns and self._start_again(candidates, now_ns):
            pass  # what arrives now comes first
        if self._may_sleep:
            self._set_alarms(candidates, now_ns)
            if self._linked and any(sleeper is not None and sleeper.interrupts for sleeper in self._sleepers):
                self._cut_runs(now_ns)

    def _start_again(self, candidates: list[int], now_ns: int) -> bool:
        """Try idle workers again; return whether any has done anything, maybe in passes of no length."""
        started = False
        for index in candidates:
            started = self._start(index, now_ns) or started
        return started

    def _cut_runs(self, now_ns: int) -> None:
        """Let all runs in flight end with their next pass."""
        for index, worker in enumerate(self._workers):
            if worker.busy:
                worker.cut(now_ns + 1)
                self._ends[index] = worker.end_ns

    def _start(self, index: int, now_ns: int) -> bool:
        """Start a pass on a worker if it is idle; passes of no length end and go on at once.

        Return whether there was any.
        """
        worker, started = self._workers[index], False
        while not worker.busy and worker.start(now_ns):
            started = True
            self._ends[index] = worker.end_ns
            if worker.end_ns == now_ns:
                self._end_at_once(index, now_ns)
        return started

    def _end_at_once(self, index: int, now_ns: int) -> None:
        """End passes that begin and end now, if they really do."""
        worker = self._workers[index]
        if not worker.exact:
            worker.settle()
            self._ends[index] = worker.end_ns
        if worker.end_ns == now_ns:
            self._finish(index, now_ns)

    def _set_alarms(self, candidates: list[int], now_ns: int) -> None:
        """Come back to workers that are neither busy nor done."""
        more = self._arrival_ns < NEVER or any(worker.busy for worker in self._workers)
        more = more or any(sleeper is not None and sleeper.wake_ns < NEVER for sleeper in self._sleepers)
        more = more or (self._linked and any(worker.has_work for worker in self._workers))
        # An alarm that was set while there was more to come may be in vain.
        for index in range(len(self._workers)) if self._linked or not more else candidates:
            sleeper = self._sleepers[index]
            if sleeper is not None and not self._workers[index].busy:
                wake_ns = sleeper.background_ns if more else sleeper.wake_ns
                self._ends[index] = min(max(wake_ns, now_ns), NEVER)

    def _stop_at(self, limit_ns: int) -> None:
        """Find the last pass boundary before the limit; passes in flight contribute nothing else."""
        for worker in self._workers:
            if worker.busy:
                self.end_ns = max(self.end_ns, worker.last_boundary_ns(limit_ns))

    # One worker at a time ----------------------------------------------------------------------------

    def _run_lanes(self) -> None:
        """Run without a shared clock: no request depends on another, so only its own worker sees it.

        No pass starts at the instant of an arrival before it is placed: what arrives then joins that pass.
        """
        ready_ns = [0] * len(self._workers)  # when a worker may start its next pass
        while batch := self._driver.pop_first(_BATCH):
            for index, arriving in enumerate(self._place_all(batch)):
                ready_ns[index] = _serve(self._workers[index], arriving, ready_ns[index])
            self._tidy_up_in_time()
        for index, worker in enumerate(self._workers):
            self.end_ns = max(self.end_ns, worker.advance(ready_ns[index], NEVER))

    def _place_all(self, batch: list[Sequence]) -> list[list[Sequence]]:
        """Place requests; list, by worker, those that it gets."""
        lanes: list[list[Sequence]] = [[] for _ in self._workers]
        if isinstance(self._placement, RoundRobin) and self._placement.dp_size == 1:
            for sequence, worker in zip(batch, self._placement.rotation, strict=False):
                sequence.worker, sequence.rank = worker, 0
                lanes[worker].append(sequence)
            return lanes
        place = self._placement.place
        for sequence in batch:
            sequence.worker, sequence.rank = place(sequence)
            lanes[sequence.worker].append(sequence)
        return lanes


def _serve(worker: Worker, arriving: list[Sequence], ready_ns: int) -> int:
    """Let a worker that may start a pass at `ready_ns` run until the last of these requests came.

    Return when it may start the next one.
    """
    advance, submit = worker.advance, worker.submit
    for sequence in arriving:
        arrival_ns = sequence.arrival_ns
        if ready_ns < arrival_ns:
            ready_ns = advance(ready_ns, arrival_ns)
            if ready_ns < arrival_ns:
                ready_ns = arrival_ns
        submit(sequence)
    return ready_ns
