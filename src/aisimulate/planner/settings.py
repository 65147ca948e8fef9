"""What a planner is told before it starts: targets and limits, and what one engine of each role can hold."""

from __future__ import annotations

from dataclasses import dataclass

from aisimulate.core.units import common_interval_s

PREFILL, DECODE, AGG = "prefill", "decode", "agg"
OFF = -1
"""A GPU bound that does not hold."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What one replica of a role costs and holds; None where the engine does not say (spec 03 section B1).

    `context_tokens` is the longest sequence, `kv_tokens` counts all ranks of a replica, `nextn` draft tokens.
    """

    gpus: int | None = None
    batched_tokens: int | None = None
    seqs: int | None = None
    kv_tokens: int | None = None
    context_tokens: int | None = None
    nextn: int = 0


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The bounds of target `load`: prompt tokens in the queue of a rank, and percent of its KV capacity."""

    prefill_up_tokens: float | None = None
    prefill_down_tokens: float | None = None
    decode_up_percent: float | None = None
    decode_down_percent: float | None = None


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """Targets, intervals (s) and bounds of a planner. Names and defaults: spec 03 section B1."""

    pools: tuple[str, ...]
    """(`agg`,) or (`prefill`, `decode`)."""
    target: str = "throughput"
    scales_by_throughput: bool = False
    scales_by_load: bool = True
    throughput_interval_s: float = 180.0
    load_interval_s: float = 5.0
    tick_s: float | None = None
    """Time between ticks; None: the greatest that divides the intervals in use."""
    most_replicas_per_step: int = 8
    max_gpus: int = 8
    min_gpus: int = OFF
    min_replicas: tuple[int, ...] = (1,)
    """Least replicas, by pool."""
    ttft_ms: float = 500.0
    itl_ms: float = 50.0
    samples: int = 64
    sample_cells: int = 16
    min_samples: int = 5
    sensitivity: float = 0.8
    """Share of a bound that may be used after a replica was taken away."""
    thresholds: Thresholds = Thresholds()

    @property
    def is_easy(self) -> bool:
        """Whether fixed thresholds decide, not a model of the engine."""
        return self.target != "sla"

    @property
    def interval_s(self) -> float:
        """Time between ticks."""
        if self.tick_s is not None:
            return self.tick_s
        if not self.scales_by_throughput:
            return self.load_interval_s
        return common_interval_s(self.load_interval_s, self.throughput_interval_s)

    def floor(self, pool: str) -> int:
        """Least replicas of a pool."""
        return self.min_replicas[self.pools.index(pool)]
