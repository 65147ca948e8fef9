"""KV capacity of a rank, and whether its AIC timing describes the same engine (spec 02 section 1.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.timing.aic.engine import engine_key
from aisimulate.timing.aic.memory import num_gpu_blocks
from aisimulate.timing.aic.names import model_facts

if TYPE_CHECKING:
    from aisimulate.config.aic import AicConfig
    from aisimulate.config.engine import RoleConfig
    from aisimulate.config.rank import RankConfig
    from aisimulate.timing.aic.key import EngineKey

_EXPERT_SETTINGS = ("moe_tp_size", "moe_ep_size", "moe_dtype")

Estimate = Callable[["AicConfig", "RoleConfig"], int]


def check_consistency(aic: AicConfig, role: RoleConfig) -> None:
    """Check that the AIC settings describe the engine of `role`; raise `InputError` naming both values."""
    aic.validate_parallel_shape()
    rank = role.rank
    if aic.backend != rank.backend:
        raise InputError(f"AIC backend {aic.backend!r} does not match engine backend {rank.backend!r}")
    pairs = (
        ("tp", aic.tp, "tensor_parallel_size", role.tensor_parallel_size),
        ("attention_dp", aic.attention_dp, "dp_size", role.dp_size),
        ("kv_block_size", aic.kv_block_size, "block_size", rank.block_size),
        ("nextn", aic.nextn, "aic_nextn", rank.aic_nextn or 0),
    )
    for name, value, engine_name, engine_value in pairs:
        if value is not None and value != engine_value:
            raise InputError(f"AIC {name}={value} does not match engine {engine_name}={engine_value}")


def aic_engine_key(aic: AicConfig) -> EngineKey:
    """Identify the engine that `aic` describes, its version resolved to the literal of the data.

    Raises `InputError` for an unknown model, system, backend or version.
    """
    return engine_key(
        aic.model,
        aic.system,
        aic.backend,
        aic.backend_version,
        tp=aic.tp,
        pp=aic.pp,
        attention_dp=aic.attention_dp,
        moe_tp=aic.moe_tp_size,
        moe_ep=aic.moe_ep_size,
        gemm_dtype=aic.gemm_dtype,
        moe_dtype=aic.moe_dtype,
        fmha_dtype=aic.fmha_dtype,
        kv_cache_dtype=aic.kv_cache_dtype,
        comm_dtype=aic.comm_dtype,
        systems_path=aic.systems_path,
        allow_download=aic.allow_model_download,
    )


def estimate_blocks(aic: AicConfig, role: RoleConfig) -> int:
    """Estimate the KV blocks of one rank from AI Configurator's memory model.

    Raises `TimingError` when the engine does not fit the GPU, `InputError` for unknown names.
    """
    kind, fraction = aic.resolved_memory_fraction()
    return num_gpu_blocks(
        aic_engine_key(aic),
        role.rank.block_size,
        max_num_tokens=role.rank.max_num_batched_tokens,
        memory_fraction_kind=kind,
        memory_fraction=fraction,
    )


def materialize_capacity(
    aic: AicConfig, role: RoleConfig, explicit: bool, estimate: Estimate = estimate_blocks
) -> RankConfig:
    """Return the rank of `role` with its `num_gpu_blocks` settled.

    An explicit capacity is kept and `estimate` is not called; otherwise `estimate(aic, role)` gives it.
    Raises `InputError` for a mismatch of `aic` and `role`, or a capacity of zero blocks.
    """
    check_consistency(aic, role)
    if explicit:
        return role.rank
    blocks = estimate(aic, role)
    if blocks < 1:
        raise InputError("AIC estimated zero KV-cache blocks")
    return role.rank.model_copy(update={"num_gpu_blocks": blocks})


def unused_aic_fields(aic: AicConfig, explicit: bool) -> Iterator[tuple[str, str]]:
    """Name every AIC setting that was given but cannot act, each with the reason.

    `explicit`: the capacity is given, so no memory share is needed to estimate it. What belongs to another
    backend is named by `AicConfig.unused_fractions`. Raises like `model_facts`.
    """
    unused = []
    if explicit:
        unused.append((aic.fraction_name, "beside num_gpu_blocks"))
    if not model_facts(aic.model, aic.allow_model_download).is_moe:
        unused += [(name, f"on {aic.model}, which has no experts") for name in _EXPERT_SETTINGS]
    if aic.comm_dtype != "half":
        unused.append(("comm_dtype", "because the data price communication in half precision only"))
    for name, reason in unused:
        if getattr(aic, name) is not None:
            yield name, reason


def unused_aic_settings(aic: AicConfig, path: str, explicit: bool) -> Iterator[str]:
    """Say the same one line each; `path` is that of the rank. Raises like `model_facts`."""
    for name, reason in unused_aic_fields(aic, explicit):
        yield f"{path}.timing_model.config.{name}: no effect {reason}"
