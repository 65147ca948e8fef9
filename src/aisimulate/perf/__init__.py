"""The performance model by itself: pass times, KV capacity and where the figures come from.

    from aisimulate.perf import PerfModel

    engine = PerfModel(model="Qwen/Qwen3-32B", system="h200_sxm", backend="vllm", tp=2)
    engine.decode(context=4096, batch=64).latency_ms

Figures are those that a replay of the same engine uses, without interpolation. Importing costs nothing;
the first `PerfModel` loads the measured data.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aisimulate.perf.model import PerfModel
    from aisimulate.perf.results import Capacity, Latency, MixedLatency, Provenance

__all__ = ["Capacity", "Latency", "MixedLatency", "PerfModel", "Provenance"]

_HOMES = {"PerfModel": "model"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the named module holds
    """Import the module that defines `name` on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'results')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted(__all__)
