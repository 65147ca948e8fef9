"""The calibration of a search: read when the config is, and written out in every replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from aisimulate.config.calibration import Calibration
from aisimulate.config.calibration_file import read_calibration
from aisimulate.config.messages import parse_model
from aisimulate.core.errors import InputError
from aisimulate.core.shown import show
from aisimulate.spica.parallel_enum import describe_shape, role_pools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.parallel_enum import ParallelConfig, ParallelShape
    from aisimulate.spica.search_space import BranchSpace


_SHAPE = ("tp", "pp", "attention_dp", "moe_tp", "moe_ep", "aic_nextn")


def _written_out(value: object) -> object:
    """Read a calibration that is given by its path, check it, and give what is in it."""
    if value is None:
        return None
    calibration = (
        read_calibration(Path(value)) if isinstance(value, str) else parse_model(Calibration, value, "")
    )
    return calibration.model_dump(mode="json", exclude_none=True)


WrittenOut = Annotated[dict[str, Any] | None, BeforeValidator(_written_out)]
"""A calibration as plain values, so that records of searches and workers need no file."""


def planned_as_calibrated(config: SmartSearchConfig) -> SmartSearchConfig:
    """Let engines plan passes as early as a calibration was fitted with, where a search leaves it open."""
    space, name = config.search_space, "scheduling_look_ahead"
    fitted_with = (config.calibration or {}).get(name)
    if not fitted_with or name in space.model_fields_set:
        return config
    return config.model_copy(update={"search_space": space.model_copy(update={name: fitted_with})})


def check_calibration(config: SmartSearchConfig) -> list[str]:
    """Refuse a calibration of another engine than any that is searched; say in a note what it limits.

    Raises `InputError` naming the field that differs. What varies between candidates is compared for each.
    """
    if config.calibration is None:
        return []
    key, space = config.calibration["key"], config.search_space
    pinned = {"model": ("model_name", space.model_name), "system": ("hardware_sku", space.hardware_sku)}
    for name, (field, value) in pinned.items():
        if key.get(name) not in (None, value):
            raise InputError(
                f"calibration: made for {name} {show(key[name])}, but search_space.{field} is {show(value)}"
            )
    if key["backend"] not in space.backend:
        listed = ", ".join(space.backend)
        raise InputError(
            f"calibration: made for backend {show(key['backend'])}, but search_space.backend is {listed}"
        )
    refused = f"calibration: candidates other than {key['backend']} with {_shape_text(key)} are refused"
    return [refused, *_unchecked(config.calibration, space.scheduling_look_ahead)]


def _unchecked(calibration: Mapping[str, Any], look_ahead: int) -> Iterator[str]:
    """Note what the calibration does not tell, and another look-ahead, for which its offset may stand."""
    untold = [name for name in ("model", "system", "backend_version") if name not in calibration["key"]]
    if untold:
        yield f"calibration: {' and '.join(untold)} not checked: its key does not tell"
    fitted_with = calibration.get("scheduling_look_ahead")
    if fitted_with and look_ahead:
        yield "calibration: passes are planned one ahead, as it was fitted"
    if fitted_with not in (None, look_ahead):
        yield (
            f"calibration: fitted with scheduling_look_ahead {fitted_with}, "
            f"but search_space.scheduling_look_ahead is {look_ahead}"
        )


def of_calibrated_shape(
    config: SmartSearchConfig, branches: Sequence[BranchSpace]
) -> tuple[list[BranchSpace], list[str]]:
    """Leave out the enumerated shapes that the calibration is not for, so that no replay is spent on them.

    Shapes that the user pinned stay, and fail with the field that differs. Raises `InputError` when no
    shape is left.
    """
    if config.calibration is None or config.search_space.parallel_configs:
        return list(branches), []
    key = config.calibration["key"]
    kept = [(branch, [item for item in branch.parallel_configs if _fits(item, key)]) for branch in branches]
    dropped = {
        describe_shape(pool.shape): None
        for branch in branches
        for item in branch.parallel_configs
        for pool in role_pools(item).values()
        if not _shape_fits(pool.shape, key)
    }
    if not dropped:
        return list(branches), []
    if not any(configs for _, configs in kept):
        raise InputError(
            f"calibration: made for {_shape_text(key)}, but shapes searched are {', '.join(dropped)}"
        )
    left = [replace(branch, parallel_configs=tuple(configs)) for branch, configs in kept if configs]
    return left, [f"calibration: shapes {', '.join(dropped)} dropped: it is for {_shape_text(key)}"]


def _fits(config: ParallelConfig, key: Mapping[str, Any]) -> bool:
    return all(_shape_fits(pool.shape, key) for pool in role_pools(config).values())


def _shape_fits(shape: ParallelShape, key: Mapping[str, Any]) -> bool:
    """Whether a shape is that of a calibration, as far as it tells."""
    own = {
        "tp": shape.tp,
        "pp": shape.pp,
        "attention_dp": shape.dp,
        "moe_tp": shape.moe_tp,
        "moe_ep": shape.moe_ep,
    }
    return all(key.get(name) in (None, value) for name, value in own.items())


def _shape_text(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {key[name]}" for name in _SHAPE if name in key)
