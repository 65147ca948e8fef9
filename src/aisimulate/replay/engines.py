"""Workers with the scheduler of their backend."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from aisimulate.core.units import clock_ns
from aisimulate.engine.ahead_drafts import make_ahead_drafts
from aisimulate.engine.ahead_group import AheadRankGroup, AheadSglangGroup
from aisimulate.engine.ahead_worker import AheadRankWorker
from aisimulate.engine.cadence import CadenceGroup
from aisimulate.engine.disk_tier import DiskTier
from aisimulate.engine.group import GroupWorker
from aisimulate.engine.host_tier import BlockIdentities
from aisimulate.engine.look_ahead import make_ahead_rank
from aisimulate.engine.offload_group import OffloadCadenceGroup, OffloadGroup, Restless
from aisimulate.engine.offload_scheduler import make_offload_rank
from aisimulate.engine.offload_worker import OffloadWorker
from aisimulate.engine.params import (
    DiskParams,
    OffloadParams,
    RankParams,
    SglangParams,
    SharedHostParams,
)
from aisimulate.engine.ranks import make_rank, make_sglang_rank
from aisimulate.engine.sglang_ahead import AheadSglangWorker
from aisimulate.engine.sglang_ahead_drafts import make_ahead_sglang_rank
from aisimulate.engine.sglang_worker import SglangGroup, SglangWorker
from aisimulate.engine.shared_host import SharedHost
from aisimulate.engine.worker import RankWorker

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.config.rank import DiskOffload, HostOffload, RankConfig
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.protocols import Worker

# With attention DP the engine reserves this much of what it would reserve alone (spec 01 section 1.2).
_DP_CONSERVATIVENESS = 0.3


def build_workers(rank: RankConfig, timer: PassTimer, dp_size: int, replicas: int) -> list[Worker]:
    """Make equal workers of `dp_size` ranks each."""
    return list(map(worker_maker(rank, timer, dp_size), range(replicas)))


def worker_maker(rank: RankConfig, timer: PassTimer, dp_size: int) -> Callable[[int], Worker]:
    """Prepare to make the worker of a number, with `dp_size` ranks; what workers share is made once."""
    if rank.backend == "sglang" and rank.scheduling_look_ahead:
        return partial(_ahead_sglang_worker, sglang_params(rank, dp_size), timer, dp_size)
    if rank.backend == "sglang":
        return partial(_sglang_worker, sglang_params(rank, dp_size), timer, dp_size)
    if rank.native_host_offload is not None:
        return _offload_maker(rank, rank.native_host_offload, timer, dp_size)
    if rank.scheduling_look_ahead:
        return partial(_ahead_worker, rank_params(rank), timer, dp_size)
    return partial(_worker, rank_params(rank), timer, dp_size)


def _ahead_worker(params: RankParams, timer: PassTimer, dp_size: int, number: int) -> Worker:
    """Make a worker that plans one pass ahead."""
    if params.nextn:
        numbers = range(number * dp_size, (number + 1) * dp_size)
        return AheadRankGroup([make_ahead_drafts(params, timer, each) for each in numbers])
    if dp_size == 1:
        return AheadRankWorker(make_ahead_rank(params, timer))
    return AheadRankGroup([make_ahead_rank(params, timer) for _ in range(dp_size)])


def _worker(params: RankParams, timer: PassTimer, dp_size: int, number: int) -> Worker:
    has_cadence = dp_size > 1 and params.prefill_schedule_interval > 1
    numbers = range(number * dp_size, (number + 1) * dp_size)
    ranks = [make_rank(params, timer, each, has_cadence) for each in numbers]
    if has_cadence:
        return CadenceGroup(ranks, params.prefill_schedule_interval)
    is_uneven = params.nextn or params.state_blocks  # passes are not all alike, as those of a group
    return GroupWorker(ranks) if dp_size > 1 or is_uneven else RankWorker(ranks[0])


def _ahead_sglang_worker(params: SglangParams, timer: PassTimer, dp_size: int, number: int) -> Worker:
    """Make a worker of SGLang ranks that plan one pass ahead."""
    numbers = range(number * dp_size, (number + 1) * dp_size)
    ranks = [make_ahead_sglang_rank(params, timer, each) for each in numbers]
    return AheadSglangWorker(ranks[0]) if dp_size == 1 else AheadSglangGroup(ranks)


def _offload_maker(
    rank: RankConfig, tier: HostOffload, timer: PassTimer, dp_size: int
) -> Callable[[int], Worker]:
    """Prepare workers each of whose ranks has host memory of its own, and maybe a disk behind it."""
    params, disk = rank_params(rank), None if rank.g3_offload is None else disk_params(rank, rank.g3_offload)
    is_shared = disk is not None and disk.is_shared
    identities = BlockIdentities() if is_shared else None
    offload = offload_params(rank, tier, shared_host(rank, tier), identities)
    shared_disk = DiskTier(disk) if disk is not None and is_shared else None
    restless = Restless()

    def make(number: int) -> Worker:
        if dp_size > 1 and params.prefill_schedule_interval > 1:
            restless.has_others = restless.has_others or number > 0
            return _cadence_group(params, timer, offload, dp_size, restless)
        own_disk = None if disk is None or is_shared else DiskTier(disk)
        return _offload_worker(params, timer, offload, dp_size, shared_disk or own_disk)

    return make


def _offload_worker(
    params: RankParams, timer: PassTimer, offload: OffloadParams, dp_size: int, disk: DiskTier | None
) -> Worker:
    ranks = [make_offload_rank(params, timer, offload, disk) for _ in range(dp_size)]
    return OffloadWorker(ranks[0]) if dp_size == 1 else OffloadGroup([*ranks])


def _cadence_group(
    params: RankParams, timer: PassTimer, offload: OffloadParams, dp_size: int, restless: Restless
) -> Worker:
    ranks = [make_offload_rank(params, timer, offload, has_cadence=True) for _ in range(dp_size)]
    return OffloadCadenceGroup([*ranks], params.prefill_schedule_interval, restless)


def _sglang_worker(params: SglangParams, timer: PassTimer, dp_size: int, number: int) -> Worker:
    numbers = range(number * dp_size, (number + 1) * dp_size)
    ranks = [make_sglang_rank(params, timer, each) for each in numbers]
    return SglangWorker(ranks[0]) if dp_size == 1 else SglangGroup(ranks)


def rank_params(rank: RankConfig) -> RankParams:
    """Take from the configuration what the scheduler of a vLLM or TensorRT-LLM rank needs."""
    return RankParams(
        backend=rank.backend,
        num_gpu_blocks=rank.num_gpu_blocks,
        block_size=rank.block_size,
        max_num_seqs=rank.max_num_seqs,
        max_num_batched_tokens=rank.max_num_batched_tokens,
        max_model_len=rank.max_model_len,
        enable_prefix_caching=rank.enable_prefix_caching,
        enable_chunked_prefill=rank.enable_chunked_prefill,
        preemption_mode=rank.preemption_mode,
        fused=rank.timing_mode != "additive",
        prefill_schedule_interval=rank.prefill_schedule_interval,
        nextn=rank.aic_nextn or 0,
        accept_rates=rank.accept_rates,
        acceptance_seed=rank.aic_mtp_seed,
        state_blocks=rank.state_blocks,
    )


def shared_host(rank: RankConfig, tier: HostOffload) -> SharedHost | None:
    """Make the host memory of all ranks; None if each has one of its own."""
    if tier.scope == "dp_rank_local":
        return None
    assert rank.kv_cache_bytes_per_token is not None
    return SharedHost(
        SharedHostParams(
            num_blocks=tier.num_host_blocks,
            block_bytes=rank.block_size * rank.kv_cache_bytes_per_token,
            d2h_gbps=tier.shared_d2h_bandwidth_gbps,
            h2d_gbps=tier.shared_h2d_bandwidth_gbps,
        )
    )


def offload_params(
    rank: RankConfig,
    tier: HostOffload,
    shared: SharedHost | None = None,
    identities: BlockIdentities | None = None,
) -> OffloadParams:
    """Take from the configuration what host memory needs; ranks that share blocks name them alike."""
    assert rank.kv_cache_bytes_per_token is not None
    if shared is not None:
        identities = shared.identities
    return OffloadParams(
        num_host_blocks=tier.num_host_blocks,
        block_bytes=rank.block_size * rank.kv_cache_bytes_per_token,
        d2h_bandwidth_gbps=tier.d2h_bandwidth_gbps,
        h2d_bandwidth_gbps=tier.h2d_bandwidth_gbps,
        latency_ns=clock_ns(tier.latency_to_first_byte_ms),
        identities=identities,
        shared=shared,
    )


def disk_params(rank: RankConfig, disk: DiskOffload) -> DiskParams:
    """Take from the configuration what a disk needs."""
    assert rank.kv_cache_bytes_per_token is not None
    return DiskParams(
        num_blocks=disk.num_g3_blocks,
        block_bytes=rank.block_size * rank.kv_cache_bytes_per_token,
        read_gbps=disk.read_bandwidth_gbps,
        write_gbps=disk.write_bandwidth_gbps,
        is_shared=disk.scope == "cluster_shared",
        shared_read_gbps=disk.shared_read_bandwidth_gbps,
        shared_write_gbps=disk.shared_write_bandwidth_gbps,
        latency_ns=clock_ns(disk.latency_to_first_byte_ms),
    )


def sglang_params(rank: RankConfig, dp_size: int) -> SglangParams:
    """Take from the configuration what the scheduler of an SGLang rank needs."""
    settings = rank.sglang
    return SglangParams(
        num_gpu_blocks=rank.num_gpu_blocks,
        block_size=rank.block_size,
        max_num_seqs=rank.max_num_seqs,
        max_model_len=rank.max_model_len,
        enable_prefix_caching=rank.enable_prefix_caching,
        prefill_decode_interval=rank.prefill_decode_interval,
        schedule_policy=settings.schedule_policy,
        max_prefill_tokens=settings.max_prefill_tokens,
        chunked_prefill_size=settings.chunked_prefill_size // dp_size,
        clip_max_new_tokens=settings.clip_max_new_tokens,
        schedule_conservativeness=settings.schedule_conservativeness
        * (_DP_CONSERVATIVENESS if dp_size > 1 else 1.0),
        nextn=rank.aic_nextn or 0,
        accept_rates=rank.accept_rates,
        acceptance_seed=rank.aic_mtp_seed,
    )
