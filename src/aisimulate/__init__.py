"""aisimulate: which LLM-serving deployment should I run for this model, hardware, traffic and SLA?"""

from __future__ import annotations

TYPE_CHECKING = False  # checkers know the name; importing it would take a tenth of a start
if TYPE_CHECKING:
    from typing import Any

    from aisimulate._runtime import run_replay_json

__version__ = "0.1.0"
__all__ = ["__version__", "run_replay_json"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the module protocol of PEP 562
    """Load the replay on first use, so that importing the package costs nothing."""
    if name == "run_replay_json":
        from aisimulate._runtime import run_replay_json  # noqa: PLC0415 - deliberate lazy import

        return run_replay_json
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
