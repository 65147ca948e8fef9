"""Engines with plain step times and pools of them, and the space of small searches, for tests of screens."""

from __future__ import annotations

import numpy as np

from aisimulate.spica.screen.columns import PoolColumns

SPACE = {
    "model_name": "meta-llama/Meta-Llama-3.1-8B",
    "hardware_sku": "h200_sxm",
    "gpu_budget": 4,
    "deployment_mode": ["agg", "disagg"],
    "backend": ["vllm", "sglang"],
    "router_mode": ["round_robin"],
    "planner_scaling_policy": ["disabled"],
}


class Steps:
    """10 ms per decode pass, 1 ms per so many prompt tokens."""

    def __init__(self, prompt_tokens_per_ms):
        self.prompt_tokens_per_ms = prompt_tokens_per_ms

    def prefill_ms(self, batch, new_tokens, prefix_tokens):
        return batch * new_tokens / self.prompt_tokens_per_ms

    def decode_ms(self, batch, context_tokens):
        return 10.0


def pool(**changes):
    """One worker with the first engine of a book."""
    fields = {
        "engines": 0,
        "splits_budget": False,
        "replicas": 1,
        "ranks": 1,
        "gpus": 1,
        "max_batched_tokens": 8192,
        "max_seqs": 256,
        "kv_tokens": 1_000_000,
    }
    return PoolColumns(**{name: np.atleast_1d(value) for name, value in (fields | changes).items()})
