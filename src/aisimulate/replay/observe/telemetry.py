"""Telemetry: gauges and counters of a replay, sampled on its own clock (spec 02 section 7).

A baseline once everything at 0 is settled, then a sample at every multiple of the interval, and a last one
when the replay ends between two of them. More than `MOST_SAMPLES` are refused before they are taken.
Sampling looks at the replay and never changes it: inside a run of passes the gauges are computed for the
passes that ended by then.
"""

from __future__ import annotations

import sys
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.core.units import NS_PER_MS, NS_PER_S, clock_ns, to_ms
from aisimulate.replay.observe.hub import Observer
from aisimulate.replay.observe.roster import Roster
from aisimulate.replay.observe.traffic import TrafficCounters

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.engine.pass_view import Gauges
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker
    from aisimulate.replay.observe.arrivals import HitRates, Routers

Sample = dict[str, Any]

# Times in ms since 1970 as arrivals would ask for 1e9 samples, which no memory holds.
MOST_SAMPLES = 1_000_000

_LEAST_INTERVAL_MS = 1e-3
_ADVISED_SAMPLES = 10_000


class Telemetry(Observer):
    """Samples a replay every `interval_ms` and hands each sample to `sink`.

    A sample is a JSON object; gauges are as of the last pass that ended (or request that was queued) on the
    rank, counters cover the time since the sample before. Messages call the interval `name`.

    Raises InputError for an interval below 1 us; and while the replay runs, as soon as it is known to last
    for more than MOST_SAMPLES multiples of the interval, before any of those that lead there is sampled.
    """

    def __init__(
        self, interval_ms: float, sink: Callable[[Sample], object], *, name: str = "telemetry interval"
    ) -> None:
        if not _LEAST_INTERVAL_MS <= interval_ms < float("inf"):
            raise InputError(f"{name}: {interval_ms:g} ms is not a finite time >= 0.001 ms")
        self._interval_ms = interval_ms
        self._name = name
        # When one sample too many would be due; multiples of a finite interval may be infinite.
        self._too_late_ns = clock_ns(min(MOST_SAMPLES * interval_ms, sys.float_info.max))
        self._sink = sink
        self._roster = Roster()
        self._gauges: dict[WatchedWorker, list[Gauges]] = {}
        self._as_of: dict[WatchedWorker, list[int]] = {}  # when the gauges above were read
        self._routers: Routers | None = None
        self._hit_rates: HitRates | None = None
        self._now_ns = 0
        self._ordinal = 0
        self._sampled_ns = 0
        self._traffic = TrafficCounters()
        self._forwards_sampled = self._extra_sampled = 0

    def begin(self, workers: list[WatchedWorker]) -> None:
        """Read all gauges."""
        self._roster.begin(workers)
        for worker in workers:
            self._read_gauges(worker, -1)

    def _read_gauges(self, worker: WatchedWorker, as_of_ns: int) -> None:
        self._gauges[worker] = [rank.gauges() for rank in worker.ranks]
        self._as_of[worker] = [as_of_ns] * len(worker.ranks)

    def meet_routers(self, routers: Routers) -> None:
        """Begin to count what they find, and who waits there."""
        self._routers, self._hit_rates = routers, routers.hit_rates()

    def starting(self, worker: WatchedWorker, now_ns: int) -> None:
        """Read the gauges of another worker."""
        self._roster.starting(worker)
        self._read_gauges(worker, now_ns)

    def joined(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note of a worker that is ready."""
        del now_ns
        self._roster.joined(worker)

    def draining(self, worker: WatchedWorker, now_ns: int) -> None:
        """Take note of a worker that gets no more requests."""
        del now_ns
        self._roster.draining(worker)

    def left(self, worker: WatchedWorker, now_ns: int) -> None:
        """Forget a worker."""
        del now_ns
        self._roster.left(worker)
        del self._gauges[worker], self._as_of[worker]

    def before(self, now_ns: int) -> None:
        """Take the samples that lie before `now_ns`."""
        self._sample_until(now_ns - 1)
        self._now_ns = now_ns

    def settled(self, now_ns: int) -> None:
        """Take the sample of this instant, if there is one: before a decision changes the pools."""
        self._sample_until(now_ns)

    def arrived(self, sequences: list[Sequence]) -> None:
        """Count arrivals. Between pools, a sample of this instant is taken before they are placed."""
        self._traffic.arriving += len(sequences)
        if self._roster.has_prefill_pool and self._ordinal and self._is_due(self._now_ns):
            for worker in self._gauges:
                if not worker.busy:
                    self.waits(worker)
            self._sample_until(self._now_ns)

    def submitted(self, worker: WatchedWorker, sequence: Sequence) -> None:
        """Read the gauges of the rank of a request anew, with what a pass in flight has taken."""
        rank = worker.ranks[sequence.rank]
        if worker.busy:
            passes, boundary_ns = worker.passes_by(self._now_ns)
            gauges = rank.gauges_in_pass(max(1, passes + (boundary_ns < self._now_ns)))
        else:
            gauges = rank.gauges()
        self._gauges[worker][sequence.rank] = gauges
        self._as_of[worker][sequence.rank] = self._now_ns

    def waits(self, worker: WatchedWorker) -> None:
        """Read the gauges of a worker between passes, with what was handed over."""
        self._read_gauges(worker, self._now_ns)

    def started(self, worker: WatchedWorker) -> None:
        """Count what was found in the cache."""
        self._traffic.started(worker)

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Count what ended, and read the gauges of the worker."""
        self._traffic.ended(worker, terminal)
        self._read_gauges(worker, self._now_ns)

    def finish(self, end_ns: int) -> None:
        """Take the samples up to the end, and one of what is left."""
        self._sample_until(end_ns)
        if end_ns > self._sampled_ns or not self._traffic.is_empty:
            self._sample("final", end_ns)

    # Samples ----------------------------------------------------------------------------------------

    def _sample_until(self, last_ns: int) -> None:
        if last_ns >= self._too_late_ns:
            raise InputError(self._too_many(last_ns))
        if self._ordinal == 0 and last_ns >= 0:
            self._sample("baseline", 0)
        while self._is_due(last_ns):
            self._sample("periodic", clock_ns(self._ordinal * self._interval_ms))

    def _is_due(self, now_ns: int) -> bool:
        return clock_ns(self._ordinal * self._interval_ms) <= now_ns

    def _too_many(self, last_ns: int) -> str:
        last_ms = to_ms(last_ns)
        samples = last_ns // (Fraction(self._interval_ms) * NS_PER_MS) + 1
        return (
            f"{self._name}: {self._interval_ms:.12g} ms makes {samples:,} samples up to {last_ms:.6g} ms, "
            f"more than {MOST_SAMPLES:,}; try {_round_up(last_ms / _ADVISED_SAMPLES):.12g}"
        )

    def _sample(self, kind: str, at_ns: int) -> None:
        forwards = self._forwards_by(at_ns)
        # A baseline has gauges only: what happened at 0 counts to the first interval.
        traffic = TrafficCounters() if kind == "baseline" else self._traffic
        new_forwards = 0 if kind == "baseline" else forwards - self._forwards_sampled
        extra = self._traffic.extra_tokens - self._extra_sampled
        sample = {
            "sample_ordinal": self._ordinal,
            "kind": kind,
            "interval_start_ms": to_ms(self._sampled_ns),
            "sampled_at_ms": to_ms(at_ns),
            "traffic": {
                "duration_s": (at_ns - self._sampled_ns) / NS_PER_S,
                **traffic.means(),
                **self._found_by_routers(kind),
                "avg_accept_length": 1.0 + extra / new_forwards if new_forwards else None,
                "accept_length_forward_count": new_forwards,
            },
            **self._pools(at_ns, traffic),
        }
        if kind != "baseline":
            self._forwards_sampled, self._extra_sampled = forwards, self._traffic.extra_tokens
            self._traffic = self._traffic.next_interval()
        self._ordinal += 1
        self._sampled_ns = at_ns
        self._sink(sample)

    def _found_by_routers(self, kind: str) -> Sample:
        rates = self._hit_rates
        mean, count = (0.0, 0) if rates is None or kind == "baseline" else rates.drain()
        return {"avg_router_kv_hit_rate": mean, "router_kv_hit_rate_count": count}

    def _forwards_by(self, at_ns: int) -> int:
        busy = (worker for worker in self._gauges if worker.busy)
        return self._traffic.forwards + sum(self._traffic.forwards_by(worker, at_ns) for worker in busy)

    def _pools(self, at_ns: int, traffic: TrafficCounters) -> Sample:
        """Gauges and counters of the pools, each numbered from 0; an aggregated one counts as decode pool."""
        prefill, decode = self._roster.pools()
        pending = (0, 0) if self._routers is None else self._routers.pending()
        return {
            "prefill_scheduler_metrics": self._metrics_of(prefill, at_ns),
            "decode_scheduler_metrics": self._metrics_of(decode, at_ns),
            "prefill_interval_metrics": traffic.prefill.interval_metrics(),
            "decode_interval_metrics": traffic.decode.interval_metrics(),
            "router_pending_prefill_requests": pending[0],
            "router_pending_decode_requests": pending[1],
            **self._roster.ids(),
        }

    def _metrics_of(self, pool: list[WatchedWorker], at_ns: int) -> list[Sample]:
        return [entry for worker in pool for entry in self._scheduler_metrics(worker, at_ns)]

    def _scheduler_metrics(self, worker: WatchedWorker, at_ns: int) -> list[Sample]:
        passes, boundary_ns = worker.passes_by(at_ns) if worker.busy else (0, 0)
        running = {work.rank for work in worker.doing} if passes else set()
        entries = []
        for index, rank in enumerate(worker.ranks):
            gauges = self._gauges[worker][index]
            if index in running and boundary_ns > self._as_of[worker][index]:
                gauges = rank.gauges(passes)
            total = gauges.total_blocks
            entries.append(
                {
                    "worker_id": worker.number,
                    "dp_rank": index,
                    "active_blocks": gauges.active_blocks,
                    "inactive_blocks": gauges.inactive_blocks,
                    "total_blocks": total,
                    "active_cache_usage": gauges.active_blocks / total,
                    "physical_cache_usage": (gauges.active_blocks + gauges.inactive_blocks) / total,
                    "running_requests": gauges.running_requests,
                    "waiting_requests": gauges.waiting_requests,
                }
            )
        return entries


def _round_up(value: float) -> float:
    """Give the least number of one decimal digit that is not below `value`."""
    exact = Decimal(value)
    return float(exact.quantize(Decimal((0, (1,), exact.adjusted())), ROUND_CEILING))
