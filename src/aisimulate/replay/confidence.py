"""How far the data behind the engines of a payload can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.config.aic import aic_config
from aisimulate.replay.capacity import aic_engine_key
from aisimulate.timing.aic.health import Confidence, engine_confidence

if TYPE_CHECKING:
    from aisimulate.config.payload import Execution
    from aisimulate.config.rank import RankConfig


def execution_confidence(execution: Execution) -> Confidence | None:
    """Judge the data of all engines of a checked payload; None where none is timed by measurements.

    Raises like `engine_confidence`.
    """
    found: Confidence | None = None
    for stage in execution.spec.stages:
        rank = execution.spec.engine.role(stage).rank
        aic = aic_config(rank, execution.spec.engine.rank_path(stage))
        if aic is None or (execution.spec.calibration is not None and execution.spec.calibration.step_model):
            continue
        key = aic_engine_key(aic)
        own = engine_confidence(key, _most_tokens(rank, stage), _longest_tokens(execution))
        found = own if found is None else found | own
    return found


def _most_tokens(rank: RankConfig, stage: str | None) -> int:
    """The most tokens of one forward of a rank; a decode worker computes those of its sequences only."""
    if stage == "decode":
        return rank.max_num_seqs * (1 + (rank.aic_nextn or 0))
    return rank.sglang.chunked_prefill_size if rank.backend == "sglang" else rank.max_num_batched_tokens


def _longest_tokens(execution: Execution) -> int:
    """The longest sequence where the payload tells it without reading a trace, else 0."""
    traffic = execution.traffic
    if traffic is None:
        return max((item.input_tokens + item.output_tokens for item in execution.spec.requests), default=0)
    if traffic.isl is None or traffic.osl is None or traffic.turns > 1:
        return 0
    return traffic.isl + traffic.osl
