"""Pinned `search_space.parallel_configs` entries as configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.spica.parallel_enum import DisaggParallelConfig, ParallelShape, ReplicaParallelConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisimulate.spica.parallel_enum import ParallelConfig


def _pool(entry: Mapping[str, int]) -> ReplicaParallelConfig:
    shape = ParallelShape(
        tp=entry["tp"],
        dp=entry.get("attention_dp", 1),
        moe_tp=entry.get("moe_tp", 1),
        moe_ep=entry.get("moe_ep", 1),
        pp=entry.get("pp", 1),
    )
    return ReplicaParallelConfig(shape, entry.get("replicas", 1))


def pinned_configs(entries: Iterable[Mapping[str, Any]], deployment_mode: str) -> list[ParallelConfig]:
    """Turn validated entries into distinct configs, order kept."""
    configs: list[ParallelConfig] = []
    for entry in entries:
        if deployment_mode == "disagg":
            configs.append(DisaggParallelConfig(_pool(entry["prefill"]), _pool(entry["decode"])))
        else:
            configs.append(_pool(entry))
    return list(dict.fromkeys(configs))
