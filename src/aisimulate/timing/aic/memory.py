"""KV-cache capacity of one rank."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.timing.aic.errors import NoKvBudget
from aisimulate.timing.aic.key import check_backend
from aisimulate.timing.aic.names import resolve_model
from aisimulate.timing.aic.pandas_import import pandas_when_used
from aisimulate.timing.aic.quant import resolve_modes
from aisimulate.timing.aic.sdk import sdk_call

if TYPE_CHECKING:
    from aisimulate.timing.aic.key import EngineKey

_DEFAULT_FRACTIONS = {"vllm": ("of_total", 0.9), "sglang": ("of_total", 0.88), "trtllm": ("of_free", 0.9)}


def default_memory_fraction(backend: str) -> tuple[str, float]:
    """Kind and default of the memory fraction a backend is started with.

    `of_total`: fraction of the GPU that weights, activations and KV cache may fill together.
    `of_free`: fraction of what weights and activations leave that the KV cache may fill.
    """
    check_backend(backend)
    return _DEFAULT_FRACTIONS[backend]


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """What fills the memory of one GPU of a rank, in bytes, and the KV tokens that the rank holds."""

    kv_tokens: int
    kv_bytes_per_token: int
    capacity_bytes: int
    weights_bytes: int
    activations_bytes: int
    runtime_bytes: int
    communication_bytes: int
    kv_bytes: int


def kv_tokens(
    key: EngineKey, *, max_num_tokens: int, memory_fraction_kind: str, memory_fraction: float
) -> int:
    """Estimate how many tokens the KV cache of one rank holds. Raises like `memory_estimate`."""
    return memory_estimate(
        key,
        max_num_tokens=max_num_tokens,
        memory_fraction_kind=memory_fraction_kind,
        memory_fraction=memory_fraction,
    ).kv_tokens


@lru_cache(maxsize=4096)
def memory_estimate(
    key: EngineKey, *, max_num_tokens: int, memory_fraction_kind: str, memory_fraction: float
) -> MemoryEstimate:
    """Estimate the memory of one rank (5 ms; no batch size, no draft depth in it).

    `max_num_tokens` is the token budget of a pass. An estimate does not prove that the shape can be timed.
    Raises `NoKvBudget`, `ShapeNotViable` or `InputError`.
    """
    _check(key, max_num_tokens, memory_fraction_kind, memory_fraction)
    modes = resolve_modes(key)
    with sdk_call(str(key)):
        estimate = _sdk_estimate(
            resolve_model(key.model, key.allow_download),
            key.system,
            key.backend,
            key.backend_version,
            max_num_tokens=max_num_tokens,
            max_batch_size=1,  # has no effect on the estimate
            memory_fraction_kind=memory_fraction_kind,
            memory_fraction_value=memory_fraction,
            systems_path=key.systems_path,
            **key.shape,
            **modes.arguments,
        )
    tokens = int(estimate["total_kv_size_tokens"])
    if tokens <= 0:
        raise NoKvBudget(f"{key}: no memory is left for a single token of KV cache")
    parts = estimate["memory_breakdown"]
    return MemoryEstimate(
        kv_tokens=tokens,
        kv_bytes_per_token=int(estimate["kv_size_per_token_bytes"]),
        capacity_bytes=int(estimate["total_gpu_capacity_bytes"]),
        weights_bytes=int(parts["weights_bytes"]),
        activations_bytes=int(parts["activations_bytes"]),
        runtime_bytes=int(parts["runtime_overhead_bytes"]),
        communication_bytes=int(parts["comm_overhead_bytes"]),
        kv_bytes=int(estimate["total_kv_size_bytes"]),
    )


def _sdk_estimate(*shape: Any, **settings: Any) -> dict[str, Any]:  # noqa: ANN401 - as the SDK's
    with pandas_when_used():
        from aiconfigurator_core.sdk.memory import estimate_kv_cache  # noqa: PLC0415 - costs start-up time

    estimate: dict[str, Any] = estimate_kv_cache(*shape, **settings)
    return estimate


def num_gpu_blocks(
    key: EngineKey,
    block_size: int,
    *,
    max_num_tokens: int,
    memory_fraction_kind: str,
    memory_fraction: float,
) -> int:
    """Whole KV blocks of `block_size` tokens that one rank holds. Raises like `kv_tokens`."""
    if block_size <= 0:
        raise InputError(f"AIC block_size: {block_size!r} must be positive")
    tokens = kv_tokens(
        key,
        max_num_tokens=max_num_tokens,
        memory_fraction_kind=memory_fraction_kind,
        memory_fraction=memory_fraction,
    )
    if tokens < block_size:
        raise NoKvBudget(f"{key}: the KV cache holds {tokens} tokens, less than one block of {block_size}")
    return tokens // block_size


def _check(key: EngineKey, max_num_tokens: int, kind: str, fraction: float) -> None:
    if max_num_tokens <= 0:
        raise InputError(f"AIC max_num_tokens: {max_num_tokens!r} must be positive")
    wanted = default_memory_fraction(key.backend)[0]
    if kind != wanted:
        raise InputError(f"AIC memory_fraction_kind: {kind!r} must be {wanted!r} for {key.backend}")
    if not (math.isfinite(fraction) and 0 <= fraction <= 1):
        raise InputError(f"AIC memory_fraction: {fraction!r} must be finite and between 0 and 1")
