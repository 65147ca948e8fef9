"""What became of one suggestion."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from aisimulate.core.shown import cut, visible

if TYPE_CHECKING:
    from aisimulate.spica.config import Candidate


REASON_LENGTH = 300


class Status(StrEnum):
    """How an attempt ended. All but `unsupported` count as evaluated."""

    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    TIMED_OUT = "timed_out"


class Reason(StrEnum):
    """Why an attempt has no result, as a code for consumers (spec 05 section 14)."""

    GPU_BUDGET = "gpu_budget"
    KV_CAPACITY = "kv_capacity"
    LOW_CONFIDENCE = "low_confidence"
    SLA_CONSTRAINT = "sla_constraint"
    BACKEND_TOPOLOGY = "backend_topology"
    RUNTIME_TIMEOUT = "runtime_timeout"
    RUNTIME_MEMORY = "runtime_memory"
    CANDIDATE_MATERIALIZATION = "candidate_materialization"
    REPLAY_RUNTIME = "replay_runtime"
    RUNNER_CONTRACT = "runner_contract"
    INVALID_METRICS = "invalid_metrics"
    NO_SAMPLES = "no_samples"
    PARALLEL_PROJECTION = "parallel_projection"
    ADAPTER_CONSTRAINT = "adapter_constraint"
    DATA_GAP = "data_gap"
    SHAPE_NOT_VIABLE = "shape_not_viable"
    UNSUPPORTED_DTYPE = "unsupported_dtype"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one attempt; picklable.

    `config` is the unrolled sample as far as it was built. `candidate` is set iff the status is feasible,
    `category` and `reason` iff it is not. `missed` tells by how much a measured candidate missed bounds of
    the goal, as a share of each (0.2: 20 % worse). A reason may quote foreign code, so it is made one
    printable line of at most `REASON_LENGTH` characters.
    """

    status: Status
    config: dict[str, Any]
    candidate: Candidate | None = None
    category: Reason | None = None
    reason: str = ""
    missed: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", cut(visible(self.reason), REASON_LENGTH))

    @property
    def used_gpus(self) -> int | None:
        """GPUs of the deployment, or None when it could not be built."""
        used = self.config.get("used_gpus")
        return int(used) if used is not None else None
