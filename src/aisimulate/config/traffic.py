"""The load half of a replay payload (spec 02 section 1.5). Unknown fields are errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from aisimulate.config.base import (
    U64,
    LengthTokens,
    Millis,
    NonNegative,
    Positive,
    PositiveCount,
    PositiveTokens,
    Requests,
    StrictModel,
    Tokens,
)
from aisimulate.config.traffic_rules import check_inert, check_required

SourceType = Literal["trace", "synthetic", "synthetic-session"]
LoadType = Literal["concurrency", "kv_capacity_fraction", "poisson", "constant_rate"]
TraceFormat = Literal[
    "mooncake",
    "mooncake-delta",
    "dynamo",
    "azure",
    "burstgpt",
    "bailian",
    "lengths",
    "agentic_mooncake",
    "applied_compute_agentic",
    "weka",
]

NestedBasis = Literal["auto", "absolute", "relative"]

DEFAULT_TURNS = 4
DEFAULT_ARRIVAL_SEED = 42


class RuntimeTraffic(StrictModel):
    """What arrives. Rates in requests/s, times in ms, `isl`/`osl`/`trace_block_size` in tokens.

    A field that cannot act on the chosen source or load is refused unless it has its default value, so no
    setting is lost silently. `request_count` counts sessions.
    """

    source_type: SourceType
    load_type: LoadType | None = None
    trace_path: str | None = None
    trace_paths: Annotated[tuple[str, ...], Field(strict=False)] = ()
    trace_format: TraceFormat | None = None
    trace_block_size: PositiveTokens | None = None
    arrival_speedup_ratio: Positive | None = None
    replay_concurrency: PositiveCount | None = None
    agentic_lanes: PositiveCount | None = None
    weka_nested_timestamp_basis: NestedBasis | None = None
    isl: LengthTokens | None = None
    osl: LengthTokens | None = None
    request_count: Requests | None = None
    turns_per_session: Requests | None = None
    shared_prefix_ratio: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    num_prefix_groups: Tokens | None = None
    inter_turn_delay_ms: Millis | None = None
    request_rate: Positive | None = None
    arrival_interval_ms: Positive | None = None
    arrival_seed: U64 | None = None
    concurrency: PositiveCount | None = None
    num_request_ratio: Positive | None = None
    kv_load_ratio: Any = None
    max_sim_time_ms: NonNegative | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The trace files: the list wins over the single path."""
        single = () if self.trace_path is None else (self.trace_path,)
        return self.trace_paths or single

    @property
    def load(self) -> str:
        """The load type in effect (synthetic sources)."""
        return self.load_type or "concurrency"

    @property
    def format(self) -> str:
        """The trace format in effect."""
        return self.trace_format or "mooncake"

    @property
    def turns(self) -> int:
        """Turns per session: only the source `synthetic-session` has more than one."""
        return (self.turns_per_session or DEFAULT_TURNS) if self.source_type == "synthetic-session" else 1

    @property
    def accumulates(self) -> bool:
        """Whether a turn's prompt is the whole history of its session plus its own text."""
        return self.source_type == "synthetic-session" or (
            self.source_type == "trace" and self.format == "mooncake-delta"
        )

    @model_validator(mode="after")
    def _settings_fit_source(self) -> Self:
        check_required(self)
        check_inert(self)
        return self
