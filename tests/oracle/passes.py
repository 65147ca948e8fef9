"""What a planner sees of the passes of a fleet that looks one pass ahead (spec 01 section 4.6)."""

from __future__ import annotations

from typing import Any, NamedTuple

from .ahead import Ahead, AheadWorker
from .fleet import Fleet
from .request import Request
from .scheduler import Pass


class Seen(NamedTuple):
    """A pass of a rank: what it computes, and who waits once the pass after it is planned."""

    worker: int
    rank: int
    end_ns: int
    duration_ns: int
    prefill_requests: int
    prefill_tokens: int
    decodes: int
    decode_tokens: int
    queued: int
    queued_again: int


class _Rank(Ahead):
    """Remembers the lengths at the start of the passes that it plans."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lengths: dict[int, dict[Request, int]] = {}
        self.begun: tuple[Pass, int] | None = None

    def plan(self, now_ns: int) -> Pass:
        work = super().plan(now_ns)
        self.lengths[id(work)] = {request: request.length for request in work.computed}
        return work

    def begin(self, work: Pass, end_ns: int) -> None:
        super().begin(work, end_ns)
        self.begun = work, end_ns


class _Worker(AheadWorker):
    def _ranks(self, rank: dict[str, Any], dp_size: int, identities: Any, first: int) -> list[Any]:
        return [_Rank(rank, identities, first + index) for index in range(dp_size)]


class WatchedFleet(Fleet):
    """A `Fleet` of such workers; `seen` has their passes in the order in which they end."""

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__(payload)
        engine = payload["spec"]["engine"]
        identities = self.workers[0].ranks[0].identities
        self.workers = [_Worker(engine, identities, number) for number in range(len(self.workers))]
        self.coming: dict[Any, list[Seen]] = {}
        self.seen: list[Seen] = []

    def _start(self, worker: Any) -> bool:
        return super()._start(_Telling(worker, self))

    def look(self, worker: Any, now_ns: int) -> None:
        """Describe the pass that begins."""
        index = self.workers.index(worker)
        self.coming[worker] = []
        for number, rank in enumerate(worker.ranks):
            work, end_ns = rank.begun or (Pass(now_ns, 0), worker.end_ns)
            lengths = rank.lengths.get(id(work), {})
            rank.begun = None
            spans = [(request, *span) for request, span in work.computed.items()]
            chunks = [b - a for request, a, b in spans if a < b and a < request.isl]
            decodes = [lengths[request] for request, a, b in spans if a == b or a >= request.isl]
            again = sum(request.preempted for request in rank.waiting)
            self.coming[worker].append(
                Seen(
                    index,
                    number,
                    end_ns,
                    end_ns - now_ns,
                    len(chunks),
                    sum(chunks),
                    len(decodes),
                    sum(decodes),
                    len(rank.waiting) - again,
                    again,
                )
            )

    def _finish(self, worker: Any) -> None:
        inner = getattr(worker, "inner", worker)
        self.seen += self.coming.pop(inner)
        super()._finish(inner)


class _Telling:
    """A worker for the event loop, which lets the fleet look at each pass that begins."""

    def __init__(self, inner: Any, fleet: WatchedFleet) -> None:
        self.inner = inner
        self._fleet = fleet

    @property
    def end_ns(self) -> int | None:
        return self.inner.end_ns  # type: ignore[no-any-return]

    def start(self, now_ns: int) -> bool:
        started: bool = self.inner.start(now_ns)
        if started:
            self._fleet.look(self.inner, now_ns)
        return started


def passes_of(payload: dict[str, Any]) -> list[Seen]:
    """Run a payload; list the passes that ended."""
    fleet = WatchedFleet(payload)
    fleet.run()
    return fleet.seen
