"""From a measured run to the payload that replays it (spec 07 section 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.rng import ChaChaRng
from aisimulate.timing.aic.names import model_facts

if TYPE_CHECKING:
    from tools.validate.runs import MeasuredRun, Pool

LENGTH_SEED = 0
REQUESTS_PER_SLOT, LEAST_REQUESTS = 10, 20
MAX_NUM_SEQS, MAX_NUM_BATCHED_TOKENS = 256, 8192

# The names that AI Configurator bundles configurations under.
_NAMES = {
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-ai/DeepSeek-R1",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Qwen3-32B-NVFP4": "Qwen/Qwen3-32B",
    "zhipuai/GLM-5": "zai-org/GLM-5",
}
# "fp8" or "fp4" of a model means its published quantised checkpoint, where one is bundled ...
_CHECKPOINTS = {
    ("zai-org/GLM-5", "fp8"): "zai-org/GLM-5-FP8",
    ("Qwen/Qwen3-32B", "fp8"): "Qwen/Qwen3-32B-FP8",
    ("meta-llama/Meta-Llama-3.1-70B", "fp8"): "nvidia/Llama-3.1-70B-Instruct-FP8",
    ("MiniMaxAI/MiniMax-M2.5", "fp4"): "nvidia/MiniMax-M2.5-NVFP4",
    ("deepseek-ai/DeepSeek-R1", "fp4"): "nvidia/DeepSeek-V3.1-NVFP4",
    ("deepseek-ai/DeepSeek-V3", "fp4"): "nvidia/DeepSeek-V3.1-NVFP4",
    ("moonshotai/Kimi-K2.5", "fp4"): "nvidia/Kimi-K2.5-NVFP4",
    ("Qwen/Qwen3.5-397B-A17B", "fp4"): "nvidia/Qwen3.5-397B-A17B-NVFP4",
    ("Qwen/Qwen3-235B-A22B-FP8", "fp4"): "nvidia/Qwen3-235B-A22B-NVFP4",
    ("zai-org/GLM-5", "fp4"): "nvidia/GLM-5-NVFP4",
}
# ... or the data types that it was published with.
_MODELOPT_FP8 = {"gemm_dtype": "fp8_static", "kv_cache_dtype": "fp8"}
_MODELOPT_FP4 = {"gemm_dtype": "nvfp4", "kv_cache_dtype": "fp8"}
_DTYPES = {
    ("meta-llama/Meta-Llama-3.1-8B", "fp8"): _MODELOPT_FP8,
    ("meta-llama/Meta-Llama-3.1-70B", "fp4"): _MODELOPT_FP4,
    ("Qwen/Qwen3-32B", "fp4"): _MODELOPT_FP4,
    ("Qwen/Qwen3.5-397B-A17B", "fp8"): {"gemm_dtype": "fp8_block", "moe_dtype": "fp8_block"},
}
# TensorRT-LLM serves MXFP4 experts with MXFP8 activations where the GPU has instructions for it.
_BLACKWELL = ("b200_sxm", "b300_sxm", "gb200", "gb300")
_BLACKWELL_TRTLLM = {("openai/gpt-oss-120b", "fp4"): {"moe_dtype": "w4a8_mxfp4_mxfp8"}}


def payload_of(run: MeasuredRun) -> dict[str, Any]:
    """Describe the replay of a run: all slots filled at 0 ms, prefix caching off, KV capacity estimated."""
    spec: dict[str, Any] = {
        "version": 1,
        "max_in_flight": run.concurrency,
        "record_per_request": False,
        "requests": _requests(run),
    }
    if run.is_pair:
        prefill, decode = run.pools
        pools = {"prefill": prefill, "decode": decode}
        spec["topology"] = {"kind": "disaggregated"}
        spec["topology"] |= {name: {"initial_workers": pool.workers} for name, pool in pools.items()}
        spec["engine"] = {name: _role(run, pool) for name, pool in pools.items()}
    else:
        spec["topology"] = {"kind": "aggregated", "workers": {"initial_workers": run.pools[0].workers}}
        spec["engine"] = _role(run, run.pools[0])
    return {"spec": spec}


def bundled_name(model: str) -> str:
    """Give the name that AI Configurator has a configuration under."""
    return _NAMES.get(model, model)


def aic_settings(run: MeasuredRun, pool: Pool) -> dict[str, Any]:
    """Describe the engine of a pool to the `aic` timing."""
    name = bundled_name(run.model)
    blackwell = run.backend == "trtllm" and run.system in _BLACKWELL
    model = _CHECKPOINTS.get((name, run.precision), name)
    settings: dict[str, Any] = {
        "model": model,
        "backend": run.backend,
        "system": run.system,
        "tp": pool.tp,
        "pp": pool.pp,
        "attention_dp": pool.attention_dp,
        **_DTYPES.get((name, run.precision), {}),
        **(_BLACKWELL_TRTLLM.get((name, run.precision), {}) if blackwell else {}),
    }
    if model_facts(model).is_moe:
        settings |= {"moe_tp_size": pool.moe_tp, "moe_ep_size": pool.moe_ep}
    return settings


def _role(run: MeasuredRun, pool: Pool) -> dict[str, Any]:
    timing = {"type": "external", "provider": "aic", "config": aic_settings(run, pool)}
    rank = {
        "backend": run.backend,
        "max_num_seqs": max(MAX_NUM_SEQS, run.concurrency),
        "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
        "enable_prefix_caching": False,
        "timing_model": timing,
    }
    return {"tensor_parallel_size": pool.tp, "dp_size": pool.attention_dp, "rank": rank}


def _requests(run: MeasuredRun) -> list[dict[str, Any]]:
    rng = ChaChaRng(LENGTH_SEED)
    count = max(LEAST_REQUESTS, REQUESTS_PER_SLOT * run.concurrency)
    return [
        {
            "id": str(number),
            "arrival_time_ms": 0.0,
            "input_tokens": _drawn(rng, run.isl, run.shortest),
            "output_tokens": _drawn(rng, run.osl, run.shortest),
        }
        for number in range(count)
    ]


def _drawn(rng: ChaChaRng, nominal: int, share: float) -> int:
    shortest = max(1, round(share * nominal))
    return shortest + rng.below(nominal - shortest + 1)
