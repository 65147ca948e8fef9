"""Scaling ticks: what a policy is shown, and how its answer changes the pools (spec 02 section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.core.units import NS_PER_S, clock_ns, to_ms
from aisimulate.engine.sequence import COMPLETED
from aisimulate.replay.fleet import NEVER
from aisimulate.replay.observe.traffic import TrafficCounters
from aisimulate.replay.scaling import Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aisimulate.engine.sequence import Sequence
    from aisimulate.replay.observe.arrivals import HitRates
    from aisimulate.replay.scaled_pool import ScaledPool
    from aisimulate.replay.scaling import ScalingPolicy, Snapshot
    from aisimulate.replay.worker_pool import LifecycleLog
    from aisimulate.workload.drivers import Driver

_SIDES = ("prefill", "decode")
_STATES = ("active", "starting", "draining")


class ScaledTraffic:
    """A driver that counts what comes and ends, and keeps requests back while `gate_open` is false."""

    def __init__(self, driver: Driver) -> None:
        self.gate_open = True
        self._driver = driver
        self._held: list[Sequence] = []
        self._in_flight = 0
        self._counters = TrafficCounters()
        self._offered = (0, 0)  # prompt and output tokens
        self._now_ns = 0

    @property
    def sequences(self) -> list[Sequence]:
        """Everything dispatched so far."""
        return self._driver.sequences

    @property
    def is_independent(self) -> bool:
        """Workers are never replayed one by one where pools scale."""
        return False

    @property
    def remains(self) -> bool:
        """Whether any request is under way or still to come."""
        return self._in_flight > 0 or self._driver.next_ready_ns() is not None

    def next_ready_ns(self) -> int | None:
        """Instant of the next request; at once for those that were kept back."""
        return self._now_ns if self._held and self.gate_open else self._driver.next_ready_ns()

    def pop_ready(self, now_ns: int) -> list[Sequence]:
        """Dispatch every request that is ready and not kept back."""
        self._now_ns = now_ns
        ready = self._driver.pop_ready(now_ns)
        self._in_flight += len(ready)
        self._counters.arriving += len(ready)
        inputs, outputs = self._offered
        inputs += sum(sequence.input_tokens for sequence in ready)
        self._offered = inputs, outputs + sum(sequence.output_tokens for sequence in ready)
        if self.gate_open:
            if self._held:
                ready, self._held = [*self._held, *ready], []
            return ready
        self._held += ready
        return []

    def start_again(self, lost: Iterable[Sequence], now_ns: int) -> None:
        """Let requests whose worker is gone arrive once more, as new ones of the same first arrival."""
        self._now_ns = now_ns
        for sequence in lost:
            again = sequence.anew()
            self._driver.sequences[sequence.ordinal] = again
            self._held.append(again)

    def pop_first(self, count: int) -> list[Sequence]:
        """Dispatch without a clock; nobody does that here."""
        raise NotImplementedError(f"{count} requests of a scaled replay without a clock")

    def on_terminal(self, sequence: Sequence, now_ns: int) -> None:
        """Take note that a request ended."""
        self._in_flight -= 1
        if sequence.status == COMPLETED:
            self._counters.completed.append(sequence)
        self._driver.on_terminal(sequence, now_ns)

    def drain(self) -> dict[str, Any]:
        """Describe the traffic since the last call."""
        means = self._counters.means()
        self._counters = TrafficCounters()
        (inputs, outputs), self._offered = self._offered, (0, 0)
        return {
            "num_req": means["arriving_requests"],
            "avg_isl": means["avg_isl"],
            "avg_osl": means["avg_osl"],
            "avg_ttft_ms": means["avg_ttft_ms"],
            "avg_itl_ms": means["avg_itl_ms"],
            "shape_count": means["completed_requests"],
            "ttft_count": means["ttft_count"],
            "itl_count": means["itl_count"],
            "offered_input_tokens": inputs,
            "offered_output_tokens": outputs,
        }


@dataclass(slots=True)
class ScalingOutcome:
    """What scaling did: worker time per pool (ns), ticks, and the records of all changes."""

    prefill_ns: int
    decode_ns: int
    ticks: int
    operations: list[dict[str, Any]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)


class Scaler:
    """Asks the policy when it is time, and knows the pools by index: one, or prefill and decode."""

    def __init__(
        self,
        policy: ScalingPolicy,
        pools: list[ScaledPool],
        log: LifecycleLog,
        traffic: ScaledTraffic,
        hits: HitRates | None = None,
    ) -> None:
        self.pools = pools
        self.traffic = traffic
        self.ticks = 0
        self.tick_ns = _later(policy.initial_tick_ms(), -1)
        self._policy = policy
        self._hits = hits
        self._log = log
        self._ticked_ns = 0

    @property
    def ready_ns(self) -> int:
        """When the next starting worker gets ready."""
        return min((at_ns for pool in self.pools for at_ns in pool.pool.starting.values()), default=NEVER)

    def decide(self, now_ns: int) -> Decision:
        """Ask the policy, and take note of when to ask again."""
        snapshot = self._snapshot(now_ns)
        decision = Decision.of(self._policy.on_tick(snapshot))
        if decision.target_prefill and len(self.pools) == 1:
            raise InputError(
                f"scaling policy: target_prefill: {decision.target_prefill}, but there is no prefill pool"
            )
        self.ticks += 1
        self._ticked_ns = now_ns
        self.tick_ns = NEVER if decision.next_tick_ms is None else _later(decision.next_tick_ms, now_ns)
        return decision

    def scale(
        self, number: int, target: int, now_ns: int, is_idle: Callable[[int], bool]
    ) -> list[dict[str, Any]]:
        """Change one pool to `target` workers by the decision of this tick."""
        return self.pools[number].pool.scale(target, now_ns, self.ticks - 1, is_idle)

    def outcome(self, end_ns: int) -> ScalingOutcome:
        """Sum up at the end of the replay."""
        spent_ns = [pool.pool.provisioned_ns(end_ns) for pool in self.pools]
        prefill_ns = spent_ns[0] if len(spent_ns) > 1 else 0
        decisions: list[dict[str, Any]] = getattr(self._policy, "records", [])
        return ScalingOutcome(prefill_ns, spent_ns[-1], self.ticks, self._log.records, decisions)

    def _snapshot(self, now_ns: int) -> Snapshot:
        by_side = {pool.side: pool for pool in self.pools}
        snapshot: Snapshot = {"tick_ordinal": self.ticks, "now_ms": to_ms(now_ns)}
        for side in _SIDES:
            passes = by_side[side].forward_passes(now_ns) if side in by_side else []
            snapshot[f"{side}_fpm_snapshots"] = passes
        for side in _SIDES:
            states = by_side[side].states() if side in by_side else {state: [] for state in _STATES}
            snapshot |= _counted(side, states)
        snapshot["traffic"] = self._traffic(now_ns)
        return snapshot

    def _traffic(self, now_ns: int) -> dict[str, Any]:
        counted = self.pools[-1].forwards
        forwards, extra = counted.collect(now_ns), counted.collect_extra()
        hit_rate, placed = (0.0, 0) if self._hits is None else self._hits.drain()
        return {
            "duration_s": (now_ns - self._ticked_ns) / NS_PER_S,
            **self.traffic.drain(),
            "avg_accept_length": 1.0 + extra / forwards if forwards else None,
            "avg_kv_hit_rate": hit_rate,
            "hit_rate_count": placed,
            "accept_length_forward_count": forwards,
        }


def _counted(side: str, states: dict[str, list[int]]) -> Snapshot:
    counts = {state: len(ids) for state, ids in states.items()}
    non_draining = counts["active"] + counts["starting"]
    return {
        **{f"{state}_{side}_count": counts[state] for state in _STATES},
        **{f"{state}_{side}_ids": states[state] for state in _STATES},
        f"non_draining_{side}_count": non_draining,
        f"total_{side}_count": non_draining + counts["draining"],
    }


def _later(at_ms: float, now_ns: int) -> int:
    """Place a tick on the clock: it has to be finite and after `now_ns`."""
    if not at_ms < to_ms(NEVER):
        return NEVER
    at_ns = clock_ns(at_ms)
    return at_ns if at_ns > now_ns else NEVER
