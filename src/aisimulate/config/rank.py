"""Settings of one rank's scheduler, cache and timing (spec 01 section 1.1). Unknown fields are errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from aisimulate.config.base import (
    U64,
    BlockTokens,
    Count,
    FieldError,
    Millis,
    NonNegative,
    PositiveCount,
    PositiveTokens,
    StrictModel,
)
from aisimulate.config.timing import PolynomialTiming, TimingConfig
from aisimulate.core.limits import MAX_BLOCKS, MAX_RATIO, MIN_RATIO
from aisimulate.core.shown import show

Backend = Literal["vllm", "sglang", "trtllm"]
# A measured pass is hardly a hundred times longer than its price; a factor beyond that is a slip of the pen.
PassScale = Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)]
WorkerType = Literal["aggregated", "prefill", "decode"]

DEFAULT_BLOCK_TOKENS = {"vllm": 64, "sglang": 1, "trtllm": 32}
DEFAULT_ACCEPT_RATES = (0.85, 0.3)  # of the first drafted tokens; the others are never accepted
_STATE_CACHE_NEEDS = ("num_gpu_blocks", "block_size", "kv_cache_bytes_per_token")


class SglangConfig(StrictModel):
    """Scheduler settings that only SGLang has."""

    schedule_policy: Literal["fifo", "lpm"] = "fifo"
    """order of waiting requests: as they came, or longest cached prefix first"""
    max_prefill_tokens: PositiveTokens = 16384
    """prompt tokens of a pass, in whole blocks"""
    chunked_prefill_size: PositiveTokens = 8192
    """the same for all that is cut; attention DP divides it by `dp_size` :unit: tokens :rule: a multiple of
    `block_size`, at least `dp_size`"""
    clip_max_new_tokens: Count = 4096
    """most output of a request that admission provides for"""
    schedule_conservativeness: NonNegative = 1.0
    """scales what is reserved for outputs; attention DP takes 0.3 of it"""


class TrtllmConfig(StrictModel):
    """Scheduler settings that only TensorRT-LLM has."""

    capacity_scheduler_policy: Literal["guaranteed_no_evict"] = "guaranteed_no_evict"
    """a request enters only when its whole output fits, and is never preempted"""


class HostOffload(StrictModel):
    """A host cache tier; bandwidths in decimal GB/s, 0 is instantaneous."""

    num_host_blocks: PositiveCount
    """its size: of each rank's, or with `cluster_shared` of the one"""
    d2h_bandwidth_gbps: NonNegative = 32.0
    """GPU to host, decimal :rule: 0 is instantaneous"""
    h2d_bandwidth_gbps: NonNegative = 32.0
    """host to GPU, decimal :rule: 0 is instantaneous"""
    latency_to_first_byte_ms: Millis = 0.0
    """wait before the first byte of a copy moves; copies ahead of it go on meanwhile"""
    scope: Literal["dp_rank_local", "cluster_shared"] = "dp_rank_local"
    """a memory for each rank, whose copies follow each other, or one for all ranks of the deployment, whose
    copies share bandwidth; there a block that is copied out keeps its place on the GPU until then"""
    shared_d2h_bandwidth_gbps: NonNegative = 80.0
    """GPUs to host of all ranks, decimal; only with `cluster_shared` :rule: 0 is no limit"""
    shared_h2d_bandwidth_gbps: NonNegative = 80.0
    """host to GPUs of all ranks, decimal; only with `cluster_shared` :rule: 0 is no limit"""
    kv_layout_id: str | None = None
    """a name for how blocks are laid out, on which all who share agree :rule: needed by `cluster_shared`, and
    without effect otherwise"""

    @model_validator(mode="after")
    def _sharing_rules(self) -> Self:
        if self.scope == "cluster_shared" and not (self.kv_layout_id or "").strip():
            raise FieldError("kv_layout_id", "a name that is not blank is needed by scope cluster_shared")
        return self


