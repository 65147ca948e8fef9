"""Where memory behind the GPU can be simulated, and what those who share it have to agree on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.config.messages import show
from aisimulate.core.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.config.engine import RoleConfig
    from aisimulate.config.rank import HostOffload
    from aisimulate.config.spec import ReplaySpec


def require_tiers(spec: ReplaySpec) -> None:
    """Refuse memory behind the GPU where its rules are not known, or where who shares it disagrees.

    Raises InputError or UnsupportedError.
    """
    for stage in spec.stages:
        role, path = spec.engine.role(stage), spec.engine.rank_path(stage)
        tier = role.rank.native_host_offload
        if tier is None:
            continue
        _require_cadence(path, role, tier, stage)
        if stage is not None and role.rank.g3_offload is not None:
            problem = "a value is not supported in a disaggregated topology (supported there: null)"
            raise UnsupportedError(f"{path}.g3_offload: {problem}")
        if role.rank.g3_offload is not None and role.dp_size != 1:
            problem = f"a value is not supported with dp_size {role.dp_size}: ranks of a group have no rule"
            raise UnsupportedError(f"{path}.g3_offload: {problem} by which to share a disk (supported: 1)")
    _require_agreement(spec)


def _require_cadence(path: str, role: RoleConfig, tier: HostOffload, stage: str | None) -> None:
    """Refuse groups that count passes where the count depends on what others do."""
    interval = role.rank.prefill_schedule_interval
    if role.dp_size == 1 or interval == 1 or stage == "prefill":
        return
    beside = f"with dp_size {role.dp_size} and prefill_schedule_interval {interval}"
    if tier.scope == "cluster_shared":
        problem = f'"cluster_shared" is not supported {beside} (supported there: "dp_rank_local")'
        raise UnsupportedError(f"{path}.native_host_offload.scope: {problem}")
    if stage == "decode":
        problem = f"a value is not supported {beside} on decode workers (supported there: null)"
        raise UnsupportedError(f"{path}.native_host_offload: {problem}")


def require_scalable_tiers(spec: ReplaySpec) -> None:
    """Refuse host memory that outlives its workers, or that of decode workers, where pools scale."""
    for stage in spec.stages:
        tier, path = spec.engine.role(stage).rank.native_host_offload, spec.engine.rank_path(stage)
        if tier is None:
            continue
        if tier.scope == "cluster_shared":
            problem = '"cluster_shared" is not supported where pools scale (supported: "dp_rank_local")'
            raise UnsupportedError(f"{path}.native_host_offload.scope: {problem}")
        if stage == "decode":
            problem = "a value is not supported on decode workers where pools scale (supported there: null)"
            raise UnsupportedError(f"{path}.native_host_offload: {problem}")


def _require_agreement(spec: ReplaySpec) -> None:
    """Refuse one memory for pools that do not lay out their blocks alike, or say otherwise what it is."""
    shared = [stage for stage in spec.stages if _is_sharing(spec, stage)]
    if len(shared) < 2:
        return
    first, second = shared
    ours, others = dict(_contract(spec, second)), dict(_contract(spec, first))
    for path, value in ours.items():
        if value != others[path]:
            problem = f"{show(value)} is not {show(others[path])}, as for {first}"
            where = f"spec.engine.{second}.{path}"
            raise InputError(f"{where}: {problem}: who shares host memory has to agree")


def _is_sharing(spec: ReplaySpec, stage: str | None) -> bool:
    tier = spec.engine.role(stage).rank.native_host_offload
    return tier is not None and tier.scope == "cluster_shared"


def _contract(spec: ReplaySpec, stage: str | None) -> Iterator[tuple[str, object]]:
    role = spec.engine.role(stage)
    tier = role.rank.native_host_offload
    assert tier is not None
    yield "tensor_parallel_size", role.tensor_parallel_size
    for name in ("block_size", "kv_cache_bytes_per_token"):
        yield f"rank.{name}", getattr(role.rank, name)
    for name in type(tier).model_fields:
        if name.startswith("shared_") or name in ("kv_layout_id", "num_host_blocks"):
            yield f"rank.native_host_offload.{name}", getattr(tier, name)
