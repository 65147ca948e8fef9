"""Reads arguments as the engines do, from the recorded lists of their options, back into a plan's names.

Written apart from the code that writes them.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

FLAGS = Path(__file__).parents[1] / "data" / "engine_flags"


def recorded(engine):
    return json.loads((FLAGS / f"{engine}.json").read_text())


def parsed(arguments, flags, negatable=()):
    """Read options into {name: text or True}; an option that is not recorded fails the test."""
    legal = {*flags, *(f"--no-{name[2:]}" for name in negatable)}
    found = {}
    items = list(arguments)
    while items:
        name = items.pop(0)
        assert name.startswith("--"), f"{name!r} is no option"
        assert name in legal, f"{name} is not among the recorded options"
        assert name not in found, f"{name} is given twice"
        found[name] = items.pop(0) if items and not items[0].startswith("--") else True
    return found


def read_vllm(arguments):
    record = recorded("vllm")
    options = parsed(arguments, record["flags"], record["negatable"])
    transfer = json.loads(options.get("--kv-transfer-config", "{}"))
    drafts = json.loads(options.get("--speculative-config", "{}"))
    dp = int(options.get("--data-parallel-size", 1))
    ranks = int(options["--tensor-parallel-size"]) * dp
    return {
        "aic_tp_size": int(options["--tensor-parallel-size"]),
        "aic_attention_dp_size": dp,
        "moe_ep": ranks if options.get("--enable-expert-parallel") else 1,
        "max_num_batched_tokens": int(options["--max-num-batched-tokens"]),
        "max_num_seqs": int(options["--max-num-seqs"]),
        "block_size": int(options["--block-size"]),
        "gpu_memory_utilization": float(options["--gpu-memory-utilization"]),
        "enable_prefix_caching": "--enable-prefix-caching" in options,
        "max_model_len": _number(options.get("--max-model-len")),
        "aic_nextn": drafts.get("num_speculative_tokens"),
        "worker_type": {"kv_producer": "prefill", "kv_consumer": "decode"}.get(
            transfer.get("kv_role"), "aggregated"
        ),
    }


def read_sglang(arguments):
    options = parsed(arguments, recorded("sglang")["flags"])
    dp = int(options.get("--dp-size", 1))
    return {
        "aic_tp_size": int(options["--tp-size"]) // dp,
        "aic_attention_dp_size": dp,
        "moe_ep": int(options.get("--ep-size", 1)),
        "max_num_batched_tokens": None,  # it has none: the remark is checked
        "max_num_seqs": int(options["--max-running-requests"]) // dp,
        "block_size": int(options["--page-size"]),
        "gpu_memory_utilization": float(options["--mem-fraction-static"]),
        "enable_prefix_caching": "--disable-radix-cache" not in options,
        "max_model_len": _number(options.get("--context-length")),
        "aic_nextn": _number(options.get("--speculative-num-steps")),
        "worker_type": options.get("--disaggregation-mode", "aggregated"),
    }


def read_trtllm(arguments, files):
    options = parsed(arguments, recorded("trtllm")["flags"])
    extra = yaml.safe_load(files[options["--extra_llm_api_options"]])
    ranks = int(options["--tp_size"])
    dp = ranks if extra["enable_attention_dp"] else 1
    cache = extra["kv_cache_config"]
    assert cache["free_gpu_memory_fraction"] == float(options["--kv_cache_free_gpu_memory_fraction"])
    is_pair = "cache_transceiver_config" in extra
    role = "prefill" if extra.get("disable_overlap_scheduler") else "decode"
    return {
        "aic_tp_size": ranks // dp,
        "aic_attention_dp_size": dp,
        "moe_ep": int(options.get("--ep_size", 1)),
        "max_num_batched_tokens": int(options["--max_num_tokens"]),
        "max_num_seqs": int(options["--max_batch_size"]),
        "block_size": cache["tokens_per_block"],
        "gpu_memory_utilization": cache["free_gpu_memory_fraction"],
        "enable_prefix_caching": cache["enable_block_reuse"],
        "max_model_len": _number(options.get("--max_seq_len")),
        "aic_nextn": extra.get("speculative_config", {}).get("num_nextn_predict_layers"),
        "worker_type": role if is_pair else "aggregated",
    }


def _number(text):
    return None if text is None else int(text)
