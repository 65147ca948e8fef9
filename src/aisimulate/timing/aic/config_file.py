"""A user's own config.json, checked before AI Configurator stumbles over it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aisimulate.core.shown import show

_REQUIRED = ("hidden_size", "num_attention_heads", "vocab_size", "max_position_embeddings")
# Null counts as absent. The number of layers may also follow from a pattern.
_OPTIONAL = (
    "num_hidden_layers",
    "num_key_value_heads",
    "intermediate_size",
    "head_dim",
    "attention_head_dim",
    "num_experts_per_tok",
    "top_k_experts",
    "moe_top_k",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_experts",
    "moe_intermediate_size",
    "num_nextn_predict_layers",
)
# Where one is given, heads do not split the hidden size.
_HEAD_SIZES = ("head_dim", "attention_head_dim", "qk_nope_head_dim", "qk_head_dim", "kv_lora_rank")
_AT_LEAST_ONE = (*_REQUIRED, "num_hidden_layers")


def config_problem(file: Path) -> str | None:
    """Say in one line, by key, what is wrong with a model's config.json; None when nothing is.

    Looks at what every model needs; the rest is known to AI Configurator only.
    """
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(config, dict):
        return f"{show(config)} is not an object"
    return _object_problem(config)


def explain(error: Exception) -> str:
    """Word an exception that AI Configurator raised over a config.json."""
    if isinstance(error, KeyError):
        return f"the key {show(error.args[0] if error.args else '')} is missing"
    return str(error) or type(error).__name__


def _object_problem(config: dict[str, Any]) -> str | None:
    names = config.get("architectures")
    if not (isinstance(names, list) and names and isinstance(names[0], str)):
        return _described("architectures", names, "a list of names")
    section, path = _text_section(config, names[0])
    if not isinstance(section, dict):
        return _described(path, section, "an object")
    for key in _REQUIRED + _OPTIONAL:
        value, least = section.get(key), int(key in _AT_LEAST_ONE)
        if type(value) is int and value >= least:
            continue
        if value is not None or key in _REQUIRED:
            return _described(f"{path}.{key}".lstrip("."), value, f"a whole number from {least} on")
    if problem := _heads_problem(section, path):
        return problem
    if not isinstance(config.get("quantization_config") or {}, dict):
        return _described("quantization_config", config["quantization_config"], "an object")
    return None


def _heads_problem(section: dict[str, Any], path: str) -> str | None:
    """Say what does not divide: KV heads the heads, and, where no head has a size, heads the hidden size."""
    prefix = f"{path}." if path else ""
    heads, hidden = section["num_attention_heads"], section["hidden_size"]
    shared = section.get("num_key_value_heads")
    if shared and heads % shared:
        return f"{prefix}num_key_value_heads {shared} does not divide num_attention_heads {heads}"
    told = any(section.get(name) for name in _HEAD_SIZES)
    if not told and hidden % heads:
        rule = f"is not divisible by num_attention_heads {heads}, and no head_dim is given"
        return f"{prefix}hidden_size {hidden} {rule}"
    return None


def _text_section(config: dict[str, Any], architecture: str) -> tuple[Any, str]:
    """Find the object that describes the language model, and its key ("" for the whole file)."""
    from aiconfigurator_core.sdk.common import MULTIMODAL_TEXT_CONFIG_KEY  # noqa: PLC0415 - start-up time

    key = MULTIMODAL_TEXT_CONFIG_KEY.get(architecture)
    return (config[key], key) if key in config else (config, "")


def _described(key: str, value: object, rule: str) -> str:
    if value is None:
        return f"the key {key!r} is missing"
    return f"{key} {show(value)} is not {rule}"
