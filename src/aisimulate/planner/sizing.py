"""How many replicas a load needs, asked of the simulator's own timing (spec 03 section E)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from aisimulate.planner.model import Shape
from aisimulate.planner.settings import DECODE, PREFILL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.core.forward_pass import ForwardPass
    from aisimulate.forecast.traffic import Window
    from aisimulate.planner.exact import ExactCapacity, ExactEngine
    from aisimulate.planner.observations import Observation
    from aisimulate.planner.settings import PlannerSettings
    from aisimulate.planner.state import Counts, PlannerState

_BUSY = {"throughput": 0.85, "latency": 0.5, "sla": 0.85}
"""Share of its time that an engine may be busy, by target."""
_MARGIN = 1.1
"""By how much a load may be misjudged without anything having to be done about it."""
_LEAST_DRAIN_S = 15.0


class Needs(NamedTuple):
    """Replicas by pool: for the load as it is expected, for a tenth less, and for a tenth more.

    `least` and `planned` also work off what waits; `ample` has to sustain what is yet to come only.
    """

    least: Counts
    planned: Counts
    ample: Counts

    @classmethod
    def most(cls, needs: Sequence[Needs]) -> Needs:
        """Meet all of several needs."""
        return cls(*(most(list(column)) for column in zip(*needs, strict=True)))


def most(counts: Sequence[Counts]) -> Counts:
    """Give the most of several counts, pool by pool."""
    return tuple(max(column) for column in zip(*counts, strict=True))


class StartingReplicas:
    """When the replicas that were asked for will serve, by pool (s); each takes `startup_s`."""

    def __init__(self, pools: Sequence[str], startup_s: float) -> None:
        self.startup_s = startup_s
        self._due_s: dict[str, list[float]] = {pool: [] for pool in pools}

    def changed(self, pool: str, by: int, now_s: float) -> None:
        """Take note that replicas were asked for, or taken away: of those that start the newest go first."""
        due_s = self._due_s[pool]
        due_s += [now_s + self.startup_s] * by
        del due_s[max(0, len(due_s) + min(0, by)) :]

    def due_s(self, pool: str, seen: Observation) -> list[float]:
        """When each replica that is starting will serve."""
        due_s = [at_s for at_s in self._due_s[pool] if at_s > seen.now_s]
        self._due_s[pool] = due_s = due_s[: seen.counts[pool].starting]
        return due_s


class Sizing:
    """Sizes pools for a load; `with_queue`: and for what waits."""

    def __init__(
        self,
        settings: PlannerSettings,
        state: PlannerState,
        engines: Mapping[str, ExactEngine],
        starting: StartingReplicas,
        *,
        with_queue: bool,
    ) -> None:
        self._settings = settings
        self._state = state
        self._engines = engines
        self._starting = starting
        self._with_queue = with_queue

    def needs(self, seen: Observation, forecast: Window, window_s: float, rps: dict[str, float]) -> Needs:
        """Size for the requests of a window; `rps` gets what a replica of each pool sustains."""
        rows = []
        for pool, floor in zip(self._state.pools, self._state.floors, strict=True):
            capacity = self._capacity(pool, forecast)
            rps[pool] = capacity.rps
            busy, share = forecast.num_req / window_s / capacity.rps, self._share(pool, capacity)
            queue_s = 0.0
            if self._with_queue:
                queue_s = _waiting(seen.passes.get(pool) or [], pool, forecast) / capacity.rps
            least, planned = (
                max(_replicas(load / share), self._catching_up(seen, pool, load, queue_s))
                for load in (busy / _MARGIN, busy)
            )
            ample = _replicas(busy * _MARGIN / share)
            rows.append([max(count, floor) for count in (least, planned, ample)])
        return Needs(*map(tuple, zip(*rows, strict=True)))

    def _capacity(self, pool: str, forecast: Window) -> ExactCapacity:
        isl, osl = max(1, math.ceil(forecast.isl)), max(1, math.ceil(forecast.osl))
        hits = None if pool == DECODE else self._state.kv_hit_rate
        accept = 1.0 if pool == PREFILL else self._state.accept_length
        bounded = self._settings.target == "sla" and pool != PREFILL
        itl_ms = self._settings.itl_ms if bounded else None
        return self._engines[pool].capacity(Shape(isl, osl, hits, accept), itl_ms)

    def _share(self, pool: str, capacity: ExactCapacity) -> float:
        """How busy an engine may be: so much that the mean wait for others still meets the bound on TTFT.

        A queue of equal jobs waits busy / (2 (1 - busy)) of their length on average.
        """
        busy = _BUSY[self._settings.target]
        if self._settings.target != "sla" or pool == DECODE or not capacity.prompt_s:
            return busy
        slack = 2.0 * (self._settings.ttft_ms / 1000.0 - capacity.prompt_s) / capacity.prompt_s
        return min(busy, max(0.25, slack / (1.0 + slack))) if slack > 0 else busy

    def _catching_up(self, seen: Observation, pool: str, busy: float, queue_s: float) -> int:
        """Replicas that work off in time what will wait when those asked for now serve.

        `queue_s` is the engine time of what waits now. Until then the present replicas do what they can,
        and each that is starting does so from its time on. In time: in as long as a start takes.
        """
        due_s = self._starting.due_s(pool, seen)
        at_s, able = seen.now_s, seen.counts[pool].present - len(due_s)
        for next_s in (*due_s, seen.now_s + self._starting.startup_s):
            queue_s = max(0.0, queue_s + (busy - able) * (next_s - at_s))
            at_s, able = next_s, able + 1
        if not queue_s:
            return 0
        return _replicas(busy + queue_s / max(_LEAST_DRAIN_S, self._starting.startup_s))


def _waiting(passes: Sequence[ForwardPass], pool: str, forecast: Window) -> float:
    """Count the requests that wait at a pool, as prompts of the mean length."""
    if pool == DECODE:
        return float(sum(item.num_queued_decode for item in passes))
    return sum(item.sum_queued_prefill_tokens for item in passes) / max(1.0, forecast.isl)


def _replicas(load: float) -> int:
    return math.ceil(load - 1e-9)
