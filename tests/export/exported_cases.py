"""Candidates to export: each engine alone and as a pair, dense and of experts, and what is around them."""

from __future__ import annotations

BASE = {
    "model_name": "acme/some-model",
    "hardware_sku": "h200_sxm",
    "gpu_budget": 64,
    "min_gpu_budget": None,
    "min_endpoint": None,
    "context_length": None,
    "startup_time": None,
    "aic_nextn": None,
    "num_g2_blocks": 0,
    "kv_bytes_per_token": None,
    "router_mode": "round_robin",
    "planner_scaling_policy": "disabled",
    "enable_throughput_scaling": False,
    "enable_load_scaling": False,
    "backend_version": "1.2.3",
}
KV_ROUTER = {
    "router_mode": "kv_router",
    "overlap_score_credit": 0.5,
    "prefill_load_scale": 4.0,
    "router_temperature": 0.2,
    "active_decode_blocks_threshold": None,
    "no_admission_control": False,
}
PLANNER = {
    "planner_scaling_policy": "hybrid_180_5",
    "enable_throughput_scaling": True,
    "enable_load_scaling": True,
    "throughput_adjustment_interval_seconds": 180,
    "load_adjustment_interval_seconds": 5,
    "max_num_fpm_samples": 64,
    "fpm_sample_bucket_size": 16,
    "load_scaling_down_sensitivity": 80,
    "load_min_observations": 5,
    "load_predictor": "kalman",
    "load_predictor_log1p": True,
    "kalman_q_level": 1.0,
    "kalman_q_trend": 0.1,
    "kalman_r": 10.0,
    "kalman_min_points": 5,
}


def shape(prefix="", tp=2, dp=1, moe_tp=1, moe_ep=1, replicas=3, strategy="tp"):
    fields = {
        "tp": tp,
        "pp": 1,
        "attention_dp": dp,
        "moe_tp": moe_tp,
        "moe_ep": moe_ep,
        "strategy": strategy,
        "replicas": replicas,
    }
    return {prefix + name: value for name, value in fields.items()}


def settings(role, tokens=16384, seqs=64, block=64, memory=0.85, caching=True):
    return {
        f"{role}_max_num_batched_tokens": tokens,
        f"{role}_max_num_seqs": seqs,
        f"{role}_block_size": block,
        f"{role}_gpu_memory_utilization": memory,
        f"{role}_enable_prefix_caching": caching,
    }


def agg(backend="vllm", **changes):
    head = {"deployment_mode": "agg", "backend": backend}
    return {**head, **BASE, **shape(), "used_gpus": 6, **settings("agg"), **changes}


def disagg(backend="vllm", **changes):
    return {
        "deployment_mode": "disagg",
        "backend": backend,
        **BASE,
        **shape("prefill_", tp=4, moe_ep=4, replicas=2, strategy="tep"),
        **shape("decode_", tp=1, dp=8, moe_ep=8, replicas=1, strategy="dep"),
        "used_gpus": 16,
        **settings("prefill", seqs=8),
        **settings("decode", tokens=8192, seqs=512, memory=0.9, caching=False),
        **changes,
    }


CASES = {
    f"{backend} {name}": config
    for backend in ("vllm", "sglang", "trtllm")
    for name, config in {
        "dense": agg(backend),
        "alone": agg(
            backend, tp=1, replicas=1, used_gpus=1, context_length=4096, agg_enable_prefix_caching=False
        ),
        "experts": agg(backend, **shape(tp=1, dp=8, moe_ep=8, strategy="dep"), used_gpus=24),
        "drafts": agg(backend, aic_nextn=2),
        "pair": disagg(backend, context_length=8192),
        "pair, routed and planned": disagg(backend, **KV_ROUTER, **PLANNER),
    }.items()
}
CASES["vllm host memory"] = agg(num_g2_blocks=1024, kv_bytes_per_token=65_536)
