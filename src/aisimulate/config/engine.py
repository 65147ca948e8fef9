"""The engine of a replay: one role for every worker, or one per stage (spec 01 section 1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from aisimulate.config.base import FieldError, StrictModel, null_is_default
from aisimulate.config.rank import RankConfig
from aisimulate.core.limits import MAX_DP_SIZE, MAX_TP_SIZE


class RoleConfig(StrictModel):
    """One kind of worker: `dp_size` ranks, each sharded over `tensor_parallel_size` GPUs."""

    dp_size: Annotated[int, Field(gt=0, le=MAX_DP_SIZE)] = 1
    """attention-DP ranks of a worker, which run in step :unit: ranks"""
    tensor_parallel_size: Annotated[int, Field(gt=0, le=MAX_TP_SIZE)] = 1
    """GPUs of a rank :unit: GPUs"""
    rank: RankConfig = Field(default_factory=RankConfig)
    """settings of each rank"""

    @model_validator(mode="after")
    def _ranks_share_a_chunk(self) -> Self:
        chunk = self.rank.sglang.chunked_prefill_size
        if self.rank.backend == "sglang" and chunk < self.dp_size:
            problem = f"{chunk} is not >= dp_size {self.dp_size}, which divides it"
            raise FieldError("rank.sglang.chunked_prefill_size", problem)
        return self

    @property
    def gpus_per_worker(self) -> int:
        """GPUs of one worker; pipeline parallelism is not counted (spec 02 section 1.3)."""
        return self.tensor_parallel_size * self.dp_size


class EngineConfig(RoleConfig):
    """The flat role, and the roles of the two stages of a disaggregated replay."""

    prefill: RoleConfig | None = None
    """the same three fields for prefill workers :rule: disaggregated only"""
    decode: RoleConfig | None = None
    """the same for decode workers :rule: disaggregated only"""

    def role(self, stage: str | None = None) -> RoleConfig:
        """Return the settings of `stage` (prefill, decode, or None for aggregated).

        Inheritance is all or nothing: an absent role is the flat one, a present role takes nothing from it.
        """
        own = {"prefill": self.prefill, "decode": self.decode}.get(stage or "")
        flat = RoleConfig(
            dp_size=self.dp_size, tensor_parallel_size=self.tensor_parallel_size, rank=self.rank
        )
        return own or flat

    def rank_path(self, stage: str | None = None) -> str:
        """Return the payload path of the rank settings that `stage` uses."""
        own = stage is not None and getattr(self, stage) is not None
        return f"spec.engine.{stage}.rank" if own else "spec.engine.rank"


NullableEngine = Annotated[EngineConfig, BeforeValidator(null_is_default)]


def role_capacity_is_explicit(engine_value: Mapping[str, Any], role: str | None) -> bool:
    """Whether the authored engine object sets `num_gpu_blocks` for `role` (None: aggregated).

    The role's own `rank` decides; when the role has none, the flat `rank` does (seed binding).
    """
    own = engine_value.get(role) if role else None
    rank = own.get("rank") if isinstance(own, Mapping) else None
    if rank is None:
        rank = engine_value.get("rank")
    return isinstance(rank, Mapping) and "num_gpu_blocks" in rank
