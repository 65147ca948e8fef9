"""Backend versions: which one the measured data of a system stands for."""

from __future__ import annotations

from functools import lru_cache

from aisimulate.core.errors import nearest
from aisimulate.core.shown import show
from aisimulate.timing.aic.errors import UnknownBackendVersion
from aisimulate.timing.aic.key import check_backend
from aisimulate.timing.aic.sdk import sdk_call
from aisimulate.timing.aic.system import system_facts


@lru_cache(maxsize=256)
def resolve_version(
    system: str, backend: str, requested: str | None = None, systems_path: str | None = None
) -> str:
    """Turn a version, an alias or None (= current) into the literal version to compile and report.

    Raises `InputError` for an unknown backend, `UnknownSystem`, and `UnknownBackendVersion` when the
    system has no data for the backend or the version is outside the queryable slots.
    """
    check_backend(backend)
    system_facts(system, systems_path)
    slots = version_slots(system, backend, systems_path)
    if not slots:
        raise UnknownBackendVersion(f"AIC backend: {show(backend)} has no performance data on {system}")
    wanted = requested or "current"
    if wanted in slots:
        return slots[wanted]
    if wanted in slots.values():
        return wanted
    offered = ", ".join(f"{alias} = {literal}" for alias, literal in slots.items())
    hint = nearest(wanted, [*slots, *slots.values()])
    problem = f"is not available for {backend} on {system}; it has {offered}{hint}"
    raise UnknownBackendVersion(f"AIC backend_version: {show(wanted)} {problem}")


@lru_cache(maxsize=256)
def version_slots(system: str, backend: str, systems_path: str | None = None) -> dict[str, str]:
    """Literal version of each alias that has data for `backend` on `system`; empty when there is none."""
    from aiconfigurator_core.sdk.perf_database import get_version_slots  # noqa: PLC0415 - costs start-up time

    with sdk_call(f"AIC versions of {backend} on {system}"):
        return dict(get_version_slots(system, backend, systems_path) or {})
