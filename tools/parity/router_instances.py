"""Random replays with a KV-aware router: tiny caches, common prefixes, and settings that matter."""

from __future__ import annotations

from random import Random
from typing import Any

Instance = dict[str, Any]

KINDS = ("plain", "lag", "queue", "dp", "pair", "mtp", "pair-mtp", "pair-queue", "state")
_SETTINGS: tuple[tuple[float, str, tuple[Any, ...]], ...] = (
    (0.3, "router_temperature", (0.2, 1.0)),
    (0.2, "overlap_score_credit", (0.0, 0.5, 2.0)),
    (0.2, "prefill_load_scale", (0.0, 0.5, 4.0)),
    (0.15, "overlap_score_credit_decay", (1.0,)),
    (0.15, "decode_active_request_weight", (1.5,)),
    (0.1, "router_assume_kv_reuse", (False,)),
    (0.1, "router_track_active_blocks", (False,)),
)


def draw(rng: Random, backend: str, kind: str) -> Instance:
    """Draw a replay: `engine`, `rows` of a trace, `router` settings, and how many workers of what."""
    block_size, stride = rng.choice([2, 4, 4, 8]), rng.choice([1, 1, 2, 4])
    longest = rng.choice([6, 12, 20]) * block_size
    budget = max(rng.choice([16, 32, 64, 200]), 2 * block_size)
    router = {name: rng.choice(values) for share, name, values in _SETTINGS if rng.random() < share}
    if kind.endswith("queue"):
        router["router_queue_threshold"] = rng.choice([0.2, 0.5, 1.0])
        router["router_queue_policy"] = rng.choice(["fcfs", "lcfs", "wspt"])
    engine = _engine(rng, backend, block_size, longest, budget)
    if kind.endswith("mtp"):  # rates of 0 and 1: with others each side draws for itself
        engine |= {
            "aic_nextn": rng.choice([1, 2, 3]),
            "aic_nextn_accept_rates": rng.choice(["1", "1,1", "1,0", "0"]),
        }
    if kind.startswith("pair") and rng.random() < 0.2:
        engine["max_model_len"] = longest // 2 + 1  # some prompts are rejected, whatever waits for them
    if kind == "state":
        blocks = rng.choice([1, 1, 2, 3])
        engine |= {
            "num_gpu_blocks": engine["num_gpu_blocks"] + 2 * blocks,
            "kv_cache_bytes_per_token": 100,
            "state_cache": {"bytes_per_request": 100 * block_size * blocks},
        }
    return {
        "engine": engine,
        "rows": _rows(rng, block_size * stride, longest),
        "block": block_size * stride,
        "router": router,
        "lag_ms": rng.choice([5.0, 30.0, 100.0]) if kind == "lag" else 0.0,
        "launch": {"dp_size": 2} if kind == "dp" else {},
        "workers": rng.randint(1, 3),
        "pools": [rng.randint(1, 3), rng.randint(1, 3)] if kind.startswith("pair") else None,
    }


def _engine(rng: Random, backend: str, block_size: int, longest: int, budget: int) -> Instance:
    blocks = int(rng.choice([1.3, 2, 3, 6, 30]) * (longest + 20) // block_size) + 2
    fixed = {"type": "fixed", "prefill_ms": rng.choice([7.0, 10.0]), "decode_ms": rng.choice([3.0, 5.0])}
    engine = {
        "backend": backend,
        "num_gpu_blocks": blocks,
        "block_size": block_size,
        "max_num_seqs": rng.choice([2, 4, 64]),
        "max_num_batched_tokens": budget,
        "timing_model": rng.choice([{"type": "polynomial"}, fixed]),
    }
    if backend == "sglang":
        engine["num_gpu_blocks"] = 2 * blocks
        engine["sglang"] = {
            "schedule_policy": rng.choice(["fifo", "lpm"]),
            "max_prefill_tokens": budget,
            "chunked_prefill_size": max(block_size, budget),
            "clip_max_new_tokens": 4096,
            "schedule_conservativeness": 1.0,
        }
    return engine


def _rows(rng: Random, block: int, longest: int) -> list[Instance]:
    roots = [[1000 * root + place for place in range(longest // block + 1)] for root in (1, 2, 3)]
    now_ms, rows = 0.0, []
    for number in range(rng.randint(12, 40)):
        now_ms += rng.choice([0, 0, 1, 3, 8, 30, 100]) * rng.random()
        tokens = rng.randint(1, longest)
        count = -(-tokens // block)
        shared = rng.randint(0, count)
        ids = rng.choice(roots)[:shared] + [100_000 + 100 * number + place for place in range(count - shared)]
        if rows and rng.random() < 0.25:
            again = rng.choice(rows)
            tokens, ids = again["input_length"], again["hash_ids"]
        rows.append(
            {
                "timestamp": round(now_ms, 3),
                "input_length": tokens,
                "output_length": rng.choice([1, 1, 2, 5, 20, 60]),
                "hash_ids": ids,
            }
        )
    return rows
