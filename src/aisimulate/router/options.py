"""The settings of the KV-aware router, as plain values (spec 03 sections A6 and A8)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

QueuePolicy = Literal["fcfs", "lcfs", "wspt"]
TieBreak = Literal["lowest", "random"]


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """How one pool is routed.

    Costs are in blocks. `overlap_score_credit` is what a cached block takes off, less the more a worker is
    behind in its prefills (`overlap_score_credit_decay`); `host_cache_hit_weight` and
    `disk_cache_hit_weight` are the same for blocks in lower tiers. `queue_threshold` is the share of
    `max_num_batched_tokens` above which a worker is busy, None for no queue. Without `use_kv_events` the
    router remembers its own choices for `ttl_secs` instead of hearing from the caches. `seed` is that of
    every draw of the pool.
    """

    overlap_score_credit: float = 1.0
    overlap_score_credit_decay: float = 0.0
    prefill_load_scale: float = 1.0
    temperature: float = 0.0
    host_cache_hit_weight: float = 0.75
    disk_cache_hit_weight: float = 0.25
    decode_active_request_weight: float = 0.0
    use_kv_events: bool = True
    ttl_secs: float = 120.0
    kv_event_lag_ms: float = 0.0
    track_active_blocks: bool = True
    track_prefill_tokens: bool = True
    assume_kv_reuse: bool = True
    track_output_blocks: bool = False
    output_block_decay: bool = False
    predict_prefill: bool = False
    queue_threshold: float | None = None
    queue_policy: QueuePolicy = "fcfs"
    tie_break: TieBreak = "lowest"
    seed: int = 0

    def seeded(self, seed: int) -> RouterOptions:
        """The same with another seed."""
        return replace(self, seed=seed)

    def for_prefill_pool(self) -> RouterOptions:
        """Settings of the prefill pool of a pair: decode load plays no part (spec 03 section A7)."""
        return replace(self, track_active_blocks=False, track_output_blocks=False)

    def for_decode_pool(self) -> RouterOptions:
        """Settings of the decode pool of a pair: it sees neither caches nor prefills (spec 03 section A7).

        Without prefills no worker is ever busy, so nobody waits there whatever the threshold is.
        """
        return replace(
            self,
            queue_threshold=None,
            overlap_score_credit=0.0,
            host_cache_hit_weight=0.0,
            disk_cache_hit_weight=0.0,
            assume_kv_reuse=False,
            track_prefill_tokens=False,
            predict_prefill=False,
        )
