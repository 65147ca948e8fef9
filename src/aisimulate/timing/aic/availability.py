"""Whether the parts of AI Configurator that a caller may do without are installed."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec

_ESTIMATOR = "aiconfigurator_core.sdk.memory"


@lru_cache(maxsize=1)
def missing_memory_estimator() -> str | None:
    """Name the missing piece when KV capacity cannot be estimated, else return None."""
    try:
        found = find_spec(_ESTIMATOR) is not None
    except ModuleNotFoundError:
        found = False
    return None if found else f"the module {_ESTIMATOR} is not installed (package aiconfigurator-core)"
