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
    setting is lost silently.
    """

    source_type: SourceType
    """where requests come from"""
    load_type: LoadType | None = None
    """what paces synthetic requests; null is `concurrency`, which without a cap lets all arrive at once"""
    trace_path: str | None = None
    """the trace; a relative path is taken from the current directory :rule: a file that can be read"""
    trace_paths: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """the same as a list, which wins :rule: several files only for `dynamo`"""
    trace_format: TraceFormat | None = None
    """how to read it ([the formats](traces.md)); null is `mooncake`"""
    trace_block_size: PositiveTokens | None = None
    """tokens that one id in `hash_ids` stands for; null is what the format says, else 512 :rule: must equal
    what the trace says itself, and be 512 or unset where the format has no ids"""
    arrival_speedup_ratio: Positive | None = None
    """divides times of arrival and pauses; null is 1"""
    replay_concurrency: PositiveCount | None = None
    """closed loop that ignores the trace's arrival times :unit: sessions"""
    agentic_lanes: PositiveCount | None = None
    """how many plays are under way at once; a lane that is free takes the next play, which starts with its
    earliest request. Without it plays start when the trace says :unit: plays :rule: agentic traces only"""
    weka_nested_timestamp_basis: NestedBasis | None = None
    """whether times inside of subagents count from the start of the play or of the subagent; null is `auto`,
    which takes what fits the whole corpus :rule: `weka` only"""
    isl: LengthTokens | None = None
    """new prompt tokens of each request (each turn) :unit: tokens"""
    osl: LengthTokens | None = None
    """output tokens of each request :unit: tokens"""
    request_count: Requests | None = None
    """how many :unit: sessions :rule: this or `num_request_ratio`"""
    turns_per_session: Requests | None = None
    """requests per session; null is 4 :unit: turns :rule: `synthetic-session` only"""
    shared_prefix_ratio: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    """share of each prompt that is common to a group; null is 0 :unit: share"""
    num_prefix_groups: Tokens | None = None
    """number of common prefixes; null is 0 :unit: groups"""
    inter_turn_delay_ms: Millis | None = None
    """pause between the end of a turn and the next; null is 0"""
    request_rate: Positive | None = None
    """`constant_rate`: arrivals are evenly spaced; `poisson`: their mean rate :unit: sessions/s"""
    arrival_interval_ms: Positive | None = None
    """the same for `constant_rate` as a distance"""
    arrival_seed: U64 | None = None
    """seed of `poisson`; null is 42"""
    concurrency: PositiveCount | None = None
    """closed loop: sessions in flight :unit: sessions"""
    num_request_ratio: Positive | None = None
    """sessions as a multiple of the load (concurrency, else rate), rounded half away from zero, at least 1
    :rule: not beside `request_count`"""
    kv_load_ratio: Any = None
    """concurrency as a share of what the KV cache holds in requests of isl + osl/2 tokens :unit: share
    :rule: a number > 0; `kv_capacity_fraction` only"""
    max_sim_time_ms: NonNegative | None = None
    """only checked :rule: only that of the spec"""

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
