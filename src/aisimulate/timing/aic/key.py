"""What identifies a compiled engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aisimulate.core.errors import InputError, nearest
from aisimulate.core.shown import show, show_python

BACKENDS = ("vllm", "sglang", "trtllm")
_SIZES = ("tp", "pp", "attention_dp", "moe_tp", "moe_ep")


@dataclass(frozen=True, slots=True)
class EngineKey:
    """One model on one kind of GPU, served by one backend version in one parallel shape.

    `backend_version` is a literal (see `engine_key` for aliases). The dtypes are what the user fixed;
    None leaves the choice to the checkpoint and the data. `systems_path` replaces the bundled performance
    data. Sizes are numbers of GPUs. Raises `InputError` when the sizes contradict each other.
    """

    model: str
    system: str
    backend: str
    backend_version: str
    tp: int = 1
    pp: int = 1
    attention_dp: int = 1
    moe_tp: int | None = None
    moe_ep: int | None = None
    gemm_dtype: str | None = None
    moe_dtype: str | None = None
    fmha_dtype: str | None = None
    kv_cache_dtype: str | None = None
    comm_dtype: str | None = None
    systems_path: str | None = None
    allow_download: bool = False

    def __post_init__(self) -> None:
        check_backend(self.backend)
        for name in _SIZES:
            value = getattr(self, name)
            if value is not None and not (type(value) is int and value > 0):
                raise InputError(f"AIC {name}: {show_python(value)} must be a positive integer")
        if (self.moe_tp is None) != (self.moe_ep is None):
            raise InputError(f"AIC moe_tp: {self.moe_tp} and moe_ep: {self.moe_ep} must be set together")
        if self.moe_tp and self.moe_ep and self.moe_tp * self.moe_ep != self.width:
            raise InputError(
                f"AIC shape: tp {self.tp} * attention_dp {self.attention_dp} must equal "
                f"moe_tp {self.moe_tp} * moe_ep {self.moe_ep}"
            )

    @property
    def width(self) -> int:
        """GPUs of one pipeline stage."""
        return self.tp * self.attention_dp

    @property
    def shape(self) -> dict[str, Any]:
        """The parallel shape under the SDK's argument names."""
        return {
            "tp_size": self.tp,
            "pp_size": self.pp,
            "attention_dp_size": self.attention_dp,
            "moe_tp_size": self.moe_tp,
            "moe_ep_size": self.moe_ep,
        }

    def __str__(self) -> str:
        sizes = " ".join(
            f"{name}={getattr(self, name)}" for name in _SIZES if getattr(self, name) is not None
        )
        return f"{self.model} on {self.system} with {self.backend} {self.backend_version} ({sizes})"


def check_backend(backend: str) -> None:
    """Raise `InputError` when AI Configurator has no such backend."""
    if backend not in BACKENDS:
        raise InputError(
            f"AIC backend: {show(backend)} must be one of {', '.join(BACKENDS)}{nearest(backend, BACKENDS)}"
        )
