"""The workers of a pool that scales: who starts, serves and drains, and a record of every change.

A decision names how many workers there should be, active and starting ones together. Ids are never used again
(spec 02 section 6, spec 03 section B9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisimulate.core.units import to_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Transition = dict[str, Any]

_CANCELLED = "startup_cancelled"


@dataclass(slots=True)
class LifecycleLog:
    """Records of all changes to the pools of a replay, in order."""

    records: list[dict[str, Any]] = field(default_factory=list)


class WorkerPool:
    """Workers 0 .. `workers` - 1 serve from the start; those that are added take `startup_ns` to get ready.

    `active` workers take new requests, `starting` ones (id -> instant at which they get ready) not yet, and
    `draining` ones no more. Every change is written to `log` under the name of the pool.
    """

    def __init__(self, name: str, workers: int, startup_ns: int, log: LifecycleLog) -> None:
        self.active = dict.fromkeys(range(workers))
        self.starting: dict[int, int] = {}
        self.draining: dict[int, None] = {}
        self.name = name
        self._startup_ns = startup_ns
        self._log = log
        self._next_id = workers
        self._origins: dict[int, int] = {}  # operation that last started or drained a worker
        self._since_ns = dict.fromkeys(range(workers), 0)  # when those that are there were asked for
        self._spent_ns = 0  # by those that are gone

    @property
    def wanted(self) -> int:
        """Workers that are there to stay: active and starting."""
        return len(self.active) + len(self.starting)

    def provisioned_ns(self, end_ns: int) -> int:
        """Worker time up to `end_ns`: each from when it was asked for until it was removed."""
        return self._spent_ns + sum(end_ns - since_ns for since_ns in self._since_ns.values())

    def scale(self, target: int, now_ns: int, tick: int, is_idle: Callable[[int], bool]) -> list[Transition]:
        """Add or take away workers until `target` are wanted, by the decision of scaling tick `tick`.

        Starting workers go first, then active ones, always the highest id; one that `is_idle` goes at once.
        Returns what became of whom, in order.
        """
        operation = len(self._log.records)
        if target >= self.wanted:
            transitions = [self._add(now_ns, operation) for _ in range(target - self.wanted)]
        else:
            surplus = self.wanted - target
            cancelled = sorted(self.starting, reverse=True)[:surplus]
            drained = sorted(self.active, reverse=True)[: surplus - len(cancelled)]
            transitions = [self._drain(worker, operation) for worker in drained]
            transitions += [self._cancel(worker, now_ns) for worker in cancelled]
            transitions += [self._remove(worker, now_ns) for worker in sorted(drained) if is_idle(worker)]
        self._record("planner_scale", now_ns, transitions, tick)
        return transitions

    def get_ready(self, now_ns: int) -> list[int]:
        """Let the starting workers that are ready by now serve; return their ids."""
        ready = [worker for worker, ready_ns in sorted(self.starting.items()) if ready_ns <= now_ns]
        for worker in ready:
            del self.starting[worker]
            self.active[worker] = None
            self._record("worker_ready_event", now_ns, [self._moved(worker, "ready", "starting", "active")])
        return ready

    def settle(self, idle: Iterable[int], now_ns: int) -> list[int]:
        """Remove the draining workers among `idle`: they ended their last request. Return their ids."""
        done = [worker for worker in sorted(idle) if worker in self.draining]
        self._record("drain_settlement", now_ns, [self._remove(worker, now_ns) for worker in done])
        return done

    # Transitions --------------------------------------------------------------------------------------

    def _add(self, now_ns: int, operation: int) -> Transition:
        worker = self._next_id
        self._next_id += 1
        self._origins[worker] = operation
        self._since_ns[worker] = now_ns
        if self._startup_ns:
            self.starting[worker] = now_ns + self._startup_ns
            return self._moved(worker, "starting", None, "starting")
        self.active[worker] = None
        return self._moved(worker, "ready", None, "active")

    def _drain(self, worker: int, operation: int) -> Transition:
        del self.active[worker]
        self.draining[worker] = None
        self._origins[worker] = operation
        return self._moved(worker, "draining", "active", "draining")

    def _cancel(self, worker: int, now_ns: int) -> Transition:
        del self.starting[worker]
        self._spent_ns += now_ns - self._since_ns.pop(worker)
        return self._moved(worker, "removed", "starting", "removed") | {"reason": _CANCELLED}

    def _remove(self, worker: int, now_ns: int) -> Transition:
        del self.draining[worker]
        self._spent_ns += now_ns - self._since_ns.pop(worker)
        return self._moved(worker, "removed", "draining", "removed")

    def _moved(self, worker: int, transition: str, prior: str | None, state: str) -> Transition:
        return {
            "worker_id": worker,
            "transition": f"worker_{transition}",
            "prior_state": prior,
            "state": state,
            "origin_operation_ordinal": self._origins[worker],
        }

    def _record(
        self, cause: str, now_ns: int, transitions: list[Transition], tick: int | None = None
    ) -> None:
        """Write a record, unless nothing changed; its origin is the one earlier operation it goes back to."""
        if not transitions:
            return
        operation = len(self._log.records)
        origins = {item["origin_operation_ordinal"] for item in transitions} - {operation}
        record = {
            "operation_ordinal": operation,
            "at_ms": to_ms(now_ns),
            "pool": self.name,
            "cause": cause,
            "planner_tick_ordinal": tick,
            "origin_operation_ordinal": origins.pop() if len(origins) == 1 else None,
            "transitions": transitions,
            "state_after_batch": {
                "active": sorted(self.active),
                "starting": sorted(self.starting),
                "draining": sorted(self.draining),
            },
            "topology_released_request_uuids": [],
        }
        self._log.records.append(record)
