"""The deployment half of a replay payload: fleet, engine, limits, SLA and authored requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from aisimulate.config.base import (
    U32,
    FieldError,
    Millis,
    NonNegative,
    Positive,
    PositiveCount,
    PositiveTokens,
    StrictModel,
    Tokens,
    TolerantModel,
    null_is_default,
)
from aisimulate.config.calibration import Calibration
from aisimulate.config.engine import EngineConfig, NullableEngine
from aisimulate.config.frontend import FrontendConfig
from aisimulate.config.messages import show
from aisimulate.core.limits import MAX_RANKS, MAX_WORKERS

VERSION = 1

# What prefill and decode workers must have in common, and why.
_SHARED_BY_STAGES = {
    "backend": "an engine hands KV blocks only to its own kind",
    "block_size": "blocks are handed over as they are",
}


class WorkerPool(StrictModel):
    """`initial_workers` are active at t = 0; workers added later wait `startup_delay_ms`."""

    initial_workers: Annotated[int, Field(gt=0, le=MAX_WORKERS)]
    """workers at the start :unit: workers"""
    startup_delay_ms: Millis = 0.0
    """time a worker added later takes to start"""


class Aggregated(StrictModel):
    """One pool that does prefill and decode."""

    kind: Literal["aggregated"]
    """one pool does prefill and decode"""
    workers: WorkerPool
    """that pool"""


class Disaggregated(StrictModel):
    """A prefill and a decode pool; the latency counts where bytes and bandwidth give no transfer time."""

    kind: Literal["disaggregated"]
    """separate pools of prefill and decode workers"""
    prefill: WorkerPool
    """pool of prefill workers"""
    decode: WorkerPool
    """pool of decode workers"""
    handoff_latency_ms: Millis = 0.0
    """time of a hand-over without bytes and bandwidth"""


Topology = Annotated[Aggregated | Disaggregated, Field(discriminator="kind")]


class Provider(StrictModel):
    """A policy by name with its own settings."""

    provider: str
    """the policy :rule: `round_robin`, `kv_router` or a [policy of yours](router.md#a-policy-of-your-own);
    `none`, `planner` and `scripted`"""
    config: Any = None
    """its settings: those of [kv_router](#kv_router), [of the planner](#planner), [of a script](#scripted),
    or the keyword arguments of your class; `round_robin` and `none` take none"""


class Adapters(StrictModel):
    """Who places requests and who scales the pools."""

    placement: Provider = Provider(provider="round_robin")
    """who gets a request: in turn, or by [cache and load](#kv_router)"""
    scaling: Provider = Provider(provider="none")
    """who adds and removes workers: `none`, `planner` or `scripted`"""


class SlaConfig(StrictModel):
    """Per-request bounds in ms for goodput; `e2e_ms` excludes the other two."""

    ttft_ms: Positive | None = None
    """bound of the time to the first token"""
    itl_ms: Positive | None = None
    """bound of the request's mean time between tokens"""
    e2e_ms: Positive | None = None
    """bound of the time to the last token :rule: not beside the others"""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        others = [name for name in ("ttft_ms", "itl_ms") if getattr(self, name) is not None]
        if self.e2e_ms is not None and others:
            raise FieldError("e2e_ms", f"{self.e2e_ms:g} may not be combined with {others[0]}")
        return self


class ReplayRequest(TolerantModel):
    """One request authored in the payload (spec 02 section 1.2).

    Types and ranges are checked here, what ties requests together where the workload is built.
    """

    id: str
    """name in the report :rule: not empty, used once"""
    arrival_time_ms: Millis
    """when it arrives"""
    input_tokens: PositiveTokens
    """prompt length"""
    output_tokens: Tokens
    """output length"""
    input_token_ids: Annotated[tuple[U32, ...], Field(strict=False)] | None = None
    """the prompt; prompts that start alike share cached blocks :rule: as many as `input_tokens`, 32-bit"""
    output_token_ids: Annotated[tuple[U32, ...], Field(strict=False)] | None = None
    """the output; sets its length :rule: 32-bit"""
    dp_rank: U32 | None = None
    """the attention-DP rank to use :rule: below `dp_size`"""
    session_id: str | None = None
    """repeated in the report"""
    turn_index: U32 | None = None
    """repeated in the report"""
    metadata: Any = None
    """repeated in the report"""


class ReplaySpec(TolerantModel):
    """What to replay on. Times in ms."""

    version: int = VERSION
    """version of the payload format :rule: 1"""
    topology: Topology
    """pools of workers"""
    engine: NullableEngine = Field(default_factory=EngineConfig)
    """what a worker is"""
    adapters: Annotated[Adapters, BeforeValidator(null_is_default)] = Adapters()
    """[placement](#kv_router) of requests and [scaling](#planner) of pools"""
    max_sim_time_ms: NonNegative | None = None
    """simulated time at which the replay is cut"""
    max_in_flight: PositiveCount | None = None
    """closed loop with this many sessions in flight :unit: sessions :rule: equal to the traffic's own cap,
    if any"""
    record_per_request: bool = True
    """report every request, too"""
    sla: Annotated[SlaConfig, BeforeValidator(null_is_default)] = SlaConfig()
    """bounds for goodput"""
    frontend: FrontendConfig | None = None
    """what is [between client and engine](front-end.md)"""
    requests: Annotated[tuple[ReplayRequest, ...], Field(strict=False)] = ()
    """requests given one by one :rule: needed without traffic"""
    calibration: Calibration | None = None
    """corrects pass times by what was [measured](calibration.md) :rule: the path of a file, or [what is in
    one](#calibration); made for this engine"""

    @property
    def stages(self) -> tuple[str | None, ...]:
        """The roles in use: prefill and decode, or None for the flat role of an aggregated fleet."""
        return (None,) if isinstance(self.topology, Aggregated) else ("prefill", "decode")

    @field_validator("version")
    @classmethod
    def _known_version(cls, value: int) -> int:
        if value != VERSION:
            raise ValueError(f"{show(value)} is not {VERSION} (the only version)")
        return value

    @model_validator(mode="after")
    def _roles_fit_topology(self) -> Self:
        if isinstance(self.topology, Aggregated):
            self._check_aggregated()
        else:
            self._check_disaggregated()
        return self

    @model_validator(mode="after")
    def _ranks_are_countable(self) -> Self:
        for stage in self.stages:
            name = stage or "workers"
            workers, dp_size = getattr(self.topology, name).initial_workers, self.engine.role(stage).dp_size
            if workers * dp_size > MAX_RANKS:
                problem = f"{workers} times dp_size {dp_size} is not <= {MAX_RANKS} (ranks of a pool)"
                raise FieldError(f"topology.{name}.initial_workers", problem)
        return self

    def _check_aggregated(self) -> None:
        for stage in ("prefill", "decode"):
            if getattr(self.engine, stage) is not None:
                raise FieldError(f"engine.{stage}", "has no effect in an aggregated topology")
        self._check_worker_type("engine.rank", self.engine.rank.worker_type, "aggregated")

    def _check_disaggregated(self) -> None:
        ranks = {stage: self.engine.role(stage).rank for stage in ("prefill", "decode")}
        for name, reason in _SHARED_BY_STAGES.items():
            prefill, decode = (getattr(rank, name) for rank in ranks.values())
            if prefill != decode:
                problem = f"needs matching prefill/decode {name}, got {prefill} and {decode}: {reason}"
                raise FieldError("engine", f"disaggregated replay {problem}")
        for stage, rank in ranks.items():
            self._check_worker_type(f"engine.{stage}.rank", rank.worker_type, stage)
            if rank.timing_mode != "additive":
                problem = "has nothing to fuse in a disaggregated topology: no worker mixes passes"
                raise FieldError(f"engine.{stage}.rank.timing_mode", f"{rank.timing_mode!r} {problem}")

    def _check_worker_type(self, path: str, authored: str, stage: str) -> None:
        # The topology decides; the default is what a dumped configuration carries everywhere.
        if authored not in ("aggregated", stage):
            raise FieldError(f"{path}.worker_type", f"{authored!r} contradicts the topology ({stage})")
