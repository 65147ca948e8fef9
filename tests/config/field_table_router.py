"""What each setting of the KV-aware router does, on a small payload on which all of them matter."""

from __future__ import annotations

import random
from typing import Any

from aisimulate.config.kv_router import KvRouterConfig

from .field_payloads import POLYNOMIAL, RETURNING
from .field_walk import Acts, FieldTable, Inert, Why, changed

TABLE = FieldTable()

PATH = "spec.adapters.placement.config"
METRIC = "mean_e2e_latency_ms"


def _requests() -> list[dict[str, Any]]:
    """Thirty prompts with beginnings in common, some of which come at once."""
    rng, now_ms, requests = random.Random(6), 0.0, []
    for number in range(30):
        now_ms += rng.choice([0, 2, 5, 20])
        root, shared = rng.randrange(3), rng.choice([0, 8, 16, 20])
        tokens = [1000 * root + token for token in range(shared)]
        tokens += [100_000 + 100 * number + token for token in range(24 - shared)]
        requests.append(
            {
                "id": f"r{number:02}",
                "arrival_time_ms": now_ms,
                "input_tokens": 24,
                "output_tokens": rng.choice([1, 4, 30]),
                "input_token_ids": tokens,
            }
        )
    return requests


ROUTED = changed(
    POLYNOMIAL,
    {
        "spec.topology": {"kind": "aggregated", "workers": {"initial_workers": 3}},
        "spec.adapters": {"placement": {"provider": "kv_router", "config": {}}},
        "spec.requests": _requests(),
    },
)


def _set(**config: Any) -> dict[str, Any]:
    return {f"{PATH}.{name}": value for name, value in config.items()}


def acts(**config: Any) -> Acts:
    return Acts(ROUTED, _set(**config), METRIC)


def acts_beside(name: str, value: Any, **others: Any) -> Acts:
    return Acts(changed(ROUTED, _set(**others)), _set(**{name: value}), METRIC)


def idle(note: str, **config: Any) -> Inert:
    ((name, _),) = list(config.items())[-1:]
    others = dict(list(config.items())[:-1])
    base = changed(ROUTED, _set(**others))
    return Inert(base, _set(**{name: config[name]}), f"{PATH}.{name}: no effect {note}", Why.TIED)


# A prompt returns whose blocks worker 0 has in its host memory alone, while that worker is busy.
_TURNS = [
    {**request, "id": f"h{number}", "output_tokens": output, "arrival_time_ms": at_ms}
    for number, (request, output, at_ms) in enumerate(
        zip(RETURNING["spec"]["requests"], (2, 2, 60, 2), (0.0, 60.0, 120.0, 150.0), strict=True)
    )
]
_TURNS[2] = {**_TURNS[2], "input_tokens": 8, "input_token_ids": [500 + token for token in range(8)]}
_TURNS[3] = {**_TURNS[3], "input_token_ids": RETURNING["spec"]["requests"][0]["input_token_ids"]}
HOSTED = changed(
    RETURNING,
    {
        "spec.topology.workers.initial_workers": 2,
        "spec.adapters": {"placement": {"provider": "kv_router", "config": {}}},
        "spec.requests": _TURNS,
    },
)

TABLE.add(
    KvRouterConfig,
    overlap_score_credit=(
        acts(overlap_score_credit=0.0),
        idle(
            "without router_track_prefill_tokens", router_track_prefill_tokens=False, overlap_score_credit=0.5
        ),
    ),
    overlap_score_credit_decay=acts(overlap_score_credit_decay=2.0),
    overlap_score_weight=acts(overlap_score_weight=4.0),
    prefill_load_scale=(
        acts(prefill_load_scale=4.0),
        idle(
            "without router_track_prefill_tokens", router_track_prefill_tokens=False, prefill_load_scale=2.0
        ),
    ),
    router_temperature=acts(router_temperature=1.0),
    host_cache_hit_weight=(
        Acts(HOSTED, _set(host_cache_hit_weight=0.0), METRIC),
        idle("without host memory", host_cache_hit_weight=0.5),
    ),
    disk_cache_hit_weight=idle("without a disk tier", disk_cache_hit_weight=0.5),
    decode_active_request_weight=acts(decode_active_request_weight=4.0),
    use_kv_events=acts(use_kv_events=False),
    kv_event_lag_ms=acts(kv_event_lag_ms=40.0),
    router_ttl_secs=acts_beside("router_ttl_secs", 0.02, use_kv_events=False),
    router_track_active_blocks=acts(router_track_active_blocks=False),
    router_track_prefill_tokens=acts(router_track_prefill_tokens=False),
    router_assume_kv_reuse=(
        acts(router_assume_kv_reuse=False),
        idle(
            "without router_track_active_blocks",
            router_track_active_blocks=False,
            router_assume_kv_reuse=False,
        ),
    ),
    router_track_output_blocks=acts(router_track_output_blocks=True),
    router_output_block_decay=acts_beside("router_output_block_decay", True, router_track_output_blocks=True),
    router_prefill_load_model=acts(router_prefill_load_model="ais"),
    router_queue_threshold=acts(router_queue_threshold=0.1),
    router_queue_policy=acts_beside("router_queue_policy", "lcfs", router_queue_threshold=0.1),
    tie_break=acts(tie_break="random"),
    seed=(
        acts_beside("seed", 1, router_temperature=1.0),
        idle("without router_temperature or tie_break 'random'", seed=1),
    ),
)
