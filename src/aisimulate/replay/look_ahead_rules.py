"""What scheduling look-ahead cannot be combined with yet: refused by name, never ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.config.engine import RoleConfig
    from aisimulate.config.spec import ReplaySpec

FIELD = "scheduling_look_ahead"


def require_look_ahead(spec: ReplaySpec) -> None:
    """Refuse a look-ahead where it is not built. Raises UnsupportedError with the path of the field."""
    for stage in spec.stages:
        role, path = spec.engine.role(stage), spec.engine.rank_path(stage)
        if not role.rank.scheduling_look_ahead:
            continue
        for beside in (*_in_deployment(spec, role), *_in_role(role)):
            problem = f"{role.rank.scheduling_look_ahead} is not supported yet {beside} (supported: 0)"
            raise UnsupportedError(f"{path}.{FIELD}: {problem}")


def _in_deployment(spec: ReplaySpec, role: RoleConfig) -> Iterator[str]:
    rank, is_pair = role.rank, spec.topology.kind == "disaggregated"
    if is_pair and rank.aic_nextn is not None:
        yield f"in a disaggregated topology with aic_nextn {rank.aic_nextn}"


def _in_role(role: RoleConfig) -> Iterator[str]:
    rank = role.rank
    if rank.prefill_decode_interval:
        yield f"with prefill_decode_interval {rank.prefill_decode_interval}"
    if role.dp_size > 1 and rank.prefill_schedule_interval > 1:
        yield f"with prefill_schedule_interval {rank.prefill_schedule_interval}"
    if rank.native_host_offload is not None:
        yield "with native_host_offload"
    if rank.state_cache is not None:
        yield "with state_cache"
