"""The kinds of ranks, and which one the settings ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.cadence import CadenceScheduler
from aisimulate.engine.fused import FusedScheduler
from aisimulate.engine.no_evict import NoEvictScheduler
from aisimulate.engine.scheduler import RankScheduler
from aisimulate.engine.sglang_scheduler import SglangScheduler
from aisimulate.engine.sglang_speculative import SpeculativeSglangScheduler
from aisimulate.engine.speculation import Acceptance
from aisimulate.engine.speculative import SpeculativeScheduler
from aisimulate.engine.state_drafts import StateDraftScheduler
from aisimulate.engine.state_scheduler import StateScheduler

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams, SglangParams


class FusedNoEvictScheduler(FusedScheduler, NoEvictScheduler):
    """TensorRT-LLM whose mixed passes are one forward."""

    __slots__ = ()


class FusedCadenceScheduler(FusedScheduler, CadenceScheduler):
    """vLLM in a group with a cadence, whose mixed passes are one forward."""

    __slots__ = ()


def make_rank(params: RankParams, timer: PassTimer, number: int, has_cadence: bool) -> RankScheduler:
    """Make the scheduler of a rank; what is peculiar to its passes is settled here, once.

    `number` counts the ranks of all workers. `has_cadence`: its group schedules prefills in intervals.
    """
    if params.nextn or params.state_blocks:
        acceptance = Acceptance(params.nextn, params.accept_rates, params.acceptance_seed + number)
        if not params.state_blocks:
            return SpeculativeScheduler(params, timer, acceptance)
        return (StateDraftScheduler if params.nextn else StateScheduler)(params, timer, acceptance)
    if has_cadence:
        return (FusedCadenceScheduler if params.fused else CadenceScheduler)(params, timer)
    if params.backend == "trtllm":
        return (FusedNoEvictScheduler if params.fused else NoEvictScheduler)(params, timer)
    return (FusedScheduler if params.fused else RankScheduler)(params, timer)


def make_sglang_rank(params: SglangParams, timer: PassTimer, number: int) -> SglangScheduler:
    """Make the scheduler of an SGLang rank; `number` counts the ranks of all workers."""
    if params.nextn:
        seed = params.acceptance_seed + number
        acceptance = Acceptance(params.nextn, params.accept_rates, seed)
        return SpeculativeSglangScheduler(params, timer, acceptance)
    return SglangScheduler(params, timer)
