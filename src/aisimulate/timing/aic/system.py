"""Facts about a kind of GPU and the machine it sits in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from aisimulate.core.errors import InputError, nearest
from aisimulate.core.shown import show, show_path
from aisimulate.timing.aic.errors import UnknownSystem
from aisimulate.timing.aic.sdk import sdk_call


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """One kind of GPU: memory of one GPU, and how many GPUs share a node and (if known) a rack."""

    name: str
    capacity_bytes: int
    gpus_per_node: int
    gpus_per_rack: int | None


@lru_cache(maxsize=64)
def system_facts(system: str, systems_path: str | None = None) -> SystemFacts:
    """Look up `system`. Raises `UnknownSystem` listing the legal names."""
    from aiconfigurator_core.sdk.perf_database import load_system_spec  # noqa: PLC0415 - costs start-up time

    legal = known_systems(systems_path)
    if not legal:
        raise UnknownSystem(f"AIC systems_path: {show_path(systems_path)} holds no performance data")
    if system not in legal:
        raise UnknownSystem(
            f"AIC system: {show(system)} must be one of {', '.join(legal)}{nearest(system, legal)}"
        )
    with sdk_call(f"AIC system {system}"):
        spec = load_system_spec(system, systems_path)
        rack = spec["node"].get("num_gpus_per_rack")
        return SystemFacts(
            system,
            int(spec["gpu"]["mem_capacity"]),
            int(spec["node"]["num_gpus_per_node"]),
            rack and int(rack),
        )


@lru_cache(maxsize=8)
def known_systems(systems_path: str | None = None) -> tuple[str, ...]:
    """List the kinds of GPU that have performance data, sorted. Raises InputError for a missing folder."""
    from aiconfigurator_core.sdk.perf_database import get_systems_paths  # noqa: PLC0415 - costs start-up time

    if systems_path is not None and not os.path.isdir(systems_path):  # noqa: PTH112 - takes any text
        raise InputError(f"AIC systems_path: {show_path(systems_path)} is not a folder")
    roots = [systems_path] if systems_path else get_systems_paths()
    found = {file.stem for root in roots for file in Path(root).glob("*.yaml") if _describes_gpu(file)}
    return tuple(sorted(found))


def _describes_gpu(file: Path) -> bool:
    """Tell a GPU description with data beside it from the other settings files in the folder."""
    lines = file.read_text(encoding="utf-8").splitlines()
    folders = [line.split("#")[0].split(":", 1)[1].strip() for line in lines if line.startswith("data_dir:")]
    return "gpu:" in lines and any((file.parent / folder).is_dir() for folder in folders)
