"""Size of a model's weights, in the data types it is served with."""

from __future__ import annotations

from functools import lru_cache

from aisimulate.timing.aic.names import resolve_model
from aisimulate.timing.aic.sdk import sdk_call


@lru_cache(maxsize=128)
def weight_bytes(model: str, backend: str, allow_download: bool = False) -> int:
    """Bytes of all weights, undivided. Raises `ModelNotAvailable`, or `TimingError` if unforeseen."""
    path = resolve_model(model, allow_download)
    with sdk_call(f"AIC weights of {model}"):
        from aiconfigurator_core.sdk.config_builders import build_model_config  # noqa: PLC0415 - start-up time
        from aiconfigurator_core.sdk.models import get_model  # noqa: PLC0415 - costs start-up time

        whole = get_model(path, build_model_config(1, 1, 1, 1, 1), backend)
        return int(sum(op.get_weights() for op in whole.context_ops))
