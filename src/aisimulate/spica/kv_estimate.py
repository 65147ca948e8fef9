"""How many KV tokens one rank of a shape holds, and which shapes hold a sequence (spec 05 section 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError, TimingError
from aisimulate.spica.dropped_shapes import DroppedShape
from aisimulate.spica.outcome import Reason
from aisimulate.timing.aic.availability import missing_memory_estimator
from aisimulate.timing.aic.engine import engine_key
from aisimulate.timing.aic.errors import NoKvBudget, ShapeNotViable, UnknownBackendVersion
from aisimulate.timing.aic.memory import default_memory_fraction, kv_tokens
from aisimulate.timing.aic.version import resolve_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aisimulate.spica.parallel_enum import ParallelShape
    from aisimulate.timing.aic.key import EngineKey

DEFAULT_MAX_NUM_TOKENS = 8192
DEFAULT_MAX_BATCH_SIZE = 256
DEFAULT_MEMORY_FRACTION = 0.9


class NoPerfDatabase(TimingError):
    """There is no performance data for a (SKU, backend) pair."""


@dataclass(frozen=True, slots=True)
class RoleKnobs:
    """The knobs of a role that decide how much of a GPU is left for KV.

    `given_tokens` is a rank's capacity where it is known, so that it need not be estimated.
    """

    max_num_tokens: int = DEFAULT_MAX_NUM_TOKENS
    memory_fraction: float = DEFAULT_MEMORY_FRACTION
    given_tokens: int | None = None


def memory_fraction_kind(backend: str) -> str:
    """Say what a backend's memory fraction is a share of: `of_free` (trtllm) or `of_total` memory."""
    return default_memory_fraction(backend)[0]


def estimator_missing_reason() -> str | None:
    """Name the missing piece when KV capacities cannot be estimated, else return None."""
    return missing_memory_estimator()


def resolve_backend_version(hardware_sku: str, backend: str, requested: str | None = None) -> str:
    """Turn None (= current), a slot name or a literal into the literal backend version.

    Raises NoPerfDatabase when the SKU has no data for the backend, InputError for an unknown SKU, backend or
    requested version.
    """
    try:
        return resolve_version(hardware_sku, backend, requested)
    except UnknownBackendVersion as error:
        if requested is not None:
            raise
        raise NoPerfDatabase(f"no performance data for {backend} on {hardware_sku}") from error


def shape_engine_key(
    shape: ParallelShape,
    *,
    model_name: str,
    hardware_sku: str,
    backend: str,
    backend_version: str,
    allow_model_download: bool = False,
) -> EngineKey:
    """Identify the engine that serves a model in one shape."""
    # A shape without expert parallelism (every dense one) leaves the expert sizes unsaid.
    experts = {"moe_tp": shape.moe_tp, "moe_ep": shape.moe_ep} if shape.moe_tp * shape.moe_ep > 1 else {}
    sizes = {"tp": shape.tp, "pp": shape.pp, "attention_dp": shape.dp}
    return engine_key(
        model_name,
        hardware_sku,
        backend,
        backend_version,
        allow_download=allow_model_download,
        **sizes,
        **experts,
    )


def estimate_kv_tokens(
    shape: ParallelShape,
    *,
    model_name: str,
    hardware_sku: str,
    backend: str,
    backend_version: str,
    max_num_tokens: int = DEFAULT_MAX_NUM_TOKENS,
    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
    memory_fraction: float = DEFAULT_MEMORY_FRACTION,
    nextn: int = 0,
    allow_model_download: bool = False,
) -> int | None:
    """Estimate how many tokens the KV cache of one rank holds.

    None means that the shape cannot run: no memory is left, or the model cannot be cut that way. The
    estimate does not depend on `max_batch_size` and `nextn` (04 section 6). Other errors propagate.
    """
    del max_batch_size, nextn
    key = shape_engine_key(
        shape,
        model_name=model_name,
        hardware_sku=hardware_sku,
        backend=backend,
        backend_version=backend_version,
        allow_model_download=allow_model_download,
    )
    try:
        return _kv_tokens(key, max_num_tokens, memory_fraction)
    except (NoKvBudget, ShapeNotViable):
        return None


def _kv_tokens(key: EngineKey, max_num_tokens: int, memory_fraction: float) -> int:
    return kv_tokens(
        key,
        max_num_tokens=max_num_tokens,
        memory_fraction_kind=memory_fraction_kind(key.backend),
        memory_fraction=memory_fraction,
    )


def feasible_shape_tokens(
    shapes: Iterable[ParallelShape],
    *,
    model_name: str,
    hardware_sku: str,
    backend: str,
    max_seq_len: int | None,
    backend_version: str | None = None,
    max_num_tokens: int = DEFAULT_MAX_NUM_TOKENS,
    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
    memory_fraction: float = DEFAULT_MEMORY_FRACTION,
    nextn: int = 0,
    allow_model_download: bool = False,
    given_tokens: int | None = None,
    role: str = "agg",
    length_hint: str = "",
    on_drop: Callable[[DroppedShape], None] | None = None,
) -> dict[ParallelShape, int]:
    """Estimate each distinct shape once and keep those that hold more than `max_seq_len` tokens.

    Returns KV tokens per rank, in order, which are `given_tokens` where that is set; `on_drop` gets the
    others, `length_hint` added where the length is to blame. `max_batch_size` and `nextn` do not matter
    (04 section 6). Raises InputError, NoPerfDatabase.
    """
    del max_batch_size, nextn
    if max_seq_len is None:
        raise InputError("max_seq_len is required: set context_length, the model states no maximum")
    engine: dict[str, Any] = {
        "model_name": model_name,
        "hardware_sku": hardware_sku,
        "backend": backend,
        "backend_version": backend_version or resolve_backend_version(hardware_sku, backend),
        "allow_model_download": allow_model_download,
    }
    knobs = RoleKnobs(max_num_tokens, memory_fraction, given_tokens)
    kept: dict[ParallelShape, int] = {}
    for shape in dict.fromkeys(shapes):
        found = _tokens_or_refusal(shape_engine_key(shape, **engine), knobs, max_seq_len, length_hint)
        if isinstance(found, int):
            kept[shape] = found
        elif on_drop:
            on_drop(DroppedShape(shape, role, *found))
    return kept


def _role_tokens(key: EngineKey, knobs: RoleKnobs) -> int:
    """Give a rank's KV tokens; also where they are given, the model must allow the shape."""
    try:
        estimated = _kv_tokens(key, knobs.max_num_tokens, knobs.memory_fraction)
    except NoKvBudget:
        if knobs.given_tokens is None:
            raise
        return knobs.given_tokens
    return estimated if knobs.given_tokens is None else knobs.given_tokens


def _tokens_or_refusal(
    key: EngineKey, knobs: RoleKnobs, max_seq_len: int, length_hint: str
) -> int | tuple[Reason, str]:
    """Give a rank's KV tokens, or category and text of why the shape cannot hold a sequence."""
    try:
        tokens = _role_tokens(key, knobs)
    except ShapeNotViable as error:
        return Reason.SHAPE_NOT_VIABLE, str(error).removeprefix(f"{key}: ")
    except NoKvBudget:
        return Reason.KV_CAPACITY, "weights and activations leave no memory for KV cache"
    if tokens > max_seq_len:
        return tokens
    length = f"{max_seq_len} tokens{length_hint}"
    return Reason.KV_CAPACITY, f"KV capacity of a rank does not exceed {length}"
