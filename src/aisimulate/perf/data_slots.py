"""Which engine versions have performance data on which GPUs."""

from __future__ import annotations

from aisimulate.core.errors import AISimulateError
from aisimulate.timing.aic.key import BACKENDS
from aisimulate.timing.aic.system import known_systems
from aisimulate.timing.aic.version import version_slots


def data_slots() -> dict[str, dict[str, dict[str, str]]]:
    """Give `{system: {backend: {slot: version}}}`, systems and backends without data left empty or out."""
    return {system: dict(_backends(system)) for system in known_systems()}


def _backends(system: str) -> list[tuple[str, dict[str, str]]]:
    found = []
    for backend in BACKENDS:
        try:
            slots = version_slots(system, backend, None)
        except AISimulateError:
            continue
        if slots:
            found.append((backend, dict(slots)))
    return found
