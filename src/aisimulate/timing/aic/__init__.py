"""Measured pass times and KV capacity from AI Configurator (`aiconfigurator_core` 0.12, spec 04).

Only this sub-package imports `aiconfigurator_core`, and only inside functions: its SDK costs half a
second of start-up, while a worker process that received a compiled engine needs none of it.
"""

from aisimulate.timing.aic.engine import EngineSpecBlob, compile_engine_spec, engine_key, probe
from aisimulate.timing.aic.key import EngineKey
from aisimulate.timing.aic.memory import default_memory_fraction, kv_tokens, num_gpu_blocks
from aisimulate.timing.aic.names import ModelFacts, model_facts
from aisimulate.timing.aic.surface import AicTiming
from aisimulate.timing.aic.system import SystemFacts, known_systems, system_facts

__all__ = [
    "AicTiming",
    "EngineKey",
    "EngineSpecBlob",
    "ModelFacts",
    "SystemFacts",
    "compile_engine_spec",
    "default_memory_fraction",
    "engine_key",
    "known_systems",
    "kv_tokens",
    "model_facts",
    "num_gpu_blocks",
    "probe",
    "system_facts",
]
