"""Compiled engines: made once from a key, shipped to worker processes as a few kilobytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.timing.aic.key import EngineKey
from aisimulate.timing.aic.names import model_facts, resolve_model
from aisimulate.timing.aic.quant import resolve_modes
from aisimulate.timing.aic.sdk import sdk_call
from aisimulate.timing.aic.version import resolve_version

if TYPE_CHECKING:
    from aiconfigurator_core import AicEngine

_PROBE_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class EngineSpecBlob:
    """A compiled engine as bytes: picklable, and all a worker process needs to predict.

    `layers` is the model's number of layers (for speculative decoding); `advisories` are one-line notes
    on how far to trust the figures.
    """

    key: EngineKey
    spec: bytes
    sha256: str
    layers: int
    advisories: tuple[str, ...]

    @property
    def literal(self) -> str:
        """The backend version that the figures stand for."""
        return self.key.backend_version


def engine_key(
    model: str,
    system: str,
    backend: str,
    backend_version: str | None = None,
    **fields: Any,  # noqa: ANN401
) -> EngineKey:
    """Check names and resolve the version; `fields` are the remaining fields of `EngineKey`.

    Raises `InputError` (among them `ModelNotAvailable`, `UnknownSystem`, `UnknownBackendVersion`).
    """
    literal = resolve_version(system, backend, backend_version, fields.get("systems_path"))
    key = EngineKey(model, system, backend, literal, **fields)
    if model_facts(model, key.allow_download).is_moe and key.moe_tp is None and key.width > 1:
        raise InputError(
            f"AIC moe_tp, moe_ep: needed for {model}, a mixture of experts, "
            f"because tp * attention_dp is {key.width}"
        )
    return key


@lru_cache(maxsize=1024)
def compile_engine_spec(key: EngineKey) -> EngineSpecBlob:
    """Compile an engine (about 10 ms; the first one of a system and backend half a second or more).

    Compiling does not prove that data exist: see `probe`. Raises `ShapeNotViable`, `AicDataGap`,
    `InputError` or, for anything unforeseen, `TimingError`.
    """
    modes = resolve_modes(key)
    layers = model_facts(key.model, key.allow_download).layers
    with sdk_call(str(key)):
        from aiconfigurator_core.sdk.engine import compile_engine  # noqa: PLC0415 - costs start-up time

        spec = compile_engine(
            resolve_model(key.model, key.allow_download),
            key.system,
            key.backend,
            key.backend_version,
            systems_path=key.systems_path,
            **key.shape,
            **modes.arguments,
        )
    return EngineSpecBlob(key, spec, hashlib.sha256(spec).hexdigest(), layers, modes.advisories)


@lru_cache(maxsize=16)
def load_engine(blob: EngineSpecBlob) -> AicEngine:
    """Open a compiled engine in this process. Raises like the SDK calls it wraps (see `sdk_call`).

    The data folder is always named: without it the native code imports the SDK just to ask where it is.
    """
    import aiconfigurator_core  # noqa: PLC0415 - costs start-up time

    data = blob.key.systems_path or str(Path(aiconfigurator_core.__file__).parent / "systems")
    with sdk_call(str(blob.key), is_compiled=True):
        return aiconfigurator_core.AicEngine.from_spec(blob.spec, data)


def probe(blob: EngineSpecBlob, prefill: bool = True, decode: bool = True) -> None:
    """Prove that the asked roles can be timed, by one prediction each.

    Raises `AicDataGap` or `AicUnsupportedDtype`: the SDK finds out only when it predicts.
    """
    engine = load_engine(blob)
    with sdk_call(str(blob.key)):
        if prefill:
            engine.predict_prefill_latency(1, _PROBE_TOKENS, 0)
        if decode:
            engine.predict_decode_latency(1, _PROBE_TOKENS, 2)
