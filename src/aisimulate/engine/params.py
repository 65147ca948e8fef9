"""Scheduler and cache settings of one rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.host_tier import BlockIdentities
    from aisimulate.engine.shared_host import SharedHost


@dataclass(slots=True, frozen=True)
class RankParams:
    """Validated settings of one rank's scheduler (spec 01 section 1.1).

    `backend` names whose rules it follows: vllm or trtllm.
    `num_gpu_blocks` is the KV capacity of the rank in blocks of `block_size` tokens;
    `max_num_batched_tokens` the token budget of one pass; `preemption_mode` is lifo or fifo; `fused` prices
    a pass that prefills as one forward. `prefill_schedule_interval`: every how many passes of a group
    prefills are scheduled. `nextn`: drafted tokens of a decode forward, accepted at the conditional
    `accept_rates`. `state_blocks`: of the recurrent state of a request, 0 if it has none.
    """

    backend: str = "vllm"
    num_gpu_blocks: int = 16384
    block_size: int = 64
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_model_len: int | None = None
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    preemption_mode: str = "lifo"
    fused: bool = False
    prefill_schedule_interval: int = 1
    nextn: int = 0
    accept_rates: tuple[float, ...] = ()
    acceptance_seed: int = 42
    state_blocks: int = 0

    @property
    def total_kv_tokens(self) -> int:
        """KV capacity of the rank in tokens."""
        return self.num_gpu_blocks * self.block_size


@dataclass(slots=True, frozen=True)
class SglangParams:
    """Validated settings of one rank's SGLang-style scheduler (spec 01 sections 1.1 and 1.2).

    The pool has `num_gpu_blocks` pages of `block_size` tokens. A prefill pass takes up to
    `chunked_prefill_size` and `max_prefill_tokens` tokens; `schedule_conservativeness` scales what is
    reserved for the outputs, each counted as `clip_max_new_tokens` at most. `schedule_policy` is fifo or lpm.
    `prefill_decode_interval` passes after a prefill do not prefill. What attention DP divides is divided.
    Drafts as in `RankParams`.
    """

    num_gpu_blocks: int = 16384
    block_size: int = 1
    max_num_seqs: int = 256
    max_model_len: int | None = None
    enable_prefix_caching: bool = True
    prefill_decode_interval: int = 0
    schedule_policy: str = "fifo"
    max_prefill_tokens: int = 16384
    chunked_prefill_size: int = 8192
    clip_max_new_tokens: int = 4096
    schedule_conservativeness: float = 1.0
    nextn: int = 0
    accept_rates: tuple[float, ...] = ()
    acceptance_seed: int = 42

    @property
    def total_kv_tokens(self) -> int:
        """KV capacity of the rank in tokens."""
        return self.num_gpu_blocks * self.block_size


@dataclass(slots=True, frozen=True)
class OffloadParams:
    """Host memory of one rank: its blocks, bytes of a block, decimal GB/s to it and back (0 = at once).

    Every copy waits `latency_ns` before its first byte moves; the lane is free for others meanwhile. Ranks
    that share blocks have their `identities` in common. `shared`: the memory itself, where it is one for all;
    then bandwidths are those of each rank.
    """

    num_host_blocks: int
    block_bytes: int
    d2h_bandwidth_gbps: float = 32.0
    h2d_bandwidth_gbps: float = 32.0
    latency_ns: int = 0
    identities: BlockIdentities | None = None
    shared: SharedHost | None = None


@dataclass(slots=True, frozen=True)
class SharedHostParams:
    """Host memory of all ranks: its blocks, bytes of a block, decimal GB/s to it and back (0 = no limit)."""

    num_blocks: int
    block_bytes: int
    d2h_gbps: float = 80.0
    h2d_gbps: float = 80.0


@dataclass(slots=True, frozen=True)
class DiskParams:
    """A disk behind host memory: its blocks, bytes of a block, decimal GB/s to it and back (0 = no limit).

    Those are limits of each worker; with `is_shared` there are others for all of them together. Every
    transfer waits `latency_ns` before its first byte moves.
    """

    num_blocks: int
    block_bytes: int
    read_gbps: float = 10.0
    write_gbps: float = 10.0
    is_shared: bool = False
    shared_read_gbps: float = 80.0
    shared_write_gbps: float = 80.0
    latency_ns: int = 100_000
