"""The calibration of a search: read when the config is, and written out in every replay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from aisimulate.config.calibration import Calibration
from aisimulate.config.calibration_file import read_calibration
from aisimulate.config.messages import parse_model
from aisimulate.core.errors import InputError
from aisimulate.core.shown import show

if TYPE_CHECKING:
    from aisimulate.spica.config import SmartSearchConfig


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
    shape = ", ".join(f"{name} {key[name]}" for name in _SHAPE if name in key)
    return [f"calibration: candidates other than {key['backend']} with {shape} are refused"]
