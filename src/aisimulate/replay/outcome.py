"""What a finished replay hands to the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.sequence import Sequence
    from aisimulate.replay.client import ClientView
    from aisimulate.replay.settled import Settled
    from aisimulate.replay.ticks import ScalingOutcome
    from aisimulate.router.route import Routes
    from aisimulate.workload.plays import PlaysOutcome


@dataclass(slots=True, frozen=True)
class Sla:
    """Per-request bounds in ms; a request is good when every bound that is set holds (inclusive)."""

    ttft_ms: float | None = None
    itl_ms: float | None = None
    e2e_ms: float | None = None

    @property
    def is_set(self) -> bool:
        """Whether any bound is set."""
        return not (self.ttft_ms is None and self.itl_ms is None and self.e2e_ms is None)


@dataclass(slots=True)
class ReplayOutcome:
    """Every request that arrived, in dispatch order, and what the fleet did.

    `end_ns`: the last processed event; `workers` were provisioned from 0 to `end_ns`.
    `wall_ns`: real time spent; `passes` and `plans`: simulated passes and planner invocations.
    `timing_mode`: how passes that prefill and decode were timed (additive, fused or half).
    `settled`: completed requests that are in `sequences` no more.
    In disaggregated serving there are `prefill_workers` besides, and `workers` are the decode workers.
    `provenance`: where pass times and KV capacity come from; `notes`: what a user should know.
    `tiers`: what memory behind the GPUs did. `routes`: what routers decided, by pool.
    `plays`: what became of the plays of an agentic trace. `scaling`: what became of pools that scale, whose
    workers were not there all the time. `look_ahead`: how many passes before it begins a pass is planned.
    `client`: what clients saw through a front end. `is_closed_loop`: traffic started with a burst, after
    which requests take the place of those that ended.
    """

    sequences: list[Sequence]
    gap_logs: list[GapLog]
    end_ns: int
    workers: int
    dp_size: int = 1
    gpus_per_worker: int = 1
    wall_ns: int = 0
    passes: int = 0
    plans: int = 0
    sla: Sla = field(default_factory=Sla)
    timing_mode: str = "additive"
    provenance: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    plays: PlaysOutcome | None = None
    settled: Settled | None = None
    tiers: dict[str, Any] = field(default_factory=dict)
    prefill_workers: int = 0
    prefill_dp_size: int = 1
    prefill_gpus_per_worker: int = 0
    scaling: ScalingOutcome | None = None
    routes: Routes = field(default_factory=dict)
    look_ahead: int = 0
    client: ClientView | None = None
    is_closed_loop: bool = False