class DiskOffload(StrictModel):
    """A disk behind the host cache, of each worker or of all; bandwidths in decimal GB/s, 0 is no limit."""

    scope: Literal["worker_local", "cluster_shared"]
    """a disk for each worker, or one for all"""
    num_g3_blocks: PositiveCount
    """size of such a disk"""
    latency_to_first_byte_ms: Millis = 0.1
    """wait before the first byte of a transfer moves"""
    read_bandwidth_gbps: NonNegative = 10.0
    """disk to host of a worker, decimal :rule: 0 is no limit"""
    write_bandwidth_gbps: NonNegative = 10.0
    """host to disk of a worker, decimal :rule: 0 is no limit"""
    shared_read_bandwidth_gbps: NonNegative = 80.0
    """disk to hosts of all workers; only with `cluster_shared` :rule: 0 is no limit"""
    shared_write_bandwidth_gbps: NonNegative = 80.0
    """hosts to disk of all workers; only with `cluster_shared` :rule: 0 is no limit"""


class StateCache(StrictModel):
    """Fixed recurrent state of a hybrid model, in bytes per request.

    It takes whole blocks of the KV cache (`num_gpu_blocks`).
    """

    bytes_per_request: PositiveCount
    """state of one request on one tensor-parallel shard; it takes whole blocks of the KV cache :unit: bytes
    :rule: one block less than `num_gpu_blocks`, at most"""


