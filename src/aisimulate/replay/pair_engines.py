"""Prefill and decode workers with the scheduler of their backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from aisimulate.engine.ahead_group import AheadRankGroup, AheadSglangGroup
from aisimulate.engine.ahead_pair import make_ahead_stage
from aisimulate.engine.ahead_worker import AheadRankWorker
from aisimulate.engine.cadence_pair import CadenceDecodeRank, PairCadenceGroup
from aisimulate.engine.decode_rank import DecodeRank
from aisimulate.engine.decode_worker import DecodeWorker
from aisimulate.engine.group import GroupWorker
from aisimulate.engine.no_evict_pair import NoEvictDecodeRank, NoEvictPrefillRank
from aisimulate.engine.offload_decode import OffloadDecodeGroup, OffloadDecodeRank, OffloadDecodeWorker
from aisimulate.engine.offload_group import OffloadGroup
from aisimulate.engine.offload_scheduler import OffloadPrefillScheduler
from aisimulate.engine.offload_worker import OffloadWorker
from aisimulate.engine.prefill_rank import PrefillRank
from aisimulate.engine.prefill_worker import PrefillWorker
from aisimulate.engine.sglang_ahead import AheadSglangWorker
from aisimulate.engine.sglang_ahead_pair import make_ahead_sglang_stage
from aisimulate.engine.sglang_pair import SglangDecodeRank, SglangPrefillRank, SpeculativeSglangDecodeRank
from aisimulate.engine.sglang_worker import SglangGroup, SglangWorker
from aisimulate.engine.speculation import Acceptance
from aisimulate.engine.speculative_pair import (
    SpeculativeCadenceGroup,
    SpeculativeDecodeRank,
    SpeculativePairGroup,
    SpeculativePrefillRank,
)
from aisimulate.engine.worker import RankWorker
from aisimulate.replay.engines import offload_params, rank_params, sglang_params

if TYPE_CHECKING:
    from aisimulate.config.rank import RankConfig
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import OffloadParams, RankParams, SglangParams
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sglang_scheduler import SglangScheduler
    from aisimulate.engine.shared_host import SharedHost

PairWorker: TypeAlias = (
    RankWorker
    | GroupWorker
    | SglangWorker
    | SglangGroup
    | AheadRankWorker
    | AheadRankGroup
    | AheadSglangWorker
    | AheadSglangGroup
)
_RANKS: dict[tuple[str, str], type[PrefillRank] | type[DecodeRank]] = {
    ("vllm", "prefill"): PrefillRank,
    ("vllm", "decode"): DecodeRank,
    ("trtllm", "prefill"): NoEvictPrefillRank,
    ("trtllm", "decode"): NoEvictDecodeRank,
}


def pair_worker(
    rank: RankConfig,
    timer: PassTimer,
    stage: str,
    dp_size: int,
    host: SharedHost | None,
    number: int,
) -> PairWorker:
    """Make worker `number` of the stage "prefill" or "decode", with `dp_size` ranks; `host` is for all."""
    ranks = range(number * dp_size, (number + 1) * dp_size)
    if rank.backend == "sglang" and rank.scheduling_look_ahead:
        return _ahead_sglang_worker(sglang_params(rank, dp_size), timer, stage, dp_size)
    if rank.backend == "sglang":
        return _sglang_worker(sglang_params(rank, dp_size), timer, stage, ranks)
    if rank.native_host_offload is not None:
        offload = offload_params(rank, rank.native_host_offload, host)
        return _offload_worker(rank_params(rank), offload, timer, stage, dp_size)
    return _worker(rank_params(rank), timer, stage, ranks, rank.scheduling_look_ahead)


def _offload_worker(
    params: RankParams, offload: OffloadParams, timer: PassTimer, stage: str, dp_size: int
) -> PairWorker:
    """Make a worker each of whose ranks has host memory."""
    if stage == "decode":
        decoding = [OffloadDecodeRank(params, timer, offload) for _ in range(dp_size)]
        return OffloadDecodeWorker(decoding[0]) if dp_size == 1 else OffloadDecodeGroup([*decoding])
    ranks = [OffloadPrefillScheduler(params, timer, offload) for _ in range(dp_size)]
    return OffloadWorker(ranks[0]) if dp_size == 1 else OffloadGroup([*ranks])


def _worker(params: RankParams, timer: PassTimer, stage: str, numbers: range, look_ahead: int) -> PairWorker:
    interval = params.prefill_schedule_interval
    if look_ahead:
        ahead = [make_ahead_stage(params, timer, stage) for _ in numbers]
        return AheadRankWorker(ahead[0]) if len(ahead) == 1 else AheadRankGroup([*ahead])
    has_cadence = stage == "decode" and len(numbers) > 1 and interval > 1
    ranks = [_rank(params, timer, stage, number, has_cadence) for number in numbers]
    if has_cadence:
        return (SpeculativeCadenceGroup if params.nextn else PairCadenceGroup)(ranks, interval)
    if params.nextn and stage == "decode":
        return SpeculativePairGroup(ranks)
    if len(ranks) > 1 or params.nextn:
        return GroupWorker(ranks)
    (only,) = ranks
    return DecodeWorker(only) if isinstance(only, DecodeRank) else PrefillWorker(only)


def _rank(params: RankParams, timer: PassTimer, stage: str, number: int, has_cadence: bool) -> RankScheduler:
    """Make a rank; `number` counts those of all workers of the stage."""
    if params.nextn:
        speculative = SpeculativePrefillRank if stage == "prefill" else SpeculativeDecodeRank
        return speculative(params, timer, _acceptance(params, number))
    if has_cadence:
        return CadenceDecodeRank(params, timer)
    return _RANKS[params.backend, stage](params, timer)


def _ahead_sglang_worker(params: SglangParams, timer: PassTimer, stage: str, dp_size: int) -> PairWorker:
    ranks = [make_ahead_sglang_stage(params, timer, stage) for _ in range(dp_size)]
    return AheadSglangWorker(ranks[0]) if dp_size == 1 else AheadSglangGroup(ranks)


def _sglang_worker(params: SglangParams, timer: PassTimer, stage: str, numbers: range) -> PairWorker:
    ranks = [_sglang_rank(params, timer, stage, number) for number in numbers]
    return SglangWorker(ranks[0]) if len(ranks) == 1 else SglangGroup(ranks)


def _sglang_rank(params: SglangParams, timer: PassTimer, stage: str, number: int) -> SglangScheduler:
    if stage == "prefill":
        return SglangPrefillRank(params, timer)
    if params.nextn:
        return SpeculativeSglangDecodeRank(params, timer, _acceptance(params, number))
    return SglangDecodeRank(params, timer)


def _acceptance(params: RankParams | SglangParams, number: int) -> Acceptance:
    return Acceptance(params.nextn, params.accept_rates, params.acceptance_seed + number)
