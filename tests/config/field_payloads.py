"""Small payloads under which each setting has something to act on."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiconfigurator_core

from .field_walk import changed

TRACES = Path(__file__).parents[1] / "data" / "traces"

FIXED = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}
RANK = {
    "num_gpu_blocks": 64,
    "block_size": 4,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 64,
    "timing_model": FIXED,
}
SPEC = {
    "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
    "engine": {"rank": RANK},
}


def _request(number: int, **fields: Any) -> dict[str, Any]:
    first = {"id": f"r{number}", "arrival_time_ms": 3.0 * number, "input_tokens": 24, "output_tokens": 20}
    return first | {"input_token_ids": list(range(14)) + [100 + number] * 10} | fields


# Six requests with a common start of 14 tokens on one worker of four seats.
CROWD = {"spec": {**SPEC, "requests": [_request(number) for number in range(6)]}}
POLYNOMIAL = changed(CROWD, {"spec.engine.rank.timing_model": {"type": "polynomial"}})
_STEPS = {"constant_ms": 5.0, "prefill_token_ms": 0.5, "decode_ms": 0.25, "context_token_ms": 0.125}
LINEAR = changed(CROWD, {"spec.engine.rank.timing_model": {"type": "linear", **_STEPS}})
# Four of them want more KV blocks than there are.
SQUEEZE = changed(CROWD, {"spec.engine.rank.num_gpu_blocks": 24})
# The same under SGLang, where the second prompt starts unlike the others and the cache is short too.
SGLANG = changed(
    CROWD,
    {
        "spec.engine.rank.backend": "sglang",
        "spec.engine.rank.num_gpu_blocks": 32,
        "spec.engine.rank.max_num_batched_tokens": 8192,
        "spec.requests.1.input_token_ids": [200 + k for k in range(24)],
    },
)
# One prompt that exceeds the token budget of a pass, beside a short one.
LONG = changed(
    CROWD,
    {"spec.requests": [_request(0), _request(1, input_tokens=100, input_token_ids=None)]},
)
# Two prompts by turns on a GPU that holds one of them; the host gives back the other, 1 ms for each block.
_HOST = {"num_host_blocks": 64, "d2h_bandwidth_gbps": 1.0, "h2d_bandwidth_gbps": 1.0}
RETURNING = changed(
    CROWD,
    {
        "spec.engine.rank.num_gpu_blocks": 8,
        "spec.engine.rank.kv_cache_bytes_per_token": 250_000,
        "spec.engine.rank.native_host_offload": _HOST,
        "spec.requests": [
            _request(
                number,
                arrival_time_ms=40.0 * number,
                input_token_ids=list(range(100 * (number % 2), 100 * (number % 2) + 24)),
                output_tokens=2,
            )
            for number in range(4)
        ],
    },
)
# The same where the host holds one of them as well: the other comes from a disk, 0.25 ms for each block.
SPILLING = changed(
    RETURNING,
    {
        "spec.engine.rank.native_host_offload": _HOST | {"num_host_blocks": 6},
        "spec.engine.rank.g3_offload": {
            "scope": "worker_local",
            "num_g3_blocks": 64,
            "read_bandwidth_gbps": 4.0,
            "write_bandwidth_gbps": 4.0,
        },
    },
)
# Lengths only, on two attention-DP ranks.
RANKS = changed(
    CROWD,
    {"spec.engine.dp_size": 2, "spec.requests": [_request(n, input_token_ids=None) for n in range(3)]},
)
# The same crowd on two attention-DP ranks, where decoding and new prompts meet.
GROUP = changed(CROWD, {"spec.engine.dp_size": 2})
# Drafts of two tokens.
DRAFTS = changed(CROWD, {"spec.engine.rank.aic_nextn": 2})

# The same on a prefill and a decode worker, whose link takes 1 ms for 8 tokens.
_LINK = {"kv_transfer_bytes_per_token": 125_000, "kv_transfer_bandwidth": 1.0}
_ROLE = {"dp_size": 1, "tensor_parallel_size": 1}
PAIR = changed(
    CROWD,
    {
        "spec.topology": {
            "kind": "disaggregated",
            "prefill": {"initial_workers": 1},
            "decode": {"initial_workers": 1},
        },
        "spec.engine": {
            "prefill": {**_ROLE, "rank": {**RANK, **_LINK}},
            "decode": {**_ROLE, "rank": {**RANK}},
        },
    },
)
# The last prompt finds its beginning on the decode worker.
SPREAD = changed(PAIR, {"spec.requests.5.arrival_time_ms": 500.0, "spec.requests.5.output_tokens": 1})
# Six outputs on a decode worker that holds three prompts: some give way.
CRAMMED_PAIR = changed(PAIR, {"spec.engine.decode.rank.num_gpu_blocks": 20})
UNLINKED = changed(PAIR, {"spec.engine.prefill.rank": RANK})

SYNTHETIC = {
    "spec": SPEC,
    "traffic": {"source_type": "synthetic", "isl": 24, "osl": 8, "request_count": 6},
}
CAPPED = changed(SYNTHETIC, {"traffic.concurrency": 2})
CONSTANT = changed(SYNTHETIC, {"traffic.load_type": "constant_rate", "traffic.request_rate": 50.0})
INTERVAL = changed(SYNTHETIC, {"traffic.load_type": "constant_rate", "traffic.arrival_interval_ms": 20.0})
POISSON = changed(SYNTHETIC, {"traffic.load_type": "poisson", "traffic.request_rate": 50.0})
SESSIONS = changed(CAPPED, {"traffic.source_type": "synthetic-session", "traffic.turns_per_session": 2})
SHARED = changed(CAPPED, {"traffic.shared_prefix_ratio": 0.5, "traffic.num_prefix_groups": 2})
RELATIVE = {
    "spec": SPEC,
    "traffic": {
        "source_type": "synthetic",
        "load_type": "kv_capacity_fraction",
        "kv_load_ratio": 0.5,
        "isl": 24,
        "osl": 8,
        "request_count": 6,
    },
}

_AIC = {"model": "meta-llama/Meta-Llama-3.1-8B", "backend": "vllm", "system": "h200_sxm", "tp": 1}
# Three long prompts under a load relative to the KV capacity: capacity acts on the metrics.
AIC = {
    "spec": {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": {"timing_model": {"type": "external", "provider": "aic", "config": _AIC}}},
    },
    "traffic": {
        "source_type": "synthetic",
        "load_type": "kv_capacity_fraction",
        "kv_load_ratio": 1.0,
        "isl": 250_000,
        "osl": 2,
        "request_count": 4,
    },
}
CONFIG = "spec.engine.rank.timing_model.config"
AIC_SGLANG = changed(AIC, {"spec.engine.rank.backend": "sglang", f"{CONFIG}.backend": "sglang"})
AIC_TRTLLM = changed(AIC, {"spec.engine.rank.backend": "trtllm", f"{CONFIG}.backend": "trtllm"})
_MOE_SIZES = {f"{CONFIG}.tp": 2, "spec.engine.tensor_parallel_size": 2}
MOE = changed(AIC, {f"{CONFIG}.model": "Qwen/Qwen3-30B-A3B"})
MOE_2 = changed(MOE, _MOE_SIZES | {f"{CONFIG}.moe_tp_size": 2, f"{CONFIG}.moe_ep_size": 1})
TP_2 = changed(AIC, _MOE_SIZES)


# Six sessions of two turns, 40 ms apart, whose prompts start alike.
TRACE = {
    "spec": {
        **SPEC,
        "engine": {"rank": {"num_gpu_blocks": 4096, "block_size": 16, "timing_model": FIXED}},
    },
    "traffic": {"source_type": "trace", "trace_path": str(TRACES / "two_turns.jsonl")},
}


# Two plays of three requests each, and one with a subagent.
PLAYS = changed(
    TRACE, {"traffic.trace_path": str(TRACES / "plays.jsonl"), "traffic.trace_format": "agentic_mooncake"}
)
SUBAGENT = changed(
    TRACE, {"traffic.trace_path": str(TRACES / "subagent.json"), "traffic.trace_format": "weka"}
)


def _other_systems() -> TemporaryDirectory[str]:
    """Copy AI Configurator's descriptions of hardware, its tables linked, with half the memory on an H200."""
    folder = TemporaryDirectory()
    bundled, own = Path(aiconfigurator_core.__file__).parent / "systems", Path(folder.name)
    for file in bundled.iterdir():
        if file.is_dir():
            (own / file.name).symlink_to(file)
        else:
            shutil.copy(file, own)
    h200 = own / "h200_sxm.yaml"
    h200.write_text(re.sub(r"(mem_capacity:) *\d+", r"\1 75000000000", h200.read_text()))
    return folder


