"""Counts of what came, ended and was found in the cache between two telemetry samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisimulate.core.units import NS_PER_MS
from aisimulate.engine.sequence import COMPLETED
from aisimulate.replay.records import mean_gap_ms

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker


@dataclass(slots=True)
class CacheCounters:
    """What the passes of a pool found in the cache, and whom they preempted."""

    hit_tokens: int = 0
    looked_up_tokens: int = 0
    preemptions: int = 0

    def interval_metrics(self) -> dict[str, int]:
        """Count prompt tokens (after a preemption: all tokens) looked up, those found, and preemptions."""
        return {
            "cache_hit_tokens": self.hit_tokens,
            "cache_total_tokens": self.looked_up_tokens,
            "preemptions": self.preemptions,
        }


@dataclass(slots=True)
class TrafficCounters:
    """Counters of one interval; `forwards` and `extra_tokens` go on from interval to interval.

    `forwards`: decode forwards of single requests in passes that ended; `extra_tokens`: what they yielded
    beyond one token each. Cache lookups and preemptions of a pass count when it ends.
    """

    arriving: int = 0
    forwards: int = 0
    extra_tokens: int = 0
    completed: list[Sequence] = field(default_factory=list)
    prefill: CacheCounters = field(default_factory=CacheCounters)
    decode: CacheCounters = field(default_factory=CacheCounters)
    _in_flight: dict[WatchedWorker, tuple[int, int, int, int]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened in the interval."""
        pools = (self.prefill, self.decode)
        caches = any(pool.looked_up_tokens or pool.preemptions for pool in pools)
        return not (self.arriving or self.completed or caches)

    def next_interval(self) -> TrafficCounters:
        """Start the next interval."""
        return TrafficCounters(
            forwards=self.forwards, extra_tokens=self.extra_tokens, _in_flight=self._in_flight
        )

    def started(self, worker: WatchedWorker) -> None:
        """Note what the passes that began found in the cache, and whom they preempted."""
        forwards = hit = looked_up = preemptions = 0
        for work in worker.doing:
            forwards += 0 if worker.prefills else work.forwards
            preemptions += len(work.preempted)
            for sequence in work.admitted:
                hit += sequence.admissions[-1][1]
                looked_up += sequence.tokens
        self._in_flight[worker] = forwards, hit, looked_up, preemptions

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Count what ended."""
        self.completed += [sequence for sequence in terminal if sequence.status == COMPLETED]
        forwards, hit, looked_up, preemptions = self._in_flight.pop(worker)
        self.forwards += worker.planned_passes * forwards
        self.extra_tokens += sum(worker.ranks[work.rank].extra_tokens for work in worker.doing)
        pool = self.prefill if worker.prefills else self.decode
        pool.hit_tokens += hit
        pool.looked_up_tokens += looked_up
        pool.preemptions += preemptions

    def forwards_by(self, worker: WatchedWorker, at_ns: int) -> int:
        """Count the decode forwards of a busy worker in the passes in flight that ended by then."""
        return worker.passes_by(at_ns)[0] * self._in_flight[worker][0]

    def means(self) -> dict[str, Any]:
        """Give counts, and means over the requests that completed in the interval (0.0 over none)."""
        done = self.completed
        waits_ns = [s.first_token_ns - s.arrival_ns for s in done if s.first_token_ns is not None]
        gaps_ms = [gap for sequence in done if (gap := mean_gap_ms(sequence)) is not None]
        return {
            "arriving_requests": self.arriving,
            "completed_requests": len(done),
            "avg_isl": _mean([sequence.input_tokens for sequence in done]),
            "avg_osl": _mean([sequence.emitted_tokens for sequence in done]),
            "avg_ttft_ms": _mean(waits_ns) / NS_PER_MS,
            "avg_itl_ms": _mean(gaps_ms),
            "ttft_count": len(waits_ns),
            "itl_count": len(gaps_ms),
        }


def _mean(values: list[int] | list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
