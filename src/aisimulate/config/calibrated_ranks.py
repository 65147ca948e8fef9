"""What a calibration says of the engines' settings themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.config.engine import RoleConfig
    from aisimulate.config.spec import ReplaySpec

_FIELD = "scheduling_look_ahead"


def planned_as_calibrated(spec: ReplaySpec) -> ReplaySpec:
    """Let engines plan passes as early as a calibration was fitted with, where settings leave it open."""
    fitted_with = None if spec.calibration is None else spec.calibration.scheduling_look_ahead
    if not fitted_with:
        return spec
    engine = spec.engine
    changes: dict[str, object] = {
        name: _planned(role, fitted_with)
        for name in ("prefill", "decode")
        if (role := getattr(engine, name)) is not None
    }
    changes["rank"] = _planned(engine, fitted_with).rank
    return spec.model_copy(update={"engine": engine.model_copy(update=changes)})


def _planned(role: RoleConfig, look_ahead: int) -> RoleConfig:
    if _FIELD in role.rank.model_fields_set:
        return role
    return role.model_copy(update={"rank": role.rank.model_copy(update={_FIELD: look_ahead})})
