"""Random tiny replays that the reference can run too: payloads of `run_replay_json` with their trace rows."""

from __future__ import annotations

import random
from typing import Any

TRACE = "<trace>"
BACKENDS = ("vllm", "trtllm", "sglang")
FEATURES = frozenset({"dp", "mtp", "g2", "g3", "shared", "both", "tight", "slow", "state"})
GAPS_MS = (0, 0, 0, 1.5, 4.0, 12.0, 30.0)
OUTPUTS = (0, 1, 2, 3, 5, 8, 13, 20)
# Of a token's KV: copies that share bandwidth last whole ns for the most part, but end with no pass.
_ODD_BYTES = 249_960
Instance = dict[str, Any]


def instance(seed: int, kind: str, topology: str = "aggregated", with_latency: bool = True) -> Instance:
    """Build the instance of a seed; `kind` is a backend and features of it.

    `-dp`: attention DP always, with a prefill interval where there is one. `-mtp`: speculative decoding.
    `-g2`: host memory for all prompts, or with `-tight` so little that it must choose. `-g3`: with `-g2`, a
    disk behind it; with `-slow` prompts come back slowly to pools that lose them soon. `-shared`: with `-g2`,
    one host memory for all ranks. `-both`: with `-g2`, on prefill and decode workers of pairs. `-state`: a
    state of a few blocks beside those of the tokens of a request.
    """
    backend, *features = kind.split("-")
    if backend not in BACKENDS or not FEATURES.issuperset(features):
        endings = ", ".join(f"-{feature}" for feature in sorted(FEATURES))
        raise SystemExit(f"unknown kind {kind!r}: use one of {', '.join(BACKENDS)}, then any of {endings}")
    disaggregated = topology == "disaggregated"
    draw = random.Random(f"{kind}{'-pd' if disaggregated else ''}/{seed}")
    rank = _rank(draw, backend)
    if "mtp" in features:
        rank |= _speculation(draw)
    if "dp" in features:
        is_spaced = backend == "vllm" and "shared" not in features
        rank["prefill_schedule_interval"] = draw.choice([1, 2, 3, 4, 7]) if is_spaced else 1
    if "g2" in features:
        rank |= _host_memory(draw, features)
    if "slow" in features:
        rank |= {"block_size": 4, "num_gpu_blocks": draw.choice([12, 16, 20, 24])}
        rank["native_host_offload"]["h2d_bandwidth_gbps"] = draw.choice([0.25, 0.1, 0.05])
    if "g3" in features:
        rank["g3_offload"] = _disk(draw, features)
    if "state" in features:
        rank |= _state(draw, rank["block_size"])
    if disaggregated and (backend == "sglang" or draw.random() < 0.6):
        rank |= _transfer(draw)
    trace_block = draw.choice([1, 1, 2, 4]) * rank["block_size"]
    spec = {
        "version": 1,
        "topology": _topology(draw, disaggregated, with_latency and "mtp" not in features),
        "engine": _engine(draw, rank, disaggregated, _dp_share(features), "both" in features),
        "record_per_request": True,
        "requests": [],
    }
    traffic = {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": trace_block}
    cap = draw.choice([None, None, None, 1, 2, 3, 8])
    if cap:
        traffic["replay_concurrency"] = cap
    most = 40 if features and features[0] in ("g2", "state") else 14
    rows = _rows(draw, rank, trace_block, most, spacious="mtp" in features or bool(seed % 4))
    return {"seed": seed, "rows": rows, "payload": {"spec": spec, "traffic": traffic}}


def _rank(draw: random.Random, backend: str) -> dict[str, Any]:
    rank: dict[str, Any] = {
        "backend": backend,
        "block_size": draw.choice([1, 2, 4, 4] if backend == "sglang" else [2, 4, 4, 8]),
        "num_gpu_blocks": draw.choice([8, 12, 16, 24, 40, 64]),
        "max_num_seqs": draw.choice([1, 2, 3, 4, 8, 16]),
        "max_num_batched_tokens": draw.choice([8, 16, 32, 64, 128]),
        "enable_prefix_caching": draw.random() < 0.8,
        "timing_model": _timing(draw),
    }
    if draw.random() < 0.15:
        rank["max_model_len"] = draw.choice([20, 40])
    if backend == "sglang":
        rank["sglang"] = _sglang(draw)
        rank["prefill_decode_interval"] = draw.choice([0, 0, 0, 1, 3])
    else:
        rank["enable_chunked_prefill"] = draw.random() < 0.85
    if backend == "vllm" and draw.random() < 0.3:
        rank["preemption_mode"] = "fifo"
    return rank


def _host_memory(draw: random.Random, features: list[str]) -> dict[str, Any]:
    memory: dict[str, Any] = {
        "enable_prefix_caching": True,
        "kv_cache_bytes_per_token": 250_000,
        "native_host_offload": {
            "num_host_blocks": draw.choice([3, 6, 10, 20, 40]) if "tight" in features else 4096,
            "d2h_bandwidth_gbps": draw.choice([1.0, 0.1, 10.0, 0.25, 0.0]),
            "h2d_bandwidth_gbps": draw.choice([1.0, 0.1, 10.0, 0.25, 0.0]),
            "latency_to_first_byte_ms": draw.choice([0.0, 0.0, 0.5, 2.0]),
        },
    }
    if "shared" in features:
        memory["native_host_offload"] |= _sharing(draw)
        memory["kv_cache_bytes_per_token"] = _ODD_BYTES
    return memory


def _sharing(draw: random.Random) -> dict[str, Any]:
    return {
        "scope": "cluster_shared",
        "kv_layout_id": "one",
        "shared_d2h_bandwidth_gbps": draw.choice([1.0, 0.1, 10.0, 0.25, 0.0]),
        "shared_h2d_bandwidth_gbps": draw.choice([1.0, 0.1, 10.0, 0.25, 0.0]),
    }


def _state(draw: random.Random, block_size: int) -> dict[str, Any]:
    blocks = draw.choice([1, 1, 1, 2, 2, 3])
    return {
        "kv_cache_bytes_per_token": 100,
        "state_cache": {"bytes_per_request": 100 * block_size * blocks - draw.choice([0, 99])},
    }


def _end_with_blocks(draw: random.Random, rows: list[dict[str, Any]], block_size: int) -> None:
    """Let most prompts end where a state is kept."""
    for row in rows:
        if draw.random() < 0.6:
            row["input_length"] = -(-row["input_length"] // block_size) * block_size


def _disk(draw: random.Random, features: list[str]) -> dict[str, Any]:
    return {
        "scope": draw.choice(["worker_local", "cluster_shared"]),
        "num_g3_blocks": draw.choice([4, 12, 40]) if "tight" in features else 4096,
        "latency_to_first_byte_ms": draw.choice([0.0, 0.1, 0.5, 2.0]),
        **{
            f"{way}_bandwidth_gbps": draw.choice([1.0, 0.5, 0.1, 10.0, 0.25, 0.0])
            for way in ("read", "write", "shared_read", "shared_write")
        },
    }


def _dp_share(features: list[str]) -> float:
    """How many of the instances have attention DP."""
    if "g3" in features or features == ["g2"]:
        return 0.0
    return 1.0 if "dp" in features else 0.2


def _timing(draw: random.Random) -> dict[str, Any]:
    if draw.random() < 0.5:
        return {"type": "polynomial"}
    return {"type": "fixed", "prefill_ms": draw.choice([10.0, 7.5]), "decode_ms": draw.choice([1.0, 2.25])}


def _speculation(draw: random.Random) -> dict[str, Any]:
    """Rates of 0 and 1 only: with others each side draws from a stream of its own.

    The pool holds the longest request: the reference never returns when a burst of a lone one does not fit.
    """
    rates = draw.choice(["1", "1,1", "1,0", "0,1", "1,1,0,1", "0", "1,1,1,1,1"])
    return {
        "aic_nextn": draw.choice([1, 2, 3, 5]),
        "aic_nextn_accept_rates": rates,
        "block_size": draw.choice([4, 4, 8]),
        "num_gpu_blocks": draw.choice([16, 24, 40]),
    }


def _sglang(draw: random.Random) -> dict[str, Any]:
    return {
        "chunked_prefill_size": draw.choice([8, 16, 24, 64, 128]),
        "max_prefill_tokens": draw.choice([16, 64, 256]),
        "schedule_policy": draw.choice(["fifo", "fifo", "lpm"]),
        "clip_max_new_tokens": draw.choice([4, 16, 4096]),
        "schedule_conservativeness": draw.choice([0.0, 0.1, 0.3, 1.0]),
    }


def _transfer(draw: random.Random) -> dict[str, Any]:
    return {
        "kv_transfer_bytes_per_token": 1_000_000,
        "kv_transfer_bandwidth": draw.choice([0.5, 1.0, 4.0]),
        "kv_transfer_timing_mode": draw.choice(["full_prompt", "destination_missing"]),
    }


def _topology(draw: random.Random, disaggregated: bool, with_latency: bool) -> dict[str, Any]:
    """Pools; ai-dynamo-runtime takes no latency of handoffs, so kinds that need it have none."""
    roles = ("prefill", "decode") if disaggregated else ("workers",)
    pools: dict[str, Any] = {role: {"initial_workers": draw.randint(1, 3)} for role in roles}
    if not disaggregated:
        return {"kind": "aggregated", **pools}
    latency_ms = draw.choice([0.0, 0.0, 3.5])
    return {"kind": "disaggregated", **pools, "handoff_latency_ms": latency_ms if with_latency else 0.0}


def _engine(
    draw: random.Random, rank: dict[str, Any], disaggregated: bool, group_share: float, has_hosts: bool
) -> dict[str, Any]:
    dp_size = draw.choice([2, 2, 3]) if not disaggregated and draw.random() < group_share else 1
    role = {"dp_size": dp_size, "tensor_parallel_size": 1, "rank": rank}
    if not disaggregated:
        return role
    prefill, decode = ({**rank, "worker_type": stage} for stage in ("prefill", "decode"))
    decode["enable_prefix_caching"] = draw.random() < 0.5 or has_hosts
    if not has_hosts:
        decode.pop("native_host_offload", None)
    if draw.random() < 0.6:
        decode["num_gpu_blocks"] = draw.choice([4, 6, 8, 12, 16, 24])
        decode["max_num_seqs"] = draw.choice([1, 2, 3, 4, 8, 16])
        decode["max_num_batched_tokens"] = draw.choice([4, 8, 16, 32, 64])
    ranks = draw.choice([(1, 1), (1, 1), (1, 1), (2, 1), (1, 2), (2, 2)])
    return {
        **role,
        "prefill": {**role, "dp_size": ranks[0], "rank": prefill},
        "decode": {**role, "dp_size": ranks[1], "rank": decode},
    }


def _rows(
    draw: random.Random, rank: dict[str, Any], trace_block: int, most: int, spacious: bool
) -> list[dict[str, Any]]:
    """Prompts of up to 60 tokens; `spacious` leaves room for the longest output where the pool can."""
    pool_tokens = rank["num_gpu_blocks"] * rank["block_size"]
    longest = pool_tokens - (21 if spacious and pool_tokens > 40 else 0)
    rows: list[dict[str, Any]] = []
    now, fresh = 0.0, 1000
    for _ in range(draw.randint(1, most)):
        length = draw.randint(1, max(2, min(longest, 60)))
        blocks = -(-length // trace_block)
        shared, family = draw.randint(0, blocks), 100 * draw.randint(0, 2)
        ids = [family + k for k in range(shared)] + [fresh + k for k in range(blocks - shared)]
        rows.append(
            {
                "timestamp": now,
                "input_length": length,
                "output_length": draw.choice(OUTPUTS),
                "hash_ids": ids,
            }
        )
        fresh += blocks
        now += draw.choice(GAPS_MS)
    if "state_cache" in rank:
        _end_with_blocks(draw, rows, rank["block_size"])
    return rows
