"""aisimulate: which LLM-serving deployment should I run for this model, hardware, traffic and SLA?"""

from __future__ import annotations

TYPE_CHECKING = False  # checkers know the name; importing it would take a tenth of a start
if TYPE_CHECKING:
    from typing import Any

    from aisimulate._runtime import run_replay_json
    from aisimulate.api.recommendation import recommend
    from aisimulate.api.simulation import simulate

__version__ = "0.1.0"
__all__ = ["__version__", "recommend", "run_replay_json", "simulate"]

_HOMES = {
    "recommend": "aisimulate.api.recommendation",
    "run_replay_json": "aisimulate._runtime",
    "simulate": "aisimulate.api.simulation",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the module protocol of PEP 562
    """Load what is asked for on first use, so that importing the package costs nothing."""
    if name in _HOMES:
        from importlib import import_module  # noqa: PLC0415 - deliberate lazy import

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
