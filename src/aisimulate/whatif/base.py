"""The replay that all variants change: its payload, and what its report tells about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisimulate.config.payload import parse_payload
from aisimulate.replay.traffic import resolve_kv_capacity
from aisimulate.spica.score import avg_gpu
from aisimulate.whatif.payloads import Payload, get, pool_path, put, stages_of, whole_payload

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Base:
    """A replay under the assumptions that were given.

    `payload` is whole, without records, and its load is a number of requests in flight where it was a share
    of the KV capacity, so that a variant of the capacity serves the same traffic. `blocks` are the KV blocks
    of a rank by stage, `gpus` the average number of GPUs.
    """

    payload: Payload
    report: Mapping[str, Any]
    blocks: Mapping[str, int]
    gpus: float

    @property
    def stages(self) -> tuple[str, ...]:
        """The pools: `agg`, or `prefill` and `decode`."""
        return stages_of(self.payload)

    @property
    def traffic(self) -> Mapping[str, Any]:
        """The traffic half; empty where requests are given one by one."""
        return get(self.payload, ("traffic",)) or {}

    @property
    def scales(self) -> bool:
        """Whether something adds and removes workers."""
        provider = get(self.payload, ("spec", "adapters", "scaling", "provider"))
        return provider not in (None, "none")

    def workers(self, stage: str) -> int:
        """The workers of a stage at the start."""
        return int(get(self.payload, (*pool_path(stage), "initial_workers")))


def unrecorded(payload: Mapping[str, Any]) -> Payload:
    """Give a payload whole, and without records of requests. Raises InputError for a bad one."""
    parse_payload(payload)
    return put(whole_payload(payload), ("spec", "record_per_request"), False)


def base_of(payload: Payload, report: Mapping[str, Any]) -> Base:
    """Gather what the variants need of a replay; `payload` is from `unrecorded`."""
    provenance = report.get("provenance", {})
    stages = stages_of(payload)
    pools = {stage: provenance if stage == "agg" else provenance.get(stage, {}) for stage in stages}
    blocks = {stage: int(pool["num_gpu_blocks"]) for stage, pool in pools.items() if "num_gpu_blocks" in pool}
    return Base(_with_fixed_load(payload, blocks), report, blocks, avg_gpu(report))


def _with_fixed_load(payload: Payload, blocks: Mapping[str, int]) -> Payload:
    execution = parse_payload(payload)
    last = stages_of(payload)[-1]
    if execution.traffic is None or execution.traffic.load_type != "kv_capacity_fraction":
        return payload
    role = execution.spec.engine.role(None if last == "agg" else last)
    rank = role.rank.model_copy(update={"num_gpu_blocks": blocks[last]})
    workers = int(get(payload, (*pool_path(last), "initial_workers")))
    concurrency = resolve_kv_capacity(execution.traffic, rank, role.dp_size, workers)
    traffic = {name: value for name, value in payload["traffic"].items() if name != "kv_load_ratio"}
    return put(payload, ("traffic",), {**traffic, "load_type": "concurrency", "concurrency": concurrency})
