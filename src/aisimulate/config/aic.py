"""Settings of the measured-data timing provider `aic` (spec 02 section 1.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from aisimulate.config.base import U32, StrictModel
from aisimulate.config.messages import not_one_of, parse_model, quoted
from aisimulate.config.rank import RankConfig
from aisimulate.config.timing import ExternalTiming
from aisimulate.core.errors import InputError

PROVIDER = "aic"
MAX_NEXTN = 5

# Per backend: what the memory fraction is a fraction of, which field sets it, and its default.
_FRACTIONS = {
    "vllm": ("of_total", "gpu_memory_utilization", 0.9),
    "sglang": ("of_total", "mem_fraction_static", 0.88),
    "trtllm": ("of_free", "free_gpu_memory_fraction", 0.9),
}
_PARALLEL_SIZES = ("tp", "pp", "attention_dp", "moe_tp_size", "moe_ep_size")


class AicConfig(StrictModel):
    """One engine as AI Configurator knows it.

    Parallel shape and memory fractions are checked by `check`, not on construction.
    """

    field_aliases: ClassVar[Mapping[str, str]] = {
        "tp_size": "tp",
        "gemm_quant_mode": "gemm_dtype",
        "moe_quant_mode": "moe_dtype",
        "fmha_quant_mode": "fmha_dtype",
        "kvcache_quant_mode": "kv_cache_dtype",
        "comm_quant_mode": "comm_dtype",
    }

    model: str
    """the model to serve :rule: a bundled name, or a folder that holds a `config.json` (start the path with
    `.`, `~` or `/`)"""
    backend: str
    """the engine :rule: that of the rank"""
    system: str
    """the kind of GPU :rule: one of the names that the error lists"""
    tp: U32
    """tensor parallelism (also `tp_size`) :unit: GPUs :rule: only the engine's `tensor_parallel_size`"""
    backend_version: str | None = None
    """the engine's version; null is `current` :rule: a version with data, `current`, `next` or `previous`"""
    pp: U32 = 1
    """pipeline stages :unit: stages :rule: only 1 and more"""
    attention_dp: U32 = 1
    """attention data parallelism :unit: ranks :rule: only the engine's `dp_size`"""
    moe_tp_size: U32 | None = None
    """ways each expert is split :unit: ways :rule: only beside `moe_ep_size`; the product of both is tp x
    attention_dp"""
    moe_ep_size: U32 | None = None
    """ways the experts are spread :unit: ways :rule: only beside `moe_tp_size`"""
    gemm_dtype: str | None = None
    """data type of weights (also `gemm_quant_mode`); null leaves it to the checkpoint, here and below :rule:
    a name that the error lists"""
    moe_dtype: str | None = None
    """of expert weights (also `moe_quant_mode`) :rule: likewise"""
    fmha_dtype: str | None = None
    """of prefill attention (also `fmha_quant_mode`) :rule: likewise; must have data"""
    kv_cache_dtype: str | None = None
    """of the KV cache (also `kvcache_quant_mode`) :rule: likewise"""
    comm_dtype: str | None = None
    """of communication (also `comm_quant_mode`); the data have `half` only :rule: likewise"""
    nextn: U32 = 0
    """tokens guessed ahead: a pass costs the verification of all :unit: tokens :rule: only 0 to 5,
    `aic_nextn` of the rank"""
    kv_block_size: U32 | None = None
    """only checked :rule: only `block_size` of the rank"""
    gpu_memory_utilization: float | None = None
    """vllm: share of memory in use; null is 0.9 :unit: share :rule: 0 to 1"""
    mem_fraction_static: float | None = None
    """sglang: the same; null is 0.88 :unit: share :rule: 0 to 1"""
    free_gpu_memory_fraction: float | None = None
    """trtllm: share of free memory; null is 0.9 :unit: share :rule: 0 to 1"""
    systems_path: str | None = None
    """other performance data than the bundled ones :rule: a folder"""
    allow_model_download: bool = False
    """fetch the `config.json` of a model that is neither bundled nor in a folder from Hugging Face"""

    @property
    def unused_fractions(self) -> tuple[str, ...]:
        """The memory fractions that are set although another backend uses them."""
        names = [name for backend, (_, name, _) in _FRACTIONS.items() if backend != self.backend]
        return tuple(name for name in names if getattr(self, name) is not None)

    @property
    def fraction_name(self) -> str:
        """The memory fraction that the (known) backend uses."""
        return _FRACTIONS[self.backend][1]

    def check(self) -> None:
        """Apply every rule that needs no engine; raise `InputError` (spec 02 section 1.4)."""
        for name in ("model", "system"):
            if not getattr(self, name).strip():
                raise InputError(f"AIC timing config field {name!r} cannot be empty")
        self.validate_parallel_shape()
        if self.backend_version is not None and not self.backend_version.strip():
            raise InputError("AIC backend version cannot be empty")
        self.resolved_memory_fraction()

    def validate_parallel_shape(self) -> None:
        """Check that the parallel sizes are positive and fit together; raise `InputError`."""
        sizes = {name: getattr(self, name) for name in _PARALLEL_SIZES}
        zero = [name for name, size in sizes.items() if size == 0]
        if zero:
            names = "tp, pp, attention_dp, moe_tp_size, and moe_ep_size"
            raise InputError(f"AIC timing parallel sizes {names} must be positive, got {zero[0]}=0")
        if self.nextn > MAX_NEXTN:
            raise InputError(f"AIC nextn must be in 0..={MAX_NEXTN}, got {self.nextn}")
        if (self.moe_tp_size is None) != (self.moe_ep_size is None):
            raise InputError("AIC moe_tp_size and moe_ep_size must be configured together")
        self._validate_moe_width()

    def _validate_moe_width(self) -> None:
        if self.moe_tp_size is None or self.moe_ep_size is None:
            return
        attention, moe = self.tp * self.attention_dp, self.moe_tp_size * self.moe_ep_size
        if attention != moe:
            rule = "AIC topology requires tp * attention_dp == moe_tp_size * moe_ep_size"
            raise InputError(
                f"{rule}, got {self.tp} * {self.attention_dp} != {self.moe_tp_size} * {self.moe_ep_size}"
            )

    def resolved_memory_fraction(self) -> tuple[str, float]:
        """Return (kind, value) of the fraction this backend uses; all three are checked all the same.

        Kind is `of_total` or `of_free`. Raises `InputError` naming a fraction outside 0..1, or an unknown
        backend.
        """
        for _, name, _ in _FRACTIONS.values():
            fraction = getattr(self, name)
            if fraction is not None and not (math.isfinite(fraction) and 0 <= fraction <= 1):
                raise InputError(f"{name} must be finite and between 0 and 1, got {fraction:g}")
        if self.backend not in _FRACTIONS:
            raise InputError(f"unsupported AIC backend: {not_one_of(self.backend, tuple(_FRACTIONS))}")
        kind, name, default = _FRACTIONS[self.backend]
        authored = getattr(self, name)
        return kind, default if authored is None else authored


def aic_config(rank: RankConfig, path: str = "spec.engine.rank") -> AicConfig | None:
    """Read and check the AIC settings of a rank; None when its timing is built in.

    Raises `InputError` for another provider and for every broken rule of the settings.
    """
    timing = rank.timing_model
    if not isinstance(timing, ExternalTiming):
        return None
    if timing.provider != PROVIDER:
        raise InputError(
            f"{path}.timing_model.provider: native timing provider {quoted(timing.provider)} "
            f'is not installed; only "{PROVIDER}" is available'
        )
    root = f"{path}.timing_model.config"
    config = parse_model(AicConfig, timing.config, root)
    try:
        config.check()
    except InputError as error:
        raise InputError(f"{root}: {error}") from None
    return config
