"""Scheduler and cache settings of one rank."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class RankParams:
    """Validated settings of one rank's vLLM-style scheduler (spec 01 section 1.1).

    `num_gpu_blocks` is the KV capacity of the rank in blocks of `block_size` tokens;
    `max_num_batched_tokens` the token budget of one pass; `preemption_mode` is lifo or fifo; `fused` prices
    a pass that prefills as one forward.
    """

    num_gpu_blocks: int = 16384
    block_size: int = 64
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_model_len: int | None = None
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    preemption_mode: str = "lifo"
    fused: bool = False

    @property
    def total_kv_tokens(self) -> int:
        """KV capacity of the rank in tokens."""
        return self.num_gpu_blocks * self.block_size
