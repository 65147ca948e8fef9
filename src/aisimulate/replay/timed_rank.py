"""The rank of a role, its capacity settled, with its pass times and what is to be told of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.config.aic import aic_config
from aisimulate.config.engine import role_capacity_is_explicit
from aisimulate.config.timing import ExternalTiming
from aisimulate.config.timing import FixedTiming as FixedTimingConfig
from aisimulate.config.timing import LinearTiming as LinearTimingConfig
from aisimulate.replay.aic_errors import aic_settings_at
from aisimulate.replay.calibrated import calibrated
from aisimulate.replay.capacity import aic_engine_key, materialize_capacity, unused_aic_settings
from aisimulate.replay.frontend import step_overhead_ns
from aisimulate.timing import FixedTiming, LinearTiming, PolynomialTiming, ScaledTiming
from aisimulate.timing.aic.surface import AicTiming
from aisimulate.timing.overhead import OverheadTimer

if TYPE_CHECKING:
    from aisimulate.config.aic import AicConfig
    from aisimulate.config.engine import RoleConfig
    from aisimulate.config.payload import Execution
    from aisimulate.config.rank import RankConfig
    from aisimulate.core.protocols import PassTimer, TimingModel


@dataclass(frozen=True, slots=True)
class TimedRank:
    """A role with its settled rank. `provenance` tells where times and capacity come from."""

    role: RoleConfig
    rank: RankConfig
    timer: PassTimer
    provenance: dict[str, object]
    notes: list[str]


def timed_rank(execution: Execution, stage: str | None = None) -> TimedRank:
    """Settle capacity, calibration and pass times of a role. Raises like `build_replay`."""
    spec = execution.spec
    role = spec.engine.role(stage)
    aic = aic_config(role.rank)
    explicit = role_capacity_is_explicit(execution.engine, stage)
    path = spec.engine.rank_path(stage)
    with aic_settings_at(path):
        rank = role.rank if aic is None else materialize_capacity(aic, role, explicit)
        notes = [] if aic is None else list(unused_aic_settings(aic, path, explicit))
    made = calibrated(execution, role, rank, aic, path)
    with aic_settings_at(path):
        timing = _timing(made.rank, aic)
    timer = _bound(made.rank, timing)
    if overhead_ns := step_overhead_ns(spec):
        timer = OverheadTimer(timer, overhead_ns)
    provenance = _provenance(made.rank, timing, capacity_is_estimated=aic is not None and not explicit)
    return TimedRank(role, made.rank, timer, provenance | made.provenance, notes + made.notes)


def _timing(rank: RankConfig, aic: AicConfig | None) -> TimingModel:
    """Choose the source of pass times, before any factor."""
    if aic is not None and isinstance(rank.timing_model, ExternalTiming):
        return AicTiming(aic_engine_key(aic), aic.nextn)
    if isinstance(rank.timing_model, FixedTimingConfig):
        return FixedTiming(rank.timing_model.prefill_ms, rank.timing_model.decode_ms)
    if isinstance(rank.timing_model, LinearTimingConfig):
        return LinearTiming(**rank.timing_model.model_dump(exclude={"type"}))
    return PolynomialTiming()


def _bound(rank: RankConfig, timing: TimingModel) -> PassTimer:
    """Bind pass times to a rank: its capacity, its factors and its speed-up ratios."""
    if rank.prefill_scale != 1.0 or rank.decode_scale != 1.0 or rank.timing_mode == "half":
        timing = ScaledTiming(timing, rank.prefill_scale, rank.decode_scale, rank.timing_mode == "half")
    return timing.timer(
        rank.num_gpu_blocks * rank.block_size,
        rank.speedup_ratio,
        rank.speedup_ratio * rank.decode_speedup_ratio,
    )


def _provenance(rank: RankConfig, timing: TimingModel, capacity_is_estimated: bool) -> dict[str, object]:
    """Say where times and capacity come from."""
    provenance: dict[str, object] = {
        "timing": rank.timing_model.type,
        "num_gpu_blocks": rank.num_gpu_blocks,
        "num_gpu_blocks_source": "estimated" if capacity_is_estimated else "given",
    }
    if isinstance(timing, AicTiming):
        provenance["timing"] = "aic"
        provenance["backend_version"] = timing.blob.literal
        provenance["advisories"] = list(timing.blob.advisories)
    return provenance
