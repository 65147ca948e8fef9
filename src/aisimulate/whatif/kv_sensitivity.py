"""What a tenth more or less KV capacity does to a result, and how full the cache was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.whatif.base import base_of, unrecorded
from aisimulate.whatif.data_variants import capacity
from aisimulate.whatif.held import NEAR_FULL
from aisimulate.whatif.payloads import get, rank_path
from aisimulate.whatif.replays import Task, run_replays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from aisimulate.whatif.base import Base
    from aisimulate.whatif.replays import Result
    from aisimulate.whatif.variants import Variant

# The figures that are compared, as far as a report has them.
_KEYS = (
    "completed_requests",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "mean_e2e_latency_ms",
    "output_throughput_tok_s",
    "goodput_output_throughput_tok_s",
)
_MATTERS = 0.01


@dataclass(frozen=True, slots=True)
class CapacityChange:
    """A replay with another KV capacity: its blocks of a rank by pool, and the relative change of figures.

    A change from 0 is None. `failure` tells why there was no result.
    """

    title: str
    blocks: Mapping[str, int]
    changes: Mapping[str, float | None]
    failure: str = ""


@dataclass(frozen=True, slots=True)
class KvSensitivity:
    """The KV blocks of a rank and the greatest share of them in use, by pool, and the replays beside."""

    blocks: Mapping[str, int]
    peaks: Mapping[str, float]
    changes: Sequence[CapacityChange]
    is_empty: bool = False  # no request completed, so that there is nothing to compare with

    @property
    def is_near_full(self) -> bool:
        """Whether a pool sat near saturation."""
        return any(share >= NEAR_FULL for share in self.peaks.values())

    @property
    def matters(self) -> bool:
        """Whether a figure changed by a hundredth or more, or a replay failed."""
        return any(
            item.failure or any(abs(change or 0.0) >= _MATTERS for change in item.changes.values())
            for item in self.changes
        )


def kv_sensitivity(
    payload: Mapping[str, Any], report: Mapping[str, Any], peaks: Mapping[str, float]
) -> KvSensitivity:
    """Replay a payload twice more, with a tenth fewer and more KV blocks in every pool.

    `report` is that of the payload, `peaks` what `PeakHeld` saw. A load relative to the KV capacity stays the
    number of requests that it was.
    """
    base = base_of(unrecorded(payload), report)
    variants = sorted(capacity(base), key=lambda variant: variant.name)  # less before more
    tasks = [Task(item.title, item.payload) for item in variants if item.payload is not None]
    results = run_replays(tasks)
    told = [item for item in variants if item.payload is not None]
    changes = [_change(base, *pair) for pair in zip(told, results, strict=True)]
    return KvSensitivity(base.blocks, dict(peaks), changes, not report["completed_requests"])


def _change(base: Base, variant: Variant, result: Result) -> CapacityChange:
    payload = variant.payload or {}
    blocks = {stage: int(get(payload, (*rank_path(stage), "num_gpu_blocks"))) for stage in base.blocks}
    if result.report is None:
        return CapacityChange(variant.title, blocks, {}, result.failure)
    before, after = base.report, result.report
    if before["completed_requests"] and not after["completed_requests"]:
        return CapacityChange(variant.title, blocks, {}, "no request completed")
    changes = {key: _relative(before[key], after[key]) for key in _KEYS if key in before and key in after}
    return CapacityChange(variant.title, blocks, changes)


def _relative(before: float, after: float) -> float | None:
    if before == after:
        return 0.0
    return after / before - 1.0 if before else None
