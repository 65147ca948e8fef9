"""Data types of weights, attention and KV cache: the user's, the checkpoint's, or what the data offers.

The SDK's compiler leaves out three steps that its own command line takes, and without them whole model
families have no data (spec 04 section 3.1). We take them here, for latency and for memory alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError, nearest
from aisimulate.core.shown import show
from aisimulate.timing.aic.errors import AicDataGap
from aisimulate.timing.aic.names import resolve_model
from aisimulate.timing.aic.sdk import sdk_call

if TYPE_CHECKING:
    from aisimulate.timing.aic.key import EngineKey

# Our field -> the SDK's argument and the enumeration of its legal names.
_DTYPES = {
    "gemm_dtype": ("gemm_quant_mode", "GEMMQuantMode"),
    "moe_dtype": ("moe_quant_mode", "MoEQuantMode"),
    "fmha_dtype": ("fmha_quant_mode", "FMHAQuantMode"),
    "kv_cache_dtype": ("kvcache_quant_mode", "KVCacheQuantMode"),
    "comm_dtype": ("comm_quant_mode", "CommQuantMode"),
}


@dataclass(frozen=True, slots=True)
class ResolvedModes:
    """`arguments`: what to pass to the SDK. `effective`: what the model then runs with, under our names.

    Of the `advisories`, `replaced` tell of data types without data.
    """

    arguments: dict[str, Any]
    effective: dict[str, str]
    advisories: tuple[str, ...] = field(default=())
    replaced: tuple[str, ...] = field(default=())


@lru_cache(maxsize=1024)
def resolve_modes(key: EngineKey) -> ResolvedModes:
    """Settle the data types of an engine; those that the user fixed win.

    Raises `InputError` for an unknown dtype name, `AicDataGap` for a fixed one without data,
    `ShapeNotViable` for a shape that the model does not allow.
    """
    overrides = _overrides(key)
    model = resolve_model(key.model, key.allow_download)
    with sdk_call(str(key)):
        from aiconfigurator_core.sdk.models import get_model  # noqa: PLC0415 - costs start-up time
        from aiconfigurator_core.sdk.models.helpers import (  # noqa: PLC0415 - costs start-up time
            resolve_dsv4_moe_arch,
            resolve_nvfp4_for_system,
        )

        config = model_config(key, overrides)
        resolve_dsv4_moe_arch(config, model, system_name=key.system, backend_name=key.backend)
        resolve_nvfp4_for_system(config, key.system, model, backend_name=key.backend)
        replaced = _resolve_attention(key, model, config)
        effective = replace(config)
        get_model(model, effective, key.backend)
    modes = {name: _mode(effective, argument) for name, (argument, _) in _DTYPES.items()}
    arguments = {argument: _mode(config, argument) for argument, _ in _DTYPES.values()}
    return ResolvedModes(
        {argument: mode for argument, mode in arguments.items() if mode},
        {name: mode for name, mode in modes.items() if mode},
        replaced + _anomalies(key, modes),
        replaced,
    )


def _overrides(key: EngineKey) -> dict[str, Any]:
    """Check the user's dtype names; keyed by the SDK's argument names."""
    from aiconfigurator_core.sdk import common  # noqa: PLC0415 - costs start-up time

    overrides: dict[str, Any] = {}
    for name, (argument, enumeration) in _DTYPES.items():
        value = getattr(key, name)
        legal = list(getattr(common, enumeration).__members__)
        if value is not None and value not in legal:
            raise InputError(
                f"AIC {name}: {show(value)} must be one of {', '.join(legal)}{nearest(value, legal)}"
            )
        if value is not None:
            overrides[argument] = value
    return overrides


def model_config(key: EngineKey, overrides: dict[str, Any]) -> Any:  # noqa: ANN401 - an untyped SDK object
    """Describe the engine to the SDK; `overrides` are its dtype arguments. Call it inside `sdk_call`."""
    from aiconfigurator_core.sdk.config_builders import build_model_config  # noqa: PLC0415 - start-up time

    return build_model_config(key.tp, key.pp, key.attention_dp, key.moe_tp or 1, key.moe_ep or 1, **overrides)


def _resolve_attention(key: EngineKey, model: str, config: Any) -> tuple[str, ...]:  # noqa: ANN401 - SDK object
    """Fall back to bfloat16 prefill attention where fp8 has no data.

    The SDK's resolver reads the attention tables (half a second), so it runs only when fp8 is at stake.
    """
    from aiconfigurator_core.sdk.models import get_model  # noqa: PLC0415 - costs start-up time
    from aiconfigurator_core.sdk.models.helpers import (  # noqa: PLC0415 - costs start-up time
        resolve_context_fmha_by_data,
    )
    from aiconfigurator_core.sdk.perf_database import get_database  # noqa: PLC0415 - costs start-up time

    before = config.fmha_quant_mode
    trial = replace(config)
    get_model(model, trial, key.backend)
    if _mode(trial, "fmha_quant_mode") != "fp8":
        return ()
    database = get_database(key.system, key.backend, key.backend_version, systems_paths=key.systems_path)
    try:
        resolve_context_fmha_by_data(config, model, database, key.backend, is_context_role=True)
    except ValueError:
        raise AicDataGap(
            f"{key}: fmha_dtype: {key.fmha_dtype!r} has no prefill-attention data; "
            "use bfloat16 or leave it unset"
        ) from None
    if config.fmha_quant_mode is before:
        return ()
    return (
        f"{key.backend} {key.backend_version} on {key.system} has no fp8 prefill-attention data for "
        f"{key.model}: bfloat16 data are used, which is conservative",
    )


def _anomalies(key: EngineKey, modes: dict[str, str]) -> tuple[str, ...]:
    """Warn of data that are measured but not plausible (spec 04 section 8)."""
    if key.backend == "vllm" and modes["gemm_dtype"] == "fp8_block":
        return (
            f"the vllm {key.backend_version} data for block-fp8 weights are slower than bfloat16, which is "
            "not physical: prefer bfloat16 or nvfp4 weights, or another backend, for conclusions",
        )
    return ()


def _mode(config: Any, argument: str) -> str:  # noqa: ANN401 - an untyped SDK object
    mode = getattr(config, argument)
    return "" if mode is None else str(mode.name)