# Removed when the tests end.
_OTHER_SYSTEMS = _other_systems()
OTHER_SYSTEMS = _OTHER_SYSTEMS.name


def _scaled(base: dict[str, Any], provider: str, **config: Any) -> dict[str, Any]:
    return changed(base, {"spec.adapters": {"scaling": {"provider": provider, "config": config}}})


def _flock(number: int) -> dict[str, Any]:
    """A wave of requests, then few: the queue grows and empties."""
    at_ms = 5.0 * number if number < 60 else 300.0 + 50.0 * (number - 60)
    return _request(number, arrival_time_ms=at_ms, input_token_ids=None, output_tokens=20)


SCRIPTED = _scaled(
    CROWD,
    "scripted",
    first_tick_ms=20.0,
    step_ms=20.0,
    decisions=[{"target_decode": 3}, {"target_decode": 2}],
)
SCRIPTED_PAIR = _scaled(PAIR, "scripted", first_tick_ms=20.0, step_ms=20.0, decisions=[{"target_decode": 2}])
FLOCK = changed(CROWD, {"spec.requests": [_flock(number) for number in range(100)]})
EASY = _scaled(FLOCK, "planner", load_adjustment_interval_seconds=0.02)
SIZED = _scaled(
    FLOCK,
    "planner",
    optimization_target="sla",
    ttft_ms=60.0,
    itl_ms=30.0,
    load_predictor="constant",
    load_adjustment_interval_seconds=0.02,
    throughput_adjustment_interval_seconds=0.08,
)
LEARNED = _scaled(
    FLOCK,
    "planner",
    optimization_target="sla",
    ttft_ms=60.0,
    itl_ms=30.0,
    enable_throughput_scaling=False,
    enable_load_scaling=True,
    load_adjustment_interval_seconds=0.02,
)
FORECAST = changed(
    SIZED,
    {
        "spec.adapters.scaling.config.load_predictor": "kalman",
        "spec.adapters.scaling.config.throughput_adjustment_interval_seconds": 0.04,
    },
)
SMOOTHED = changed(FORECAST, {"spec.adapters.scaling.config.load_predictor": "smoothing"})
FITTED = changed(FORECAST, {"spec.adapters.scaling.config.load_predictor": "ridge"})
STEERED = _scaled(
    FLOCK,
    "planner",
    optimization_target="load",
    load_adjustment_interval_seconds=0.02,
    decode_scale_up_kv_rate=80.0,
    decode_scale_down_kv_rate=20.0,
)
FLOCK_PAIR = changed(PAIR, {"spec.requests": [_flock(number) for number in range(100)]})
PAIR_PLANNED = _scaled(FLOCK_PAIR, "planner", load_adjustment_interval_seconds=0.02, max_gpu_budget=16)
STEERED_PAIR = _scaled(
    FLOCK_PAIR,
    "planner",
    optimization_target="load",
    max_gpu_budget=16,
    load_adjustment_interval_seconds=0.02,
    decode_scale_up_kv_rate=80.0,
    decode_scale_down_kv_rate=20.0,
    prefill_scale_up_queue_tokens=24.0,
    prefill_scale_down_queue_tokens=0.0,
)
# One of two prefill workers may be taken away once a queue of one prompt is short enough.
STEERED_TWO = changed(
    STEERED_PAIR,
    {
        "spec.topology.prefill.initial_workers": 2,
        "spec.engine.prefill.rank.max_num_batched_tokens": 24,
        "spec.requests": [_request(n, arrival_time_ms=6.0 * n, input_token_ids=None) for n in range(60)],
        "spec.adapters.scaling.config.prefill_scale_up_queue_tokens": 200.0,
    },
)
