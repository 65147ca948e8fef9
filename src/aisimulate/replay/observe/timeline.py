"""A replay as a trace to look at: Trace Event JSON for the Perfetto UI or chrome://tracing.

One process per worker with a track per rank: a slice for each run of passes, and counters of its requests and
KV blocks; where pools scale, a track of its states too. One more process has a track for each sampled
request: unplaced, queued, prefill, decode, preempted.
The trace has a few events per planned run and per sampled request, not per pass or token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.units import NS_PER_MS
from aisimulate.engine.sequence import REJECTED
from aisimulate.replay.observe.hub import Observer
from aisimulate.replay.observe.request_tracks import RequestTracks
from aisimulate.replay.observe.roster import ACTIVE, DRAINING, STARTING
from aisimulate.replay.observe.worker_stays import STATE_TID, WorkerStays

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.engine.pass_view import RankPass
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker

Event = dict[str, Any]

_NS_PER_US = NS_PER_MS // 1000
_REQUESTS_PID = 1
_FIRST_WORKER_PID = 2
_MOST_REQUESTS = 256


class Timeline(Observer):
    """Collects the trace of a replay; `document()` is the JSON value once it is over.

    At most `most_requests` requests get a track: when there are more, every 2nd, 4th, ... in dispatch order.
    """

    def __init__(self, most_requests: int = _MOST_REQUESTS) -> None:
        self._pids: dict[WatchedWorker, int] = {}  # of all that ever were there
        self._stays = WorkerStays()
        self._are_pools = False
        self._events: list[tuple[int, Event]] = []  # (instant in ns, event without it)
        self._requests = RequestTracks(most_requests)
        self._now_ns = 0

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Start the counters of all ranks."""
        self._are_pools = any(worker.prefills for worker in workers)
        self._stays.begin(workers)
        for worker in workers:
            self._meet(worker, 0)

    def _meet(self, worker: WatchedWorker, now_ns: int) -> None:
        self._pids[worker] = _FIRST_WORKER_PID + len(self._pids)
        self._count(worker, now_ns)

    def starting(self, worker: WatchedWorker, now_ns: int) -> None:
        """Give another worker its tracks."""
        self._meet(worker, now_ns)
        self._stays.enter(worker, STARTING, now_ns)

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Let a worker begin to serve."""
        self._stays.enter(worker, ACTIVE, now_ns)

    def draining(self, worker: WatchedWorker, now_ns: int) -> None:
        """Let a worker begin to drain."""
        self._stays.enter(worker, DRAINING, now_ns)

    def left(self, worker: WatchedWorker, now_ns: int) -> None:
        """End the tracks of a worker."""
        self._stays.leave(worker, now_ns)

    def before(self, now_ns: int) -> None:
        """Move the clock."""
        self._now_ns = now_ns

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Let a request begin to wait."""
        self._requests.enter(sequence, self._now_ns)

    def started(self, worker: WatchedWorker) -> None:
        """Move the requests that were admitted or preempted to their next stage."""
        now_ns, tracks = self._now_ns, self._requests
        for work in worker.doing:
            for sequence in work.preempted:
                tracks.move(self._known(worker, sequence), "preempted", now_ns)
            for sequence in work.admitted:
                reused = sequence.admissions[-1][1]
                arrives = self._hands_over(worker) and len(sequence.admissions) == 1
                stage = "decode" if arrives else "prefill"
                tracks.move(self._known(worker, sequence), stage, now_ns, {"reused_tokens": reused})

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Draw the passes that ended, and end the stages of requests that they ended."""
        now_ns, tracks = self._now_ns, self._requests
        self._draw(worker, worker.planned_passes, now_ns)
        for work in worker.doing:
            rank = worker.ranks[work.rank]
            for sequence, _, _ in (*work.prefills, *work.replays):
                if rank.is_decoding(sequence):
                    tracks.move(self._known(worker, sequence), "decode", now_ns)
        for sequence in terminal:
            if worker.prefills and sequence.status is None:
                tracks.move(sequence, "handoff", now_ns)
                continue
            remark = {"rejected": sequence.reason} if sequence.status == REJECTED else None
            tracks.leave(self._known(worker, sequence), now_ns, remark)
        self._count(worker, now_ns)

    def _hands_over(self, worker: WatchedWorker) -> bool:
        """Whether a worker decodes what others computed."""
        return self._are_pools and not worker.prefills

    def _known(self, worker: WatchedWorker, sequence: Sequence) -> Sequence:
        """Give the sequence under which a request was queued: between pools, that of its prefill."""
        return sequence.handoff.source if self._hands_over(worker) else sequence

    def finish(self, end_ns: int) -> None:
        """Draw what ended of the passes in flight, and end the stages that are open."""
        for worker in self._pids:
            if worker.busy:
                passes, boundary_ns = worker.passes_by(end_ns)
                if passes:
                    self._draw(worker, passes, boundary_ns)
        self._requests.leave_all(end_ns)
        self._stays.end(end_ns)

    # Tracks of workers --------------------------------------------------------------------------------

    def _draw(self, worker: WatchedWorker, passes: int, end_ns: int) -> None:
        for work in worker.doing:
            slice_ = {
                "name": _kind(work),
                "cat": "passes",
                "ph": "X",
                "dur": (end_ns - worker.start_ns) / _NS_PER_US,
                "pid": self._pids[worker],
                "tid": work.rank + 1,
                "args": {
                    "passes": passes,
                    "decode_batch": work.decode_batch,
                    "context_tokens": work.decode_context,
                    "prefills": len(work.prefills),
                    "prefill_tokens": work.prefill_tokens,
                    "admitted": len(work.admitted),
                    "preempted": len(work.preempted),
                },
            }
            self._events.append((worker.start_ns, slice_))

    def _count(self, worker: WatchedWorker, now_ns: int) -> None:
        pid = self._pids[worker]
        for number, rank in enumerate(worker.ranks):
            gauges = rank.gauges()
            requests = {"running": gauges.running_requests, "waiting": gauges.waiting_requests}
            blocks = {"held": gauges.active_blocks, "cached": gauges.inactive_blocks}
            for name, values in (("requests", requests), ("KV blocks", blocks)):
                counter = {"name": f"rank {number} {name}", "ph": "C", "pid": pid, "tid": 0, "args": values}
                self._events.append((now_ns, counter))

    # The document -------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Give the trace as a JSON value; its events are in order of time."""
        stages = ((now_ns, {**event, "pid": _REQUESTS_PID}) for now_ns, event in self._requests.events())
        stays = (
            (since_ns, {**event, "pid": self._pids[worker]})
            for worker, since_ns, event in self._stays.events()
        )
        timed = sorted([*self._events, *stages, *stays], key=_instant)
        events = [{**event, "ts": now_ns / _NS_PER_US} for now_ns, event in timed]
        return {
            "displayTimeUnit": "ms",
            "otherData": {"requests": self._requests.seen, "request_stride": self._requests.stride},
            "traceEvents": [*self._names(), *events],
        }

    def _names(self) -> Iterator[Event]:
        yield _name("process_name", _REQUESTS_PID, 0, "requests")
        for sequence in self._requests.sampled():
            authored = sequence.turn.request_id
            text = f"request {sequence.ordinal + 1}" + ("" if authored is None else f" ({authored})")
            yield _name("thread_name", _REQUESTS_PID, sequence.ordinal + 1, text)
        for worker, pid in self._pids.items():
            pool = "decode " * self._hands_over(worker) + "prefill " * worker.prefills
            yield _name("process_name", pid, 0, f"{pool}worker {worker.number}")
            for number in range(len(worker.ranks)):
                yield _name("thread_name", pid, number + 1, f"rank {number}")
            if self._stays.have_changed:
                yield _name("thread_name", pid, STATE_TID, "state")


def _kind(work: RankPass) -> str:
    if not work.prefills:
        return "decode"
    return "mixed" if work.decode_batch else "prefill"


def _name(kind: str, pid: int, tid: int, text: str) -> Event:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "ts": 0, "args": {"name": text}}


def _instant(item: tuple[int, Event]) -> int:
    return item[0]
