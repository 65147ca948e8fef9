"""The traffic of a replay with a KV-aware router, which stands between the arrivals and the workers.

It tells the router what the event loop does not: what time it is, which requests ended, and who may be let in
after having waited. Ends of passes are told by the workers themselves (`engine.told_worker`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from aisimulate.engine.sequence import REJECTED
from aisimulate.replay.destination_first import DestinationFirstFleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.engine.cache_view import CacheView
    from aisimulate.engine.sequence import Sequence
    from aisimulate.replay.disagg_fleet import Source
    from aisimulate.replay.fleet import Fleet
    from aisimulate.router.clock import RouterClock
    from aisimulate.router.kv_router import KvRouter
    from aisimulate.workload.drivers import Driver


class RoutedTraffic:
    """A `Driver` whose requests a router may let wait."""

    is_independent = False

    def __init__(self, driver: Driver, router: KvRouter, clock: RouterClock) -> None:
        """Route the requests of `driver`; `router` is the one that arrivals meet."""
        self._driver = driver
        self._router = router
        self._clock = clock
        self._released: list[Sequence] = []
        self.on_release: Callable[[], None] = _nobody  # called when somebody may come in at once
        self.next_ready_ns = driver.next_ready_ns  # instant of the next request known so far, or None
        self.on_terminal = driver.on_terminal  # take note that a request ended
        if router.queues:
            router.on_settled = self.release

    @property
    def sequences(self) -> list[Sequence]:
        """Everything dispatched so far."""
        return self._driver.sequences

    def pop_ready(self, now_ns: int) -> list[Sequence]:
        """Dispatch every request that is ready."""
        self._clock.now_ns = now_ns
        return self._driver.pop_ready(now_ns)

    def pop_released(self) -> list[Sequence]:
        """Take out who was let in after having waited."""
        released, self._released = self._released, []
        return released

    def pop_first(self, count: int) -> list[Sequence]:
        """Nobody asks: requests depend on each other through the router."""
        raise NotImplementedError(f"{count} requests of a routed replay without a clock")

    def connect(self, fleet: Fleet) -> None:
        """Let the event loop know when the router lets somebody in."""
        self.on_release = fleet._look_for_arrivals

    def release(self) -> None:
        """Let in who may come in now."""
        if released := self._router.release():
            self._released += released
            self.on_release()


class AggregatedTraffic(RoutedTraffic):
    """The traffic of one pool: what `pop_ready` gives is let in by the router."""

    def __init__(self, driver: Driver, router: KvRouter, clock: RouterClock) -> None:
        super().__init__(driver, router, clock)
        if router.queues:
            self.next_ready_ns = self._next_ready_ns

    def _next_ready_ns(self) -> int | None:
        """Instant of the next request known so far, or None."""
        return self._clock.now_ns if self._released else self._driver.next_ready_ns()

    def pop_ready(self, now_ns: int) -> list[Sequence]:
        """Dispatch who was let in after having waited, then every request that is ready and need not."""
        arrived = super().pop_ready(now_ns)
        if not self._router.queues:
            return arrived
        return self.pop_released() + [sequence for sequence in arrived if self._router.offer(sequence)]

    def passes_ended(self, computed: list[Sequence], terminal: list[Sequence], end_ns: int) -> None:
        """Tell the router which requests ended and which prompts got their first token.

        Each may let in somebody who waits before the next is told, so then they are told in running order.
        """
        self._clock.now_ns = end_ns
        router = self._router
        if router.queues:
            self._tell_one_by_one(computed, terminal, end_ns)
            return
        for sequence in terminal:
            router.request_terminal(sequence, end_ns)
        for sequence in computed:
            if sequence.first_token_ns == end_ns and sequence.status is None:
                router.prefill_completed(sequence, end_ns)

    def _tell_one_by_one(self, computed: list[Sequence], terminal: list[Sequence], end_ns: int) -> None:
        router = self._router
        told = [*terminal, *(sequence for sequence in computed if sequence.status is None)]
        told.sort(key=_told_order)
        for sequence in told:
            if sequence.status is not None:
                router.request_terminal(sequence, end_ns)
            elif sequence.first_token_ns == end_ns:
                router.prefill_completed(sequence, end_ns)
            self.release()


def _told_order(sequence: Sequence) -> tuple[bool, int, int]:
    """Rejected requests come first, the others of each rank in running order."""
    if sequence.status == REJECTED:
        return False, 0, 0
    return True, sequence.rank, sequence.order


class ToldSource:
    """A prefill rank that tells when it gives back the blocks of a prompt."""

    __slots__ = ("_rank", "_traffic", "_view")

    def __init__(self, rank: Source, view: CacheView, traffic: PairTraffic) -> None:
        self._rank = rank
        self._view = view
        self._traffic = traffic

    def release(self, sequence: Sequence) -> None:
        """Give back the blocks of a prompt, which may stay cached from now on."""
        self._rank.release(sequence)
        self._view.let_go(sequence)
        self._view.publish(self._traffic.now_ns())
        self._traffic.source_released(sequence)


class PairTraffic(RoutedTraffic):
    """The traffic of a prefill and a decode pool, each with a router of its own.

    Decode requests that end at an instant do not count any more for placements of that instant. Where prompts
    may wait for a prefill worker, the event loop offers them when they could be computed (`Gate`).
    """

    def __init__(self, driver: Driver, prefill: KvRouter, decode: KvRouter, clock: RouterClock) -> None:
        super().__init__(driver, prefill, clock)
        self._decode = decode
        self._given_back: deque[tuple[int, Sequence]] = deque()
        self.on_terminal = self._on_terminal
        self._reserves_first: DestinationFirstFleet | None = (
            None  # whose prompts have destinations to give up
        )
        self.now_ns: Callable[[], int] = lambda: clock.now_ns  # until there is an event loop

    def connect(self, fleet: Fleet) -> None:
        """Take the time from the event loop, too: handovers happen between arrivals."""
        self.now_ns = lambda: fleet._now_ns  # type: ignore[attr-defined]
        if self._router.queues:
            fleet.close(self)  # type: ignore[attr-defined]
        if isinstance(fleet, DestinationFirstFleet):
            self._reserves_first = fleet
            fleet.on_called_off = self.called_off

    def offer(self, sequence: Sequence) -> bool:
        """Let a prompt in, or let it wait; return whether it may be placed now."""
        self._clock.now_ns = self.now_ns()
        return self._router.offer(sequence)

    def placements(self) -> tuple[StagePlacement, StagePlacement]:
        """What places requests on prefill and on decode workers."""
        return (
            StagePlacement(self.place_prefill, self._router),
            StagePlacement(self.place_decode, self._decode),
        )

    def sources(self, worker: Any) -> list[Source]:  # noqa: ANN401 - whatever has ranks and views
        """List the ranks of a prefill worker; they tell the router what it has to know."""
        return [ToldSource(rank, view, self) for rank, view in zip(worker.ranks, worker.views, strict=True)]

    def _on_terminal(self, sequence: Sequence, now_ns: int) -> None:
        self._driver.on_terminal(sequence, now_ns)
        if self._reserves_first is None or not self._reserves_first.calls_off:
            self._decode.request_terminal(sequence, now_ns)

    def called_off(self, sequence: Sequence) -> None:
        """Tell both routers that nothing is kept any more for a request that never decoded."""
        now_ns = self._clock.now_ns = self.now_ns()
        self._router.request_terminal(sequence, now_ns)
        self._decode.request_terminal(sequence, now_ns)
        if self._router.queues:
            self.release()

    def passes_ended(self, computed: list[Sequence], terminal: list[Sequence], end_ns: int) -> None:
        """Tell the prefill router which prompts are computed, or rejected."""
        del computed
        self._clock.now_ns = end_ns
        for sequence in terminal:
            if sequence.status is None:
                self._router.prefill_completed(sequence, end_ns)
            elif self._reserves_first is None:
                self._router.request_terminal(sequence, end_ns)
            if self._router.queues:
                self.release()

    def source_released(self, sequence: Sequence) -> None:
        """Tell the prefill router that the blocks of a prompt were given back: it is over there.

        Placements of the same instant come first. Where some may wait, the event loop tells when it is over.
        """
        if not self._router.queues:
            self._given_back.append((self.now_ns(), sequence))

    def completed(self, sequence: Sequence) -> None:
        """Tell the prefill router that the handover of a prompt is over: somebody who waits may come in."""
        now_ns = self._clock.now_ns = self.now_ns()
        self._router.request_terminal(sequence, now_ns)
        self.release()

    def _forget_given_back(self, before_ns: int) -> None:
        given_back = self._given_back
        while given_back and given_back[0][0] < before_ns:
            ended_ns, sequence = given_back.popleft()
            self._router.request_terminal(sequence, ended_ns)

    def place_prefill(self, sequence: Sequence) -> tuple[int, int]:
        """Choose a prefill worker."""
        now_ns = self._clock.now_ns = self.now_ns()
        self._forget_given_back(now_ns)
        return self._router.place(sequence)

    def place_decode(self, sequence: Sequence) -> tuple[int, int]:
        """Choose a decode worker."""
        self._clock.now_ns = self.now_ns()
        return self._decode.place(sequence)


class StagePlacement:
    """Places the requests of one stage of a pair, and passes on to its router what happens to its workers."""

    __slots__ = ("place", "topology_settled", "worker_draining", "worker_ready", "worker_removed")

    def __init__(self, place: Callable[[Sequence], tuple[int, int]], router: KvRouter) -> None:
        self.place = place
        self.worker_ready = router.worker_ready
        self.worker_draining = router.worker_draining
        self.worker_removed = router.worker_removed
        self.topology_settled = router.topology_settled


def _nobody() -> None:
    pass