class RankConfig(StrictModel):
    """One attention-DP rank; the default of `block_size` depends on the backend."""

    field_aliases: ClassVar[Mapping[str, str]] = {"kv_bytes_per_token": "kv_transfer_bytes_per_token"}

    backend: Backend = "vllm"
    """the engine whose scheduler runs"""
    num_gpu_blocks: Annotated[int, Field(gt=0, le=MAX_BLOCKS)] = 16384
    """KV blocks of the rank; absent beside aic timing, they are estimated from the model and GPU"""
    block_size: BlockTokens = Field(default=DEFAULT_BLOCK_TOKENS["vllm"])
    """tokens of a KV block; the default is 1 on sglang, 32 on trtllm :rule: at least 2 but on sglang"""
    max_model_len: PositiveTokens | None = None
    """longer sequences end here, longer prompts are rejected :unit: tokens"""
    max_num_seqs: PositiveCount = 256
    """sequences that may run at once"""
    max_num_batched_tokens: PositiveCount = 8192
    """token budget of a pass; sglang has its own, and uses this with aic timing to size the KV cache"""
    prefill_schedule_interval: PositiveCount = 1
    """vLLM: prefills wait for every n-th pass of a group of attention-DP ranks that decode; no effect on one
    rank :unit: passes"""
    prefill_decode_interval: Count = 0
    """passes after a prefill in which no rank of the worker prefills :unit: passes :rule: sglang only"""
    enable_prefix_caching: bool = True
    """keep KV blocks for later prompts that start alike"""
    enable_chunked_prefill: bool = True
    """cut prompts that exceed the token budget"""
    speedup_ratio: NonNegative = 1.0
    """divides pass times; 0 leaves them alone :rule: only 0, or 1e-6 to 1e6"""
    decode_speedup_ratio: NonNegative = 1.0
    """divides decode times further; 0 leaves them alone :rule: only 0, or 1e-6 to 1e6, the product of both
    too"""
    aic_nextn: PositiveCount | None = None
    """tokens guessed ahead by each decode pass :unit: tokens"""
    aic_nextn_accept_rates: str | None = None
    """of the 1st, 2nd, .. guess: how often it is accepted if those before it are; null is `0.85,0.3`, the
    others 0 :rule: shares with commas, needs `aic_nextn`"""
    aic_mtp_seed: U64 = 42
    """seed of the acceptance: the worker's and rank's number is added :rule: needs `aic_nextn`"""
    worker_type: WorkerType = "aggregated"
    """role of the worker, which the topology decides :rule: that of the topology"""
    preemption_mode: Literal["lifo", "fifo"] = "lifo"
    """which running request gives way when the KV cache is full"""
    emit_kv_events: bool = False
    """tell of stored and dropped blocks; not simulated yet"""
    emit_kv_token_ids: bool = False
    """with their tokens; not simulated yet :rule: needs `emit_kv_events`"""
    kv_transfer_bytes_per_token: PositiveCount | None = None
    """size of a token's KV in a hand-over, on the prefill rank (also `kv_bytes_per_token`)"""
    kv_transfer_bandwidth: NonNegative | None = None
    """bandwidth of a hand-over; 0 or null gives `handoff_latency_ms` :unit: GB/s"""
    kv_transfer_timing_mode: Literal["full_prompt", "destination_missing"] = "full_prompt"
    """all of the prompt, or the blocks that the decode worker does not have cached"""
    kv_cache_bytes_per_token: PositiveCount | None = None
    """size of a token's KV on one tensor-parallel shard, as copied to host memory"""
    native_host_offload: HostOffload | None = None
    """[host memory](#ranknative_host_offload) behind the KV cache :rule: vllm; needs
    `kv_cache_bytes_per_token` and `enable_prefix_caching`"""
    g3_offload: DiskOffload | None = None
    """a [disk](#rankg3_offload) behind host memory :rule: aggregated, dp_size 1; needs `native_host_offload`
    """
    state_cache: StateCache | None = None
    """[recurrent state](#rankstate_cache) of hybrid models :rule: vllm, aggregated, not with
    `native_host_offload`; needs `num_gpu_blocks`, `block_size` and `kv_cache_bytes_per_token`"""
    timing_model: TimingConfig = PolynomialTiming()
    """where pass times come from :rule: see below"""
    timing_mode: Literal["additive", "fused", "half"] = "additive"
    """how a pass is timed that prefills and decodes :rule: [`fused` and `half`](#timing_mode) not with
    sglang, nor in a disaggregated topology"""
    prefill_scale: PassScale = 1.0
    """multiplies the times of passes that compute prompt tokens, decodes in them included :rule: not beside
    `calibration`"""
    decode_scale: PassScale = 1.0
    """multiplies the times of passes that only decode :rule: not beside `calibration`"""
    scheduling_look_ahead: Annotated[int, Field(ge=0, le=1)] = 0
    """how many passes before it begins a pass is planned: [1](look-ahead.md) is asynchronous scheduling
    :unit: passes :rule: only 0 or 1"""
    sglang: SglangConfig = SglangConfig()
    """settings of SGLang"""
    trtllm: TrtllmConfig = TrtllmConfig()
    """settings of TensorRT-LLM"""

    @property
    def accept_rates(self) -> tuple[float, ...]:
        """Conditional acceptance rates of the drafted tokens, as many as there are."""
        if self.aic_nextn is None:
            return ()
        text = self.aic_nextn_accept_rates
        rates = DEFAULT_ACCEPT_RATES if text is None else tuple(map(float, text.split(",")))
        return rates[: self.aic_nextn]

    @property
    def state_blocks(self) -> int:
        """Blocks of the recurrent state of a request; 0 if it has none."""
        if self.state_cache is None:
            return 0
        return -(
            -self.state_cache.bytes_per_request // (self.block_size * (self.kv_cache_bytes_per_token or 1))
        )

    @model_validator(mode="before")
    @classmethod
    def _default_block_size(cls, data: object) -> object:
        if not isinstance(data, Mapping) or "block_size" in data:
            return data
        backend = data.get("backend", "vllm")
        tokens = DEFAULT_BLOCK_TOKENS.get(backend) if isinstance(backend, str) else None
        return {**data, "block_size": tokens or DEFAULT_BLOCK_TOKENS["vllm"]}

    @model_validator(mode="before")
    @classmethod
    def _state_cache_is_sized(cls, data: object) -> object:
        if not isinstance(data, Mapping) or data.get("state_cache") is None:
            return data
        missing = [name for name in _STATE_CACHE_NEEDS if data.get(name) is None]
        if missing:
            raise FieldError("state_cache", f"needs an explicit {missing[0]!r}")
        return data

    @model_validator(mode="after")
    def _speedup_rules(self) -> Self:
        rule = f"is not 0 (unscaled) or from {MIN_RATIO:g} to {MAX_RATIO:.0f}"
        for name in ("speedup_ratio", "decode_speedup_ratio"):
            if not _is_ratio(getattr(self, name)):
                raise FieldError(name, f"{getattr(self, name):g} {rule}")
        if self.speedup_ratio and self.decode_speedup_ratio:
            product = self.speedup_ratio * self.decode_speedup_ratio
            if not _is_ratio(product):
                raise FieldError(
                    "decode_speedup_ratio",
                    f"{self.decode_speedup_ratio:g} times speedup_ratio gives {product:g}, which {rule}",
                )
        return self

    @model_validator(mode="after")
    def _backend_rules(self) -> Self:
        backend = self.backend
        if backend != "sglang" and self.block_size < 2:
            raise FieldError("block_size", f"{self.block_size} is not >= 2 (needed by {backend})")
        if backend == "sglang" and not self.enable_chunked_prefill:
            raise FieldError("enable_chunked_prefill", "false is not possible with sglang")
        if backend != "vllm" and self.prefill_schedule_interval != 1:
            problem = f"{self.prefill_schedule_interval} is not 1 (only vllm schedules prefill in intervals)"
            raise FieldError("prefill_schedule_interval", problem)
        if backend != "sglang" and self.prefill_decode_interval != 0:
            problem = f"{self.prefill_decode_interval} is not 0 (only sglang spaces its prefills)"
            raise FieldError("prefill_decode_interval", problem)
        if backend == "sglang" and self.timing_mode != "additive":
            problem = f"{self.timing_mode!r} has nothing to fuse with sglang: it never mixes passes"
            raise FieldError("timing_mode", problem)
        if backend != "vllm" and self.preemption_mode != "lifo":
            raise FieldError("preemption_mode", f"{self.preemption_mode!r} is only known to vllm")
        return self

    @model_validator(mode="after")
    def _chunks_are_whole_blocks(self) -> Self:
        chunk = self.sglang.chunked_prefill_size
        if self.backend == "sglang" and chunk % self.block_size:
            problem = f"{chunk} is not a multiple of block_size {self.block_size}"
            raise FieldError("sglang.chunked_prefill_size", problem)
        return self

    @model_validator(mode="after")
    def _speculation_rules(self) -> Self:
        if self.aic_nextn is None:
            return self._without_speculation()
        if self.decode_speedup_ratio != 1:
            problem = f"{self.decode_speedup_ratio:g} is not 1 (needed by aic_nextn {self.aic_nextn})"
            raise FieldError("decode_speedup_ratio", problem)
        if self.aic_nextn_accept_rates is not None:
            _check_rates(self.aic_nextn_accept_rates)
        return self

    def _without_speculation(self) -> Self:
        if self.aic_nextn_accept_rates is not None:
            raise FieldError("aic_nextn_accept_rates", "needs aic_nextn")
        if self.aic_mtp_seed != 42:
            raise FieldError("aic_mtp_seed", f"{self.aic_mtp_seed} has no effect without aic_nextn")
        return self

    @model_validator(mode="after")
    def _event_rules(self) -> Self:
        if self.emit_kv_token_ids and not self.emit_kv_events:
            raise FieldError("emit_kv_token_ids", "needs emit_kv_events")
        return self

    @model_validator(mode="after")
    def _state_cache_rules(self) -> Self:
        if self.state_cache is None:
            return self
        if self.backend != "vllm":
            raise FieldError("state_cache", f"is only known to vllm, not {self.backend}")
        if self.native_host_offload is not None:
            raise FieldError("state_cache", "may not be combined with native_host_offload")
        needed = self.state_blocks + 1
        if self.num_gpu_blocks < needed:
            raise FieldError("num_gpu_blocks", f"{self.num_gpu_blocks} is not >= {needed} (state_cache)")
        return self

    @model_validator(mode="after")
    def _tier_rules(self) -> Self:
        if self.g3_offload is not None and self.native_host_offload is None:
            raise FieldError("g3_offload", "needs native_host_offload")
        if self.native_host_offload is None:
            return self
        if self.backend != "vllm":
            raise FieldError("native_host_offload", f"is only known to vllm, not {self.backend}")
        if not self.enable_prefix_caching:
            raise FieldError("native_host_offload", "needs enable_prefix_caching")
        if self.kv_cache_bytes_per_token is None:
            raise FieldError("native_host_offload", "needs kv_cache_bytes_per_token")
        if self.aic_nextn is not None:
            raise FieldError("native_host_offload", "may not be combined with aic_nextn")
        return self


def _is_ratio(value: float) -> bool:
    return value == 0 or MIN_RATIO <= value <= MAX_RATIO


def _check_rates(text: str) -> None:
    for item in text.split(","):
        try:
            rate = float(item)
        except ValueError:
            raise FieldError("aic_nextn_accept_rates", f"{show(item.strip())} is not a number") from None
        if not 0 <= rate <= 1:
            raise FieldError("aic_nextn_accept_rates", f"{rate:g} is not between 0 and 1")
