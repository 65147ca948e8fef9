"""The event loops of replays whose pools scale: a fleet, or a pair of pools, with ticks on the shared clock.

At one instant workers get ready first, then everything happens that happens in a fixed fleet, then workers
that drained are removed, and a tick comes last. A tick after the last request is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from aisimulate.core.errors import ReplayError
from aisimulate.core.units import to_ms
from aisimulate.engine.watch import WatchedWorker
from aisimulate.replay.destination_first import DestinationFirstFleet
from aisimulate.replay.disagg_fleet import DisaggFleet
from aisimulate.replay.fleet import NEVER, Fleet
from aisimulate.replay.observe.fleet import tell_who_waits

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.engine.handoff import Handoff
    from aisimulate.replay.observe.hub import Hub
    from aisimulate.replay.ticks import Scaler

# Ticks in a row that leave waiting requests without a worker, until the replay is given up.
_MOST_IDLE_TICKS = 10_000


class Scaled(Fleet):
    """What makes a fleet scale. `scale_by` has to be called before `run`."""

    _scaler: Scaler
    hub: Hub | None = None  # of those who watch the replay

    def scale_by(self, scaler: Scaler) -> None:
        """Let `scaler` decide how many workers there are."""
        self._scaler = scaler
        self._idle_ticks = 0

    def run(self) -> None:
        """Run to the end of the traffic, or to the limit. Raises ReplayError when requests remain."""
        for pool in self._scaler.pools:
            pool.begin()
        self._run_to_end()
        if self._limit_ns is None and self._scaler.traffic.remains:
            raise ReplayError(
                f"requests remain at {to_ms(self.end_ns):g} ms, and no worker will ever serve them"
            )
        if self.hub is not None:
            self.hub.finish(self.end_ns)

    def _run_to_end(self) -> None:
        """Run instant by instant: ticks and workers that get ready come in between."""
        last_ns = NEVER - 1 if self._limit_ns is None else min(self._limit_ns, NEVER - 1)
        self._look_for_arrivals()
        while (now_ns := self._next_instant_ns()) <= last_ns:
            self._settle_instant(now_ns)
            self.end_ns = now_ns
        if self._limit_ns is not None and self._limit_ns < NEVER:
            self._stop_at(self._limit_ns)

    # The clock ------------------------------------------------------------------------------------------

    def _next_instant_ns(self) -> int:
        event_ns, scaler = self._next_served_ns(), self._scaler
        change_ns = min(scaler.tick_ns, scaler.ready_ns)
        if change_ns >= event_ns:
            return event_ns
        if event_ns == NEVER:
            if not scaler.traffic.remains:
                return NEVER
            self._count_idle_tick()
        else:
            self._idle_ticks = 0
        return change_ns

    def _next_served_ns(self) -> int:
        """Find the next instant at which a pass ends or a request arrives."""
        ends, arrival_ns = self._ends, self._arrival_ns
        while (end_ns := min(ends, default=NEVER)) <= arrival_ns and end_ns < NEVER:
            index = ends.index(end_ns)
            worker = self._workers[index]
            if worker.exact:
                return end_ns
            worker.settle()
            ends[index] = worker.end_ns
        return arrival_ns

    def _count_idle_tick(self) -> None:
        """Give up when requests wait and tick after tick starts no worker."""
        if self._scaler.ready_ns < NEVER:
            return
        self._idle_ticks += 1
        if self._idle_ticks > _MOST_IDLE_TICKS:
            raise ReplayError(
                f"requests wait at {to_ms(self.end_ns):g} ms, but no worker is active, and "
                f"{_MOST_IDLE_TICKS:,} scaling ticks in a row started none"
            )

    def _settle_instant(self, now_ns: int) -> None:
        if self.hub is not None:
            self.hub.before(now_ns)
        for pool in self._scaler.pools:
            pool.hub.before(now_ns)
        self._get_ready(now_ns)
        super()._settle_instant(now_ns)
        self._settle_drained(now_ns)
        if now_ns >= self._scaler.tick_ns:
            if self.hub is not None:
                self.hub.settled(now_ns)
            self._tick(now_ns)

    def _get_ready(self, now_ns: int) -> None:
        for number, pool in enumerate(self._scaler.pools):
            if pool.pool.starting and (ids := pool.pool.get_ready(now_ns)):
                for worker in ids:
                    pool.ready(worker, now_ns)
                pool.settled(now_ns)
                self._let_in(number)

    def _settle_drained(self, now_ns: int) -> None:
        for number, pool in enumerate(self._scaler.pools):
            if not pool.pool.draining:
                continue
            done = pool.pool.settle(filter(self._idle_in(number), pool.pool.draining), now_ns)
            for worker in done:
                pool.removed(worker, now_ns)
            if done:
                pool.settled(now_ns)

    def _tick(self, now_ns: int) -> None:
        scaler = self._scaler
        if not scaler.traffic.remains:
            scaler.tick_ns = NEVER
            return
        decision = scaler.decide(now_ns)
        targets = (decision.target_prefill, decision.target_decode)
        changed = False
        for number, target in enumerate(targets[-len(scaler.pools) :]):
            if target is not None:
                changed |= self._scale(number, target, now_ns, abrupt=decision.abrupt)
        if self._let_in_kept_back() or changed:
            self._settle_again(now_ns)  # requests that waited for a worker start at once
            self._settle_drained(now_ns)

    def _settle_again(self, now_ns: int) -> None:
        """Let everything happen that happens after the tick; passes that began at this instant go on."""
        self._settle_rounds(now_ns, now_ns + 1, self._finish_passes([], now_ns))

    def _scale(self, number: int, target: int, now_ns: int, *, abrupt: bool = False) -> bool:
        """Change one pool; return whether a worker is active that was not, or requests come back.

        With `abrupt` workers that go do so at once, with all that they have.
        """
        pool = self._scaler.pools[number]
        is_idle = (lambda worker: True) if abrupt else self._idle_in(number)
        transitions = self._scaler.scale(number, target, now_ns, is_idle)
        added = abrupt
        for item in transitions:
            worker, prior, state = item["worker_id"], item["prior_state"], item["state"]
            if prior is None:
                self._enlist(number, worker)
                pool.starting(worker, now_ns)
            if state == "active":
                pool.ready(worker, now_ns)
                added = True
            elif state == "draining":
                pool.draining(worker, now_ns)
            elif prior == "starting":
                pool.cancelled(worker, now_ns)
            elif prior == "draining":
                if abrupt:
                    self._lose(worker, now_ns)
                pool.removed(worker, now_ns)
        if transitions:
            pool.settled(now_ns)
            self._let_in(number)
        return added

    def _lose(self, worker: int, now_ns: int) -> None:
        """Let a worker of an only pool vanish; what it had starts again from the prompt."""
        traffic = self._scaler.traffic
        watched = self._workers[worker]
        assert isinstance(watched, WatchedWorker), "workers that scale are watched"
        watched.lose()
        self._ends[worker] = NEVER
        lost = (one for one in traffic.sequences if one.status is None)
        traffic.start_again([one for one in lost if getattr(one, "worker", None) == worker], now_ns)

    def _let_in_kept_back(self) -> bool:
        """Let in what arrived with this tick and was kept back until now; return whether anybody was."""
        return False

    # What differs between one pool and two ----------------------------------------------------------------

    def _idle_in(self, number: int) -> Callable[[int], bool]:
        """Tell of a worker of a pool whether it holds no request."""
        del number
        return self._rests

    def _rests(self, index: int) -> bool:
        """Whether a worker holds no request, not even one that waits for a copy."""
        worker, sleeper = self._workers[index], self._sleepers[index]
        waits = sleeper is not None and sleeper.wake_ns < NEVER
        return not (worker.busy or worker.has_work or waits)

    def _enlist(self, number: int, worker: int) -> None:
        """Add a worker to the end of the fleet: its index is its id."""
        assert worker == len(self._workers)
        self.add_worker(worker, self._scaler.pools[number].new_worker(worker))

    def _let_in(self, number: int) -> None:
        """Let requests pass, or keep them back, as there are workers for them or not."""
        self._scaler.traffic.gate_open = bool(self._scaler.pools[number].pool.active)
        self._look_for_arrivals()


class ScaledFleet(Scaled, Fleet):
    """A `Fleet` that scales."""


class ScaledDisaggFleet(Scaled, DisaggFleet):
    """A `DisaggFleet` whose two pools scale.

    Workers are numbered prefill first, so those of the decode pool move up when a prefill worker is added.
    """

    def scale_by(self, scaler: Scaler) -> None:
        """Let `scaler` decide how many workers there are."""
        super().scale_by(scaler)
        # Handoffs that wait for a worker, with what is to be done then, by pool.
        self._behind_tick: list[tuple[Callable[[Handoff], None], Handoff]] = []
        self._kept: tuple[list[tuple[Callable[[Handoff], None], Handoff]], ...] = ([], [])

    def _next_served_ns(self) -> int:
        event_ns = super()._next_served_ns()
        if event_ns < NEVER:
            return event_ns
        # Nothing happens any more by itself, so no decode rank may wait for something to happen.
        for index, ranks in enumerate(self._destinations, self._first_decode):
            unblocked = [rank.unblock() for rank in ranks]
            if any(unblocked):
                self._blocked.append(index)
        return self.end_ns if self._blocked else NEVER

    def _settle_again(self, now_ns: int) -> None:
        self._boundary_ns = now_ns + 1
        self._settle_rounds(now_ns, now_ns + 1, self._end_and_act(now_ns))

    def _start_passes(self, candidates: list[int], now_ns: int) -> None:
        if self.hub is not None:
            tell_who_waits(self.hub, self._workers, candidates)
        super()._start_passes(candidates, now_ns)

    def _idle_in(self, number: int) -> Callable[[int], bool]:
        return self._decode_is_idle if number else self._prefill_is_idle

    def _prefill_is_idle(self, worker: int) -> bool:
        held = any(rank.held for rank in self._scaler.pools[0].ranks_of(worker))
        return not held and self._rests(worker)

    def _decode_is_idle(self, worker: int) -> bool:
        awaited = any(rank.pending or rank.held for rank in self._scaler.pools[1].ranks_of(worker))
        return not awaited and self._rests(self._first_decode + worker)

    def _enlist(self, number: int, worker: int) -> None:
        pool = self._scaler.pools[number]
        made = pool.new_worker(worker)
        # Both are the lists that `build_scaled` made.
        ranks = cast("list[list[Any]]", self._destinations if number else self._sources)
        ranks.append(pool.serving_ranks(worker))
        if number:
            self.add_worker(len(self._workers), made)
            return
        first, self._first_decode = self._first_decode, self._first_decode + 1
        self.add_worker(first, made)
        self._deferred = {index + (index >= first): items for index, items in self._deferred.items()}

    def _let_in(self, number: int) -> None:
        """Go on with what waited for a worker of this pool."""
        if self._scaler.pools[number].pool.active and (kept := self._kept[number]):
            self._actions.extend(kept)
            kept.clear()

    def _let_in_kept_back(self) -> bool:
        self._actions.extend(self._behind_tick)
        self._behind_tick.clear()
        return bool(self._actions)

    def _submit(self, handoff: Handoff) -> None:
        if self._now_ns >= self._scaler.tick_ns and handoff.reserved_ns is None:
            # A pair places what arrives together with a tick after it.
            self._behind_tick.append((self._submit, handoff))
        elif self._scaler.pools[0].pool.active:
            super()._submit(handoff)
        else:
            self._kept[0].append((self._submit, handoff))

    def _reserve(self, handoff: Handoff) -> None:
        if self._scaler.pools[1].pool.active:
            super()._reserve(handoff)
        else:
            self._kept[1].append((self._reserve, handoff))


class ScaledDestinationFirstFleet(ScaledDisaggFleet, DestinationFirstFleet):
    """A `DestinationFirstFleet` whose two pools scale."""

    def _reserve(self, handoff: Handoff) -> None:
        if self._now_ns >= self._scaler.tick_ns:
            self._behind_tick.append((self._reserve, handoff))  # it just arrived
        else:
            super()._reserve(handoff)
