"""A candidate replayed again, to look inside: its state over time, and where its pass times came from.

A replay is deterministic, so this is what was measured; that the results are equal is checked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import AISimulateError, UnsupportedError
from aisimulate.core.units import NS_PER_MS
from aisimulate.perf.origins import ForwardOrigins
from aisimulate.perf.quality import ORIGINS
from aisimulate.replay.execute import execute
from aisimulate.replay.observe.hub import Observer
from aisimulate.report.again import candidate_payload
from aisimulate.report.numbers import share_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisimulate.engine.pass_view import RankPass
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker
    from aisimulate.spica.config import Candidate, SmartSearchConfig

_SAMPLES = 200
_MOST_PLACES = 3
_MOST_DECISIONS = 200
_TELLING_METRICS = ("duration_ms", "completed_requests", "total_output_tokens")


@dataclass(slots=True)
class PoolSamples:
    """One pool at each sample: requests that run and wait, the share of KV blocks held, its workers."""

    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)


_MOST_REQUESTS = 5000
"""A longer replay is not repeated unless it is asked for."""


def is_short(candidate: Candidate) -> bool:
    """Whether replaying a candidate again costs little: told by its requests, so always the same."""
    return candidate.metrics.get("num_requests", 0.0) <= _MOST_REQUESTS


def origins_text(origins: Mapping[str, int], beyond: Iterable[str]) -> str:
    """Say how many forwards were measured, interpolated, extrapolated or transferred; empty without any."""
    total = sum(origins.values())
    parts = [f"{share_text(count / total)} {name}" for name, count in origins.items()] if total else []
    places = ", ".join(beyond)
    return ", ".join(parts) + (f" ({places})" if places and parts else "")


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of a planner: when, why, what it saw, and the workers before and after by pool."""

    at_s: float
    reason: str
    requests: int
    before: dict[str, int]
    after: dict[str, int]


@dataclass(slots=True)
class Inside:
    """What a second replay showed. `note` tells why there is nothing, or what is to be known of it.

    `origins` counts forwards by where their times came from, and `beyond` names what lay outside what was
    measured, the most frequent first. `decisions` are those of a planner that changed something.
    """

    at_s: list[float] = field(default_factory=list)
    pools: dict[str, PoolSamples] = field(default_factory=dict)
    origins: dict[str, int] = field(default_factory=dict)
    beyond: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    note: str = ""


def look_inside(config: SmartSearchConfig, candidate: Candidate) -> Inside:
    """Replay a candidate of a search again. What cannot be replayed or watched is told in the note."""
    try:
        payload = candidate_payload(config, candidate)
        # With the records come the decisions of a planner.
        payload["spec"]["record_per_request"] = "scaling" in payload["spec"].get("adapters", {})
        watch = _Watch(candidate.metrics.get("duration_ms", 0.0), _judges(payload["spec"]))
        report = execute(payload, observers=[watch])
    except UnsupportedError as error:
        return Inside(note=f"not watched: {error}")
    except (AISimulateError, ValueError, KeyError, TypeError) as error:  # also a record of another version
        return Inside(note=f"could not be replayed again: {error}")
    inside = watch.inside
    inside.decisions = _decisions(report)
    if any(report.get(name) != candidate.metrics.get(name) for name in _TELLING_METRICS):
        inside.note = "the second replay gave other results than the first: the trace or the data changed"
    return inside


def _decisions(report: Mapping[str, Any]) -> list[Decision]:
    """Pick the decisions that changed a pool, up to a readable number of them."""
    changes = (
        tick
        for tick in report.get("scaling_decisions", ())
        if any(
            tick["observed"]["non_draining"].get(pool) != count
            for pool, count in (tick["applied"] or {}).items()
        )
    )
    return [
        Decision(
            round(tick["at_ms"] / 1000, 3),
            str(tick["reason"]),
            int(tick["observed"]["requests"]),
            dict(tick["observed"]["non_draining"]),
            dict(tick["applied"]),
        )
        for tick in islice(changes, _MOST_DECISIONS)
    ]


def _judges(spec: Mapping[str, Any]) -> dict[str, ForwardOrigins]:
    """Make a judge for each pool: `agg`, or `prefill` and `decode`."""
    engine = spec["engine"]
    pools = {"agg": engine} if "rank" in engine else {name: engine[name] for name in ("prefill", "decode")}
    return {name: ForwardOrigins(**pool["rank"]["timing_model"]["config"]) for name, pool in pools.items()}


class _Watch(Observer):
    """Samples the pools at even distances, and judges every forward."""

    def __init__(self, duration_ms: float, judges: Mapping[str, ForwardOrigins]) -> None:
        self.inside = Inside()
        self._interval_ns = max(1, round(duration_ms * NS_PER_MS / _SAMPLES))
        self._next_ns = 0
        self._judges = judges
        self._workers: dict[int, WatchedWorker] = {}
        self._origins: Counter[str] = Counter()
        self._beyond: Counter[str] = Counter()

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Take note of the workers."""
        self._workers = {worker.index: worker for worker in workers}
        self.inside.pools = {name: PoolSamples() for name in self._judges}

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note of another worker."""
        del now_ns
        self._workers[worker.index] = worker

    def left(self, worker: WatchedWorker, now_ns: int) -> None:
        """Forget a worker."""
        del now_ns
        self._workers.pop(worker.index, None)

    def before(self, now_ns: int) -> None:
        """Sample what holds until now."""
        while self._next_ns < now_ns:
            self._sample(self._next_ns)
            self._next_ns += self._interval_ns

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Judge the passes that ended."""
        del terminal
        judge = self._judges[self._pool(worker)]
        for work in worker.doing:
            self._judge(judge, work, worker.planned_passes)

    def finish(self, end_ns: int) -> None:
        """Close the samples and the counts."""
        self.before(end_ns + 1)
        self.inside.origins = {name: self._origins[name] for name in ORIGINS if self._origins[name]}
        self.inside.beyond = [place for place, _ in self._beyond.most_common(_MOST_PLACES)]

    def _pool(self, worker: WatchedWorker) -> str:
        if "agg" in self._judges:
            return "agg"
        return "prefill" if worker.prefills else "decode"

    def _sample(self, at_ns: int) -> None:
        self.inside.at_s.append(round(at_ns / NS_PER_MS / 1000, 3))
        for name, samples in self.inside.pools.items():
            workers = [worker for worker in self._workers.values() if self._pool(worker) == name]
            gauges = [rank.gauges() for worker in workers for rank in worker.ranks]
            blocks = sum(gauge.total_blocks for gauge in gauges)
            held = sum(gauge.active_blocks for gauge in gauges)
            samples.running.append(sum(gauge.running_requests for gauge in gauges))
            samples.waiting.append(sum(gauge.waiting_requests for gauge in gauges))
            samples.held.append(round(held / blocks, 4) if blocks else 0.0)
            samples.workers.append(len(workers))

    def _judge(self, judge: ForwardOrigins, work: RankPass, passes: int) -> None:
        """Judge a pass, or a run of passes by the middle of it."""
        found = []
        if work.prefills:
            count, ends = len(work.prefills), sum(chunk.end for chunk in work.prefills)
            found.append((judge.prefill(work.prefill_tokens, count, ends // count), 1))
        if work.decode_batch:
            context = work.decode_context // work.decode_batch + passes // 2
            found.append((judge.decode(work.decode_batch, context), passes))
        for quality, forwards in found:
            self._origins[quality.origin] += forwards
            for place in quality.beyond:
                self._beyond[place.partition(" outside")[0].rpartition(" ")[0]] += forwards
