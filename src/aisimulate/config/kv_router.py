"""Settings of the KV-aware router (spec 03 section A8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from aisimulate.config.base import U64, FieldError, Millis, StrictModel
from aisimulate.config.messages import parse_model
from aisimulate.config.spec import ReplaySpec

PROVIDER = "kv_router"
PATH = "spec.adapters.placement.config"

Weight = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]  # sums of costs stay finite
Lifetime = Annotated[float, Field(gt=0, le=9e9, allow_inf_nan=False)]  # in ns it fits into 64 bits
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

# Settings that only act together with another one: name -> (the other, what it has to be).
_NEEDS: dict[str, tuple[str, str]] = {
    "router_ttl_secs": ("use_kv_events", "false"),
    "router_queue_policy": ("router_queue_threshold", "a number"),
    "router_output_block_decay": ("router_track_output_blocks", "true"),
    "router_prefill_load_model": ("router_track_prefill_tokens", "true"),
    "overlap_score_credit_decay": ("router_track_prefill_tokens", "true"),
    "router_track_output_blocks": ("router_track_active_blocks", "true"),
}


class KvRouterConfig(StrictModel):
    """How requests are placed by cache content and load; `tie_break` and `seed` are ours."""

    field_aliases: ClassVar[Mapping[str, str]] = {"temperature": "router_temperature"}

    overlap_score_credit: Weight = 1.0
    """what a cached block takes off the cost :unit: blocks"""
    overlap_score_credit_decay: Weight = 0.0
    """lowers the credit of a worker by how far it is behind in prefills :rule: needs
    `router_track_prefill_tokens`"""
    overlap_score_weight: Weight | None = None
    """old name: sets `prefill_load_scale`, and 0 takes the credit away too :rule: not beside credit or scale
    """
    prefill_load_scale: Weight = 1.0
    """weight of prefills against decodes"""
    router_temperature: Weight = 0.0
    """0 takes the lowest cost, above 0 costs are drawn (also `temperature`)"""
    host_cache_hit_weight: _Share = 0.75
    """the same credit for a block in host memory; acts with `native_host_offload` :unit: blocks"""
    disk_cache_hit_weight: _Share = 0.25
    """the same for a block on disk :unit: blocks"""
    decode_active_request_weight: Weight = 0.0
    """cost of each request that a worker has :unit: blocks"""
    use_kv_events: bool = True
    """hear from the caches; else remember what was sent where"""
    kv_event_lag_ms: Millis = 0.0
    """how late the router hears of stored and removed blocks :rule: needs `use_kv_events`"""
    router_ttl_secs: Lifetime = 120.0
    """how long a placement is remembered :rule: <= 9e9; needs `use_kv_events` false"""
    router_track_active_blocks: bool = True
    """count the blocks of running requests"""
    router_track_prefill_tokens: bool = True
    """count the prompt tokens still to compute"""
    router_assume_kv_reuse: bool = True
    """blocks that running requests share count once"""
    router_track_output_blocks: bool = False
    """count what running requests have generated too :rule: needs `router_track_active_blocks`"""
    router_output_block_decay: bool = False
    """these count less, the nearer a request is to its end :rule: needs `router_track_output_blocks`"""
    router_prefill_load_model: Literal["none", "aic", "ais"] = "none"
    """let prefill load shrink with the time that pass times predict (the last two are the same) :rule: needs
    `router_track_prefill_tokens`"""
    router_queue_threshold: Weight | None = None
    """requests wait at the router while every worker has more prefill tokens than this share of
    `max_num_batched_tokens` :unit: share"""
    router_queue_policy: Literal["fcfs", "lcfs", "wspt"] = "fcfs"
    """who waits least: first come, last come, or fewest uncached tokens :rule: needs
    `router_queue_threshold`"""
    tie_break: Literal["lowest", "random"] = "lowest"
    """equal costs: the fewest active blocks, then the first worker; or drawn :rule: `random` not with a
    temperature"""
    seed: U64 = 0
    """of all draws"""

    @model_validator(mode="after")
    def _settings_act(self) -> Self:
        for name, (other, needed) in _NEEDS.items():
            is_set = getattr(self, name) != type(self).model_fields[name].default
            if is_set and not self._is(other, needed):
                raise FieldError(name, f"has no effect unless {other} is {needed}")
        if self.tie_break == "random" and self.router_temperature > 0:
            raise FieldError("tie_break", "'random' has no effect with a router_temperature above 0")
        if self.kv_event_lag_ms and not self.use_kv_events:
            raise FieldError("kv_event_lag_ms", "has no effect unless use_kv_events is true")
        return self

    def _is(self, name: str, needed: str) -> bool:
        value = getattr(self, name)
        return {"true": value is True, "false": value is False, "a number": value is not None}[needed]

    @model_validator(mode="after")
    def _one_weight(self) -> Self:
        if self.overlap_score_weight is None:
            return self
        for name in ("prefill_load_scale", "overlap_score_credit"):
            if name in self.model_fields_set:
                raise FieldError("overlap_score_weight", f"may not be combined with {name}")
        return self


def kv_router_config(spec: ReplaySpec) -> KvRouterConfig | None:
    """Read the settings of the router, None where requests are placed otherwise. Raises `InputError`."""
    placement = spec.adapters.placement
    if placement.provider != PROVIDER:
        return None
    return parse_model(KvRouterConfig, {} if placement.config is None else placement.config, PATH)


def unused_router_settings(spec: ReplaySpec) -> Iterator[str]:
    """Name every setting of the router that was given and cannot act, one line each."""
    config = kv_router_config(spec)
    if config is None:
        return
    ranks = [spec.engine.role(stage).rank for stage in spec.stages]
    has_host = any(rank.native_host_offload is not None for rank in ranks)
    has_disk = any(rank.g3_offload is not None for rank in ranks)
    draws = config.router_temperature > 0 or config.tie_break == "random"
    no_prefills, untold = not config.router_track_prefill_tokens, "without router_track_prefill_tokens"
    no_blocks = not config.router_track_active_blocks
    rules = (
        ("host_cache_hit_weight", not has_host, "without host memory"),
        ("disk_cache_hit_weight", not has_disk, "without a disk tier"),
        ("seed", not draws, "without router_temperature or tie_break 'random'"),
        ("router_assume_kv_reuse", no_blocks, "without router_track_active_blocks"),
        ("prefill_load_scale", no_prefills, untold),
        ("overlap_score_credit", no_prefills, untold),
    )
    for name, is_unused, reason in rules:
        if is_unused and name in config.model_fields_set:
            yield f"{PATH}.{name}: no effect {reason}"
